package prefixindex

import (
	"slices"
	"unsafe"
)

// bytes returns the memory of the index, as far as it grows. O(members/64).
func (ix *Index) bytes() int64 {
	r := ix.roster.Load()
	n := int64(unsafe.Sizeof(*ix)) + ix.records.bytes.Load() + ix.owned.Load()
	n += int64(len(r.slots)) * int64(unsafe.Sizeof(slotPage{})+unsafe.Sizeof(slotState{}))
	n += int64(len(r.members)) * int64(unsafe.Sizeof(memberPage{}))
	n += int64(r.seated) * int64(unsafe.Sizeof(Writer{})+unsafe.Sizeof(seat{}))
	return n
}

// Bytes that a block takes: once, and for each owner that holds it. Tables and slabs
// grow by a quarter, so that it is a little more or less at any moment.
const (
	recordBytes  = 26
	holdingBytes = 37
)

// Estimate returns about how many bytes an index needs in which owners hold holdings
// blocks in all, of which blocks are different (Stats.Holdings and Stats.Blocks), if
// engine blocks are of the index's size and on GPU only. Farther tiers add about a
// fifth; engine blocks smaller than the index's, a holding for each of them and the
// tokens.
//
// O(1).
func Estimate(blocks, holdings int) int64 {
	return int64(unsafe.Sizeof(Index{})) + recordBytes*int64(blocks) + holdingBytes*int64(holdings)
}

// account brings the index's sums in line with what w needs and holds now. The caller
// holds w.mu.
func (w *Writer) account() { w.accountFor(w.contents.bytes(), int64(w.contents.holdings())) }

func (w *Writer) accountFor(bytes, held int64) {
	w.ix.owned.Add(bytes - w.bytes.Swap(bytes))
	w.ix.held.Add(held - w.held.Swap(held))
}

// enforce keeps the index within Options.MaxBytes after a write: the owners that need most
// give up an eighth of what they have, until there is some room again. Where nobody has
// anything to give up, it tries again once there is that much more. The caller holds no
// lock.
func (ix *Index) enforce() {
	limit := ix.options.MaxBytes
	if limit == 0 || ix.bytes() <= max(limit, ix.stuck.Load()) || !ix.enforcing.TryLock() {
		return
	}
	defer ix.enforcing.Unlock()
	ix.sweep(-1)
	room := limit / 32
	var owners []*Writer
	for s := range ix.roster.Load().seats() {
		owners = append(owners, s.writer)
	}
	for ix.bytes() > limit-room && len(owners) > 0 {
		most := int64(0)
		for _, w := range owners {
			most = max(most, w.bytes.Load())
		}
		owners = slices.DeleteFunc(owners, func(w *Writer) bool {
			return w.bytes.Load() >= most-most/8 && ix.bytes() > limit-room && !w.shed()
		})
		ix.records.trim()
	}
	ix.stuck.Store(0)
	if b := ix.bytes(); b > limit {
		ix.stuck.Store(b + room)
	}
}

// shed gives up an eighth of what an owner has, and the memory that lies idle. It reports
// whether that was anything.
func (w *Writer) shed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Load() {
		return false // its memory is swept
	}
	defer w.account()
	c := w.contents
	before, used, bytes := c.holdings(), c.used, c.bytes()
	c.dropParked((len(c.orphans.byName) + 7) / 8)
	for range (len(c.expected.open) + 7) / 8 {
		c.endExpectation()
	}
	c.forgetTo(max(used-used/8-1, 0))
	w.stats.Evicted += uint64(max(before-c.holdings(), 0))
	if c.entries.n > pageLen {
		c.compact()
	}
	return c.used < used || c.bytes() < bytes
}

// trim rebuilds the tables that lie idle to a large part.
func (r *records) trim() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		if t := s.tab.Load(); len(t.recs) > 1 && float64(t.live) < (loadLeast-0.06)*float64(len(t.recs)) {
			t.want = 0
			r.rebuild(s, t, 0)
		}
		s.mu.Unlock()
	}
}
