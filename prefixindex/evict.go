package prefixindex

// eviction finds the blocks to give up when an owner holds more than
// Options.OwnerBlocks: leaves, so that heads survive, and of these one that was not
// stored since the hand last passed it nor found by lookups of late. There is no list to
// keep in order: one bit an entry and a hand that goes round do, and once a leaf is gone
// its parent is looked at next, so that a chain goes from its end.
type eviction struct {
	hand uint32
	next uint32 // looked at before the hand moves
}

// trim enforces the owner's bounds after a write.
func (c *contents) trim() {
	before := c.holdings
	for c.holdings > c.ix.options.OwnerBlocks && c.evict() {
	}
	if n := before - c.holdings; n > 0 {
		c.writer.stats.Evicted += uint64(n)
	}
	c.trimGhosts()
	if c.sparse() {
		c.compact()
	}
}

// evict gives up a leaf: a guess before what the engine said.
func (c *contents) evict() bool {
	if c.assumed.oldest != 0 {
		c.forgetAssumed(c.assumed.oldest)
		return true
	}
	if c.entries.n < 2 {
		return false
	}
	v := &c.eviction
	for i := range 3*c.entries.n + 1 {
		if i == 2*c.entries.n { // all that could go was touched
			c.ix.recency.turn()
			c.ix.recency.turn()
		}
		n := v.next
		if v.next = 0; n == 0 {
			if v.hand++; v.hand >= c.entries.n {
				v.hand = 1
			}
			n = v.hand
		}
		e := c.entries.at(n)
		if !c.isLeaf(n, e) {
			continue
		}
		if e.flags&flagRecent != 0 {
			e.flags &^= flagRecent
			continue
		}
		if c.ix.recency.marked(c.endOf(n)) {
			continue
		}
		c.ix.recency.age(int64(c.holdings))
		v.next = c.entries.at(c.piecesOf(n)[0]).parent
		if e.kind() == kindExpected {
			c.dropExpected(n)
			return true
		}
		was := c.credit(n)
		e.flags |= flagEvicted
		c.recredit(n, was)
		return true
	}
	return false
}

// isLeaf reports whether n is the last entry of what holds a block while no child of
// that block is held.
func (c *contents) isLeaf(n uint32, e *entry) bool {
	switch e.kind() {
	case kindExpected:
	case kindHandle:
		if !e.border() { // the tail of a block that ends others, or a piece of one of ours
			n = e.parent
			if e = c.entries.at(n); !e.isInner() {
				return false
			}
		}
	default:
		return false
	}
	l := c.top()
	return e.full(l) && *c.heldCounter(n, l) == 0
}

// endOf returns the last block that ends in the handle of entry n.
func (c *contents) endOf(n uint32) uint64 {
	for !c.entries.at(n).border() {
		n = c.entries.at(n).parent
	}
	return c.entries.at(n).tip()
}
