package prefixindex

import (
	"fmt"
	"slices"
	"time"
)

// maxExpectations is how many expectations an owner has open, and Options.OwnerBlocks how
// many blocks they have together; more end the one that is due next.
const maxExpectations = 4096

// expected is what Expect recorded: a block of an expectation is an entry of its own,
// counted by the expectations that include it, beside the engine's own entries for the
// block. An event that stores the block confirms it: from then on only the engine's
// copies count, so that their removal is believed, until the block is expected anew. That
// it was confirmed is noted once for all that expect it: it then counts until the last of
// them ends.
type expected struct {
	open   []expectation // the next to end first
	blocks int           // in all of them
}

type expectation struct {
	until   int64
	entries []uint32
}

// countRefs is beside the counters of children: those of expectations, in copies.
const countRefs = countKnown + 1

// Expect records speculatively what a request that was routed to an owner will leave
// there: the full blocks of p from number from on, the ones before being there already.
// They count as held on GPU until the owner's events confirm them, and end after ttl
// otherwise; where several requests expect a block, with the last of them. A lookup that
// would have to wait for a write to end them may report them still. It is meant for after
// the pick, where events come late.
//
// An owner without an epoch gets one, which its next Writer ends. One owner has up to
// 4,096 expectations open, of Options.OwnerBlocks blocks together; more end those due next.
// Errors are ErrNotJoined, ErrFull, a rank out of range, a negative from, and a ttl of
// zero or less. Rank -1, a pick's where nothing was held, is taken as 0.
//
// O(blocks), takes the owner's lock; p belongs to the caller until it returns.
func (ix *Index) Expect(e Endpoint, rank int, p *Prompt, from int, ttl time.Duration) error {
	if from < 0 {
		return fmt.Errorf("%w: from is %d, want 0 or more", ErrArgument, from)
	}
	if ttl <= 0 {
		return fmt.Errorf("%w: ttl is %v, want more than 0", ErrArgument, ttl)
	}
	w, now, err := ix.enter(e, rank)
	if err != nil {
		return err
	}
	if n := p.blocks(ix.hasher); n > from {
		c := w.contents
		c.expect(p.grow(ix.hasher, n)[:n], p.root, from, now.Add(ttl).UnixNano())
		c.trim()
		c.due()
	}
	w.done()
	return nil
}

// expect records blocks from number from on.
func (c *contents) expect(blocks []BlockHash, root BlockHash, from int, until int64) {
	x := &c.expected
	for len(x.open) == maxExpectations || len(x.open) > 0 && x.blocks+len(blocks)-from > c.ix.options.OwnerBlocks {
		c.endExpectation()
	}
	parent, first := uint32(0), from
	for parent == 0 && first > 0 {
		if parent = c.anchor(uint64(blocks[first-1])); parent == 0 {
			first--
		}
	}
	if parent == 0 {
		parent = c.root(uint64(root))
	}
	entries := make([]uint32, 0, len(blocks)-from)
	for i := first; i < len(blocks); i++ {
		tip := uint64(blocks[i])
		n := c.findKind(tip, kindExpected)
		if n == 0 {
			depth := c.entries.at(parent).depth() + 1
			if depth > maxDepth || c.used >= maxEntry-1 {
				break
			}
			e := entry{parent: parent, place: placeOf(depth, kindExpected, 0), flags: flagBorder}
			e.setTip(tip)
			n = c.newEntry(e)
		}
		parent = n
		if i < from {
			continue // only to lead to the others
		}
		entries = append(entries, n)
		e := c.entries.at(n)
		was := c.credit(n)
		e.flags &^= flagConfirm | flagEvicted
		if c.aliased > 0 && c.reported(tip) {
			e.flags |= flagConfirm
		}
		c.count(&e.copies, counterOf(countRefs, n), 1)
		c.writer.stats.Expected++
		c.recredit(n, was)
	}
	if len(entries) == 0 {
		c.reap(parent)
		return
	}
	at, _ := slices.BinarySearchFunc(x.open, until+1, func(e expectation, t int64) int {
		if e.until < t {
			return -1
		}
		return 1
	})
	x.open = slices.Insert(x.open, at, expectation{until, entries})
	x.blocks += len(entries)
}

// anchor returns an entry that an expected block may follow. Inner ones go with their
// handle.
func (c *contents) anchor(tip uint64) uint32 {
	found := uint32(0)
	c.aliases(tip, func(n uint32, e *entry) bool {
		if !e.isInner() {
			found = n
		}
		return found == 0
	})
	return found
}

// reported reports whether the engine has said that it has the block on GPU.
func (c *contents) reported(tip uint64) bool {
	full := false
	c.aliases(tip, func(_ uint32, e *entry) bool {
		full = e.full(levelGPU) && (e.kind() == kindHandle || e.isInner())
		return !full
	})
	return full
}

// confirm ends the credit that a block has from expectations, the engine having stored
// it.
func (c *contents) confirm(tip uint64) {
	n := c.findKind(tip, kindExpected)
	if n == 0 {
		return
	}
	if e := c.entries.at(n); e.copies != 0 && e.flags&flagConfirm == 0 {
		was := c.credit(n)
		e.flags |= flagConfirm
		c.writer.stats.Confirmed++
		c.recredit(n, was)
	}
}

// dropExpected ends the credit of a block for want of room.
func (c *contents) dropExpected(n uint32) {
	was := c.credit(n)
	c.entries.at(n).flags |= flagEvicted
	c.recredit(n, was)
}

// endExpectation ends the one that is due next.
func (c *contents) endExpectation() {
	for open := len(c.expected.open); len(c.expected.open) == open; {
		c.endExpected()
	}
}

// endExpected ends the last block of the expectation that is due next, and with its
// first block the expectation.
func (c *contents) endExpected() {
	x := &c.expected
	next := &x.open[0]
	last := len(next.entries) - 1
	n := next.entries[last]
	next.entries = next.entries[:last]
	x.blocks--
	if last == 0 {
		next.entries = nil
		x.open = x.open[1:]
	}
	e := c.entries.at(n)
	was := c.credit(n)
	c.count(&e.copies, counterOf(countRefs, n), -1)
	c.recredit(n, was)
	if e.copies == 0 {
		if was != 0 {
			c.writer.stats.Expired++
		}
		c.reap(n)
	}
}

// expectedDue is when the next expectation ends.
func (c *contents) expectedDue() int64 {
	if len(c.expected.open) == 0 {
		return never
	}
	return c.expected.open[0].until
}

// renumber follows entries that compact has moved.
func (x *expected) renumber(to []uint32) {
	for _, e := range x.open {
		for i, n := range e.entries {
			e.entries[i] = to[n]
		}
	}
}

func (x *expected) bytes() int { return 4*x.blocks + 64*cap(x.open) }
