package prefixindex

import "slices"

// sweepStep is how many entries of dead contents each write sweeps: enough that a dead
// owner is gone after a few writes for each of its hundred blocks, and little beside
// the write itself.
const sweepStep = 128

// sweep takes what fenced contents hold out of the records, in steps: up to n entries,
// all if n is negative. It returns at once if another goroutine is at it. A slot is
// free for its next use after that.
func (ix *Index) sweep(n int) {
	if n < 0 {
		ix.sweeping.Lock()
	} else if !ix.sweeping.TryLock() {
		return
	}
	defer ix.sweeping.Unlock()
	for {
		ix.mu.Lock()
		if len(ix.dead) == 0 {
			ix.mu.Unlock()
			return
		}
		c := ix.dead[0]
		ix.mu.Unlock()

		// A write that began before the fence may still be under way.
		if n < 0 {
			c.writer.mu.Lock()
		} else if !c.writer.mu.TryLock() {
			return
		}
		if !c.counted {
			c.counted = true
			st := &c.writer.stats
			st.ParkedDropped += uint64(len(c.orphans.byName))
			c.orphans = orphans{}
		}
		if !c.sweep(&n) {
			c.writer.mu.Unlock()
			return
		}
		ix.mu.Lock()
		r := ix.roster.Load()
		for l, slot := range c.slots {
			if c.distinct(level(l)) {
				if int(slot>>6) < len(r.slots) {
					r.slots[slot>>6].state.resetHoles(slot & 63)
				}
				ix.slots.give(int(slot))
			}
		}
		ix.dead = slices.Delete(ix.dead, 0, 1)
		if w := c.writer; w.contents == c {
			ix.past.add(&w.stats)
			w.merged = true
			w.accountFor(0, 0)
		}
		ix.mu.Unlock()
		c.tables = tables{counted: true}
		c.writer.mu.Unlock()
	}
}

// sweep takes the bits of up to n entries out of the records, and reports whether it
// is done with all.
func (c *contents) sweep(n *int) bool {
	for ; c.swept < c.entries.n; c.swept++ {
		if *n == 0 {
			return false
		}
		*n--
		e := c.entries.at(c.swept)
		if !e.border() {
			continue
		}
		for l := range levels {
			if c.distinct(l) && e.full(l) {
				c.ix.records.unset(e.tip(), c.slots[l])
			}
		}
	}
	return true
}
