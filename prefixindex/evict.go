package prefixindex

// eviction finds the blocks to give up when an owner holds more than
// Options.OwnerBlocks: leaves, so that heads survive, and of these one that was not
// stored since the hand last passed it nor found by lookups of late. There is no list to
// keep in order: one bit an entry and a hand that goes round do, and once a leaf is gone
// its parent is looked at next, so that a chain goes from its end.
//
// What an owner knows is bounded too (mostEntries), since engine blocks can be announced
// without end that hold no block of ours, or none that is not held already. Beyond the
// bound a sixteenth is forgotten at once, so that the hand's way is paid by as many writes.
type eviction struct {
	hand     uint32
	next     uint32 // looked at before the hand moves
	heedless int    // evictions to come that heed no lookup: all that could go had a mark
}

const (
	sparedEntries = 8192

	// maxNames is how many engine blocks may stand for the same block of the index before
	// the longest known that nothing follows makes room for the next. Each of them costs
	// the others time.
	maxNames = 32
)

// mostEntries is how many entries an owner may use: for each of the engine's groups
// Options.OwnerBlocks, as many again for what is known and not held, and the partial
// entries that engine blocks smaller than ours need for what is held.
func (c *contents) mostEntries() int {
	o := &c.ix.options
	partial := min(int64(c.partial), int64(o.BlockTokens)*int64(c.holdings()))
	return int(min(sparedEntries+int64(1+len(c.groups))*int64(o.OwnerBlocks)+partial, maxEntry/2))
}

// trim enforces the owner's bounds after a write.
func (c *contents) trim() {
	before := c.holdings()
	for c.holdings() > c.ix.options.OwnerBlocks && c.evict() {
	}
	c.trimGhosts()
	if most := c.mostEntries(); c.used > most {
		c.forgetTo(most - most/16)
	}
	if n := before - c.holdings(); n > 0 {
		c.writer.stats.Evicted += uint64(n)
	}
	if c.sparse() {
		c.compact()
	}
}

// look returns the entry to look at next.
func (c *contents) look() uint32 {
	v := &c.eviction
	if n := v.next; n != 0 {
		v.next = 0
		return n
	}
	if v.hand++; v.hand >= c.entries.n {
		v.hand = 1
	}
	return v.hand
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
	for i := range 3*c.entries.n + 1 {
		if i == 2*c.entries.n {
			c.eviction.heedless = 1 + c.holdings()/16
		}
		n := c.look()
		e := c.entries.at(n)
		if !c.isLeaf(n, e) || e.spared() || c.eviction.heedless == 0 && c.ix.recency.marked(c.endOf(n)) {
			continue
		}
		c.eviction.heedless = max(c.eviction.heedless-1, 0)
		c.ix.recency.age(c.ix.held.Load())
		c.eviction.next = c.entries.at(c.piecesOf(n)[0]).parent
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

// spared reports whether e was stored since it was last looked at.
func (e *entry) spared() bool {
	recent := e.flags&flagRecent != 0
	e.flags &^= flagRecent
	return recent
}

// forgetTo forgets engine blocks that none known follows until no more than most entries
// are used: ghosts; after expectations have ended, in the order of the hand, those without
// which no block is lost; then those that eviction chooses. O(entries).
func (c *contents) forgetTo(most int) {
	c.forgetGhosts(most)
	for c.used > most && len(c.expected.open) > 0 {
		c.endExpectation()
	}
	for i := uint32(0); i < 2*c.entries.n && c.used > most; i++ {
		n := c.look()
		e := c.entries.at(n)
		if e.kind() != kindHandle || e.known != 0 || c.credit(n) != 0 && (c.needed(n, e) || e.spared()) {
			continue
		}
		c.eviction.next = c.entries.at(c.piecesOf(n)[0]).parent
		c.discard(n)
	}
	for c.used > most && c.evict() {
		c.forgetGhosts(most)
	}
}

func (c *contents) forgetGhosts(most int) {
	for c.used > most && c.queue.n > 0 {
		c.forgetGhost()
	}
}

// needed reports whether a block would be lost without the handle of n, which no known
// one follows.
func (c *contents) needed(n uint32, e *entry) bool {
	if !c.isLeaf(n, e) {
		return false
	}
	for !c.entries.at(n).border() {
		n = c.entries.at(n).parent
	}
	return c.aliased == 0 || !c.aliasFull(n, c.entries.at(n).tip(), c.top())
}

// discard forgets a handle that no known one follows, and its copies.
func (c *contents) discard(n uint32) {
	was := c.credit(n)
	e := c.entries.at(n)
	e.flags |= flagQueued // it is no ghost for long
	e.copies = 0
	if c.far.n > 0 {
		c.far.at(n).copies = [tiers - 1]uint8{}
	}
	c.recredit(n, was)
	c.forget(n)
}

// thin makes room for one more name of a block that has maxNames: in turn, as far as
// nothing follows them.
func (c *contents) thin(tip uint64) {
	names, goes := 0, uint32(0)
	turn := int(c.writer.stats.Forgotten % maxNames)
	c.aliases(tip, func(n uint32, e *entry) bool {
		if e.kind() == kindHandle {
			if e.known == 0 && (goes == 0 || names <= turn) {
				goes = n
			}
			names++
		}
		return names < maxNames
	})
	if names == maxNames && goes != 0 {
		c.discard(goes)
	}
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
