package prefixindex

// Two entries that end one block are aliases. The block is held while one of them is
// full, and has held children while one of them has. To find an entry's aliases takes a
// lookup by block hash, which few owners need: it is made when blocks without engine
// hashes come, or when two aliases matter.
//
// They do not as long as one of them alone is full or has held children, since the
// others then change nothing. As a second one is about to, its block is held already,
// or listed as a hole, without its own doing. That shows (meetsAlias, and in fill).

// twin links an entry to others that end the same block. Only the first, which none is
// before, is in tips: there, equal hashes in great number would cost each other time.
type twin struct{ before, after uint32 }

// meetsAlias reports whether entry n, which has become full and ends a block, or its
// parent, which has one more held child, is about to be the second of two aliases that
// matter.
func (c *contents) meetsAlias(n, parent uint32, l level) bool {
	if len(c.holes[l].known) > 0 && c.holes[l].has(c.entries.at(n).tip()) && *c.heldCounter(n, l) == 0 {
		return true
	}
	p := c.entries.at(parent)
	if p.full(l) || p.kind() == kindRoot {
		return false
	}
	return c.ix.records.has(p.tip(), c.slots[l]) || c.holes[l].has(p.tip()) && *c.heldCounter(parent, l) == 1
}

// index makes entries be found by block hash from now on. O(entries).
func (c *contents) index() {
	c.indexed = true
	c.tips.clear(c.used, c.entries.n)
	for n := uint32(1); n < c.entries.n; n++ {
		if e := c.entries.at(n); e.border() {
			c.putTip(n, e.tip())
		}
	}
}

// putTip makes entry n be found by block hash. The caller has made room.
func (c *contents) putTip(n uint32, tip uint64) {
	first := c.findTip(tip)
	if first == 0 {
		c.tips.put(tip, n)
		return
	}
	c.aliased++
	c.twins.extend(c.entries.n)
	at := c.twins.at(first)
	*c.twins.at(n) = twin{before: first, after: at.after}
	if at.after != 0 {
		c.twins.at(at.after).before = n
	}
	at.after = n
}

// dropTip is the opposite of putTip.
func (c *contents) dropTip(n uint32, tip uint64) {
	x := twin{}
	if c.twins.n > 0 {
		x = *c.twins.at(n)
		*c.twins.at(n) = twin{}
	}
	if x != (twin{}) {
		c.aliased--
	}
	if x.after != 0 {
		c.twins.at(x.after).before = x.before
	}
	if x.before != 0 {
		c.twins.at(x.before).after = x.after
		return
	}
	c.tips.drop(tip, n)
	if x.after != 0 {
		c.tips.put(tip, x.after)
	}
}

// firstTip reports whether entry n is in tips.
func (c *contents) firstTip(n uint32, e *entry) bool {
	return e.border() && (c.twins.n == 0 || c.twins.at(n).before == 0)
}

// findTip returns an entry that ends the block of a hash, or 0.
func (c *contents) findTip(tip uint64) uint32 {
	if !c.indexed {
		c.index()
	}
	if c.tips.live == 0 {
		return 0
	}
	i, tag := c.tips.home(tip)
	for {
		n, at := c.tips.next(i, tag)
		if n == 0 || c.entries.at(n).tip() == tip {
			return n
		}
		i = at + 1
	}
}

// aliases yields all entries that end the block of a hash.
func (c *contents) aliases(tip uint64, yield func(n uint32, e *entry) bool) {
	for n := c.findTip(tip); n != 0 && yield(n, c.entries.at(n)) && c.twins.n > 0; {
		n = c.twins.at(n).after
	}
}

// aliasFull reports whether another entry than n has the block of a hash full.
func (c *contents) aliasFull(n uint32, tip uint64, l level) (full bool) {
	c.aliases(tip, func(m uint32, e *entry) bool {
		full = m != n && e.full(l)
		return !full
	})
	return full
}

// holds reports whether the block that entry n ends is held.
func (c *contents) holds(n uint32, l level) bool {
	e := c.entries.at(n)
	return e.full(l) || e.kind() == kindRoot || c.aliased > 0 && c.aliasFull(n, e.tip(), l)
}

// heldBelow reports whether a child of the block that entry n ends is held.
func (c *contents) heldBelow(n uint32, l level) bool {
	if c.aliased == 0 {
		return *c.heldCounter(n, l) != 0
	}
	held := false
	c.aliases(c.entries.at(n).tip(), func(m uint32, _ *entry) bool {
		held = *c.heldCounter(m, l) != 0
		return !held
	})
	return held
}
