package prefixindex

import (
	"math"
	"time"
)

// never is when nothing is due.
const never = math.MaxInt64

// lookupEnds is the most blocks that a lookup ends, and so the most that its caller pays
// for others: well below a millisecond.
const lookupEnds = 1024

// What has expired is swept by the next write of its owner, by Stats, and by a lookup
// that begins after: an owner that is only read would be credited for ever otherwise.
// A lookup waits for nobody. It sweeps where the owner's lock and the shard's are free,
// up to lookupEnds blocks in all; an owner of which blocks of Insert are overdue even then, for
// want of a lock or of time, is left out of its result.
//
// nextDue is never later than the earliest Writer.due: a writer makes it earlier before
// blocks that will expire are there to be found, and only who holds dueMu, so that no
// owner's can become earlier meanwhile, makes it later.

// expire ends what has outlived its time.
func (c *contents) expire(now time.Time) {
	for at := now.UnixNano(); c.overdue(at) != 0; {
		c.endOverdue(at)
	}
	c.due()
}

// expireFree is expire for a lookup, of most blocks, and returns how many those were.
func (c *contents) expireFree(at int64, most int) (ended int) {
	for ; ended < most; ended++ {
		n := c.overdue(at)
		if n == 0 {
			break
		}
		s := c.ix.records.shard(c.entries.at(n).tip())
		if !s.mu.TryLock() {
			break
		}
		c.locked = s
		c.endOverdue(at)
		c.locked = nil
		s.mu.Unlock()
	}
	c.due()
	return ended
}

// overdue returns the entry of a block that has outlived its time, or 0.
func (c *contents) overdue(at int64) uint32 {
	if c.assumedDue() <= at {
		return c.assumed.oldest
	}
	if c.expectedDue() <= at {
		entries := c.expected.open[0].entries
		return entries[len(entries)-1]
	}
	return 0
}

// endOverdue ends the block that overdue returned.
func (c *contents) endOverdue(at int64) {
	if c.assumedDue() > at {
		c.endExpected()
		return
	}
	c.forgetAssumed(c.assumed.oldest)
	c.writer.stats.Expired++
}

// assumedDue is when the next block of Insert expires.
func (c *contents) assumedDue() int64 {
	if c.ix.options.AssumedTTL == 0 || c.assumed.oldest == 0 {
		return never
	}
	return *c.until.at(c.assumed.oldest)
}

// due publishes when the next of it ends, for lookups to see that something is due.
func (c *contents) due() { c.dueBy(never) }

// dueBy is due where blocks of Insert are about to be recorded that expire at at.
func (c *contents) dueBy(at int64) {
	w, ix := c.writer, c.ix
	at = min(at, c.assumedDue())
	w.assumedDue.Store(at)
	at = min(at, c.expectedDue())
	if at >= w.due.Load() {
		w.due.Store(at)
		return
	}
	ix.dueMu.Lock()
	w.due.Store(at)
	ix.nextDue.Store(min(at, ix.nextDue.Load()))
	ix.dueMu.Unlock()
}

// expireDue ends what is due, for a lookup that began at at, and takes those owners out
// of live where it could not.
func (ix *Index) expireDue(r *roster, at int64, live []uint64) {
	left := lookupEnds
	for s := range r.seats() {
		w := s.writer
		if w.due.Load() > at {
			continue
		}
		if left > 0 && w.mu.TryLock() {
			if !w.ended.Load() {
				left -= w.contents.expireFree(at, left)
			}
			w.mu.Unlock()
		}
		if w.assumedDue.Load() <= at {
			for _, slot := range s.slots {
				live[slot>>6] &^= 1 << (slot & 63)
			}
			ix.withheld.Add(1)
		}
	}
	if ix.dueMu.TryLock() {
		next := int64(never)
		for s := range ix.roster.Load().seats() {
			next = min(next, s.writer.due.Load())
		}
		ix.nextDue.Store(next)
		ix.dueMu.Unlock()
	}
}
