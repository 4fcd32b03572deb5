package prefixindex

import "unsafe"

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

// account brings the index's sum in line with what w needs now. The caller holds w.mu.
func (w *Writer) account() {
	now := w.contents.bytes()
	w.ix.owned.Add(now - w.bytes.Swap(now))
}

// enforce keeps the index within Options.MaxBytes after a write: the owner that needs
// most gives up an eighth of its blocks, until there is some room again. The caller
// holds no lock.
func (ix *Index) enforce() {
	limit := ix.options.MaxBytes
	if limit == 0 || ix.bytes() <= limit || !ix.enforcing.TryLock() {
		return
	}
	defer ix.enforcing.Unlock()
	ix.sweep(-1)
	for ix.bytes() > limit-limit/32 {
		var most *Writer
		for _, page := range ix.roster.Load().members {
			for i := range page {
				for _, s := range page[i].seats {
					if most == nil || s.writer.bytes.Load() > most.bytes.Load() {
						most = s.writer
					}
				}
			}
		}
		if most == nil || !most.shed() {
			return
		}
		ix.records.trim()
	}
}

// shed gives up an eighth of an owner's blocks and the memory that lies idle. It reports
// whether that was anything.
func (w *Writer) shed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Load() {
		return true // its memory is swept
	}
	defer w.account()
	c := w.contents
	before, bytes := c.holdings, c.bytes()
	for target := before - before/8 - 1; c.holdings > target && c.evict(); {
	}
	w.stats.Evicted += uint64(before - c.holdings)
	c.trimGhosts()
	if c.entries.n > pageLen {
		c.compact()
	}
	return c.holdings < before || c.bytes() < bytes
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
