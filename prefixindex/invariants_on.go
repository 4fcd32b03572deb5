//go:build invariants

package prefixindex

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
)

// atYield, if a test sets it, is what yield does.
var atYield atomic.Pointer[func(where string)]

// yield lets others run now and then, where the order of what readers and writers do
// matters. A test may have a certain other thing happen there.
func yield(where string) {
	if f := atYield.Load(); f != nil {
		(*f)(where)
		return
	}
	if rand.Uint32N(32) == 0 {
		for range 1 + rand.Uint32N(20) {
			runtime.Gosched()
		}
	}
}

// checkInvariants checks the whole structure of an owner after a write, and panics
// where it contradicts itself. O(entries).
func (w *Writer) checkInvariants() {
	c := w.contents
	if w.ended.Load() || rand.Int64N(1+int64(c.entries.n)+w.ix.held.Load()) >= 512 {
		return // what is large only now and then
	}
	bad := func(n uint32, format string, args ...any) {
		panic(fmt.Sprintf("prefixindex: %q rank %d, entry %d: ", w.name, w.rank, n) + fmt.Sprintf(format, args...))
	}
	n := c.entries.n
	known := make([]int, n)
	held := make([][levels]int, n)
	used, handles, ghosts, assumed, partial, aliased := 0, 0, 0, 0, 0, 0
	tips := map[uint64]bool{}
	bits := [levels]map[uint64]uint32{}   // held blocks: their position
	orphan := [levels]map[uint64]uint32{} // parents of held blocks
	for l := range levels {
		bits[l], orphan[l] = map[uint64]uint32{}, map[uint64]uint32{}
	}
	for i := uint32(1); i < n; i++ {
		e := c.entries.at(i)
		if e.kind() == kindFree {
			continue
		}
		used++
		if e.kind() != kindRoot {
			if p := c.entries.at(e.parent); p.kind() == kindFree {
				bad(i, "parent %d is free", e.parent)
			}
			known[e.parent]++
		}
		switch e.kind() {
		case kindHandle:
			handles++
			if c.credit(i) == 0 {
				ghosts++
				if e.known == 0 && e.flags&flagQueued == 0 {
					bad(i, "a ghost without children is not queued")
				}
			}
			if c.findName(e.key(), e.group()) != i {
				bad(i, "engine hash %#x does not lead to it", e.key())
			}
		case kindAssumed:
			if e.copies > 0 {
				assumed++
			}
		}
		switch {
		case !e.border():
			partial++
		case c.indexed:
			if tips[e.tip()] {
				aliased++
			}
			tips[e.tip()] = true
			found := false
			c.aliases(e.tip(), func(m uint32, _ *entry) bool { found = m == i; return !found })
			if !found {
				bad(i, "block hash %#x does not lead to it", e.tip())
			}
		}
		if e.kind() == kindRoot {
			continue
		}
		for l := range levels {
			if !c.distinct(l) {
				continue
			}
			p := c.entries.at(e.parent)
			want := c.has(i, l) && (p.border() || p.full(l))
			if e.full(l) != want {
				bad(i, "full at level %d is %v, want %v", l, e.full(l), want)
			}
			if e.border() && want {
				above := c.above(e)
				held[above][l]++
				bits[l][e.tip()] = e.depth() - 1
				if a := c.entries.at(above); a.kind() != kindRoot {
					orphan[l][a.tip()] = a.depth() - 1
				}
			}
		}
	}
	for i := uint32(1); i < n; i++ {
		e := c.entries.at(i)
		if e.kind() == kindFree {
			continue
		}
		if got := c.value(&e.known, counterOf(countKnown, i)); got != known[i] {
			bad(i, "counts %d children, has %d", got, known[i])
		}
		for l := range levels {
			if c.distinct(l) {
				if got := c.value(c.heldCounter(i, l), counterOf(uint64(l), i)); got != held[i][l] {
					bad(i, "counts %d held children at level %d, has %d", got, l, held[i][l])
				}
				if e.border() && e.kind() != kindRoot {
					_, want := bits[l][e.tip()]
					t := c.ix.records.table(e.tip())
					if got := t.has(t.find(e.tip()), c.slots[l]); got != want {
						bad(i, "readers see held %v at level %d, want %v", got, l, want)
					}
				}
			}
		}
	}
	for l := range levels {
		if !c.distinct(l) {
			continue
		}
		for tip := range bits[l] {
			delete(orphan[l], tip)
		}
		h := &c.holes[l]
		if len(h.known) != len(orphan[l]) {
			bad(0, "%d holes noted at level %d, want %d", len(h.known), l, len(orphan[l]))
		}
		state, k := c.ix.slotState(c.slots[l])
		if (state.walk.Load()>>k&1 != 0) != h.walking {
			bad(0, "readers are told to walk: %v, want %v", !h.walking, h.walking)
		}
		if !h.walking && (state.holed.Load()>>k&1 != 0) != (len(h.known) > 0) {
			bad(0, "readers are told of holes wrongly: %d", len(h.known))
		}
		for tip, depth := range orphan[l] {
			x, ok := h.known[tip]
			if !ok || x.depth != depth {
				bad(0, "hole %#x at %d is noted as %v", tip, depth, x)
			}
			if at := &state.lists[k].Load().at[x.place]; !h.walking && (at.tip.Load() != tip || at.depth.Load() != depth) {
				bad(0, "hole %#x at %d is not listed", tip, depth)
			}
		}
	}
	for l := range levels {
		if got := len(bits[l]); c.distinct(l) && got != c.held[l] {
			bad(0, "counts %d blocks held at level %d, has %d", c.held[l], l, got)
		}
	}
	if partial != c.partial || aliased != c.aliased {
		bad(0, "counts %d partial entries, %d aliases; has %d, %d", c.partial, c.aliased, partial, aliased)
	}
	if used != c.used || handles != c.handles || ghosts != c.ghosts || assumed != c.assumed.n {
		bad(0, "counts %d entries, %d handles, %d ghosts, %d assumed; has %d, %d, %d, %d",
			c.used, c.handles, c.ghosts, c.assumed.n, used, handles, ghosts, assumed)
	}
	listed := 0
	for i, newer := c.assumed.newest, uint32(0); i != 0; i, newer = *c.older(i), i {
		if *c.newer(i) != newer {
			bad(i, "list of assumed blocks is torn")
		}
		listed++
	}
	if listed != c.assumed.n {
		bad(0, "%d assumed blocks are listed, want %d", listed, c.assumed.n)
	}
	c.ix.records.check()
}

// checkInvariants checks that lookups will see the current contents of all owners, and
// nothing else, and panics if not. O(owners).
func (d *draft) checkInvariants() {
	if d.seated > 1000 && d.seated%64 != 0 {
		return // large fleets only now and then
	}
	live := 0
	for s := range d.seats() {
		if s.writer.ended.Load() {
			panic(fmt.Sprintf("prefixindex: %q rank %d is shown after its end", s.writer.name, s.writer.rank))
		}
		for l, slot := range s.slots {
			if l > 0 && slot == s.slots[l-1] {
				continue
			}
			live++
			if page := d.slots[slot>>6]; page.live>>(slot&63)&1 == 0 || page.held[slot&63] != s.contents {
				panic(fmt.Sprintf("prefixindex: %q rank %d is not shown in its slot %d", s.writer.name, s.writer.rank, slot))
			}
		}
	}
	for _, page := range d.slots {
		live -= bits.OnesCount64(page.live)
	}
	if live != 0 {
		panic(fmt.Sprintf("prefixindex: %d slots are shown that are nobody's", -live))
	}
}

// check checks the tables, but not their sums, since other writers may be at work.
func (r *records) check() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		t := s.tab.Load()
		live, spilled := 0, 0
		for j := range t.recs {
			hash, set := t.recs[j].hash.Load(), t.recs[j].set.Load()
			if hash == 0 {
				continue
			}
			live++
			if at, ok := t.locate(hash); !ok || at != uint64(j) {
				panic(fmt.Sprintf("prefixindex: shard %d: %#x is not found", i, hash))
			}
			if set == 0 {
				panic(fmt.Sprintf("prefixindex: shard %d: %#x is held by nobody", i, hash))
			}
			spilled += spillWords(set)
		}
		if live != t.live || spilled != t.used-t.waste {
			panic(fmt.Sprintf("prefixindex: shard %d counts %d records, %d words; has %d, %d",
				i, t.live, t.used-t.waste, live, spilled))
		}
		s.mu.Unlock()
	}
}
