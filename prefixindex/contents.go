package prefixindex

// contents is what one owner holds from one empty start of its cache to the next, or
// to Clear. The Writer's lock guards it, except for what readers see: the bits of its
// slots in the index's records, and its hole lists.
type contents struct {
	ix     *Index
	writer *Writer

	// slots are where readers look, by level. A level has a slot of its own once a
	// copy on its tiers has appeared; before, it is the nearer level's.
	slots [levels]uint32

	tables
}

// tables are what contents let go of when they are dead and swept. A Match may refer to
// the rest for as long as it likes.
type tables struct {
	entries slab[entry]
	free    uint32 // entries to use again
	used    int
	names   lookup            // handles by engine hash, roots by scope
	tips    lookup            // entries that end a block, by its hash; if indexed
	wide    map[uint64]uint32 // counters that do not fit into entries
	indexed bool              // tips was needed once (aliases.go)
	aliased int               // entries that end a block beside another one, as far as indexed
	partial int               // entries that end no block

	far   slab[far]   // none until a tier beyond GPU is used
	parts slab[part]  // none until there is a partial entry
	tails tails       // tokens of partial entries
	until slab[int64] // expiry of assumed blocks; none without AssumedTTL

	holes    [levels]holes
	held     [levels]int // blocks held, by level, of those with a slot of their own
	handles  int         // known engine blocks
	ghosts   int         // of these, without credit
	queue    ghostQueue
	groups   []int // the engine's group numbers; entries have the index
	orphans  orphans
	eviction eviction
	assumed  assumed
	expected expected
	locked   *shard // by a lookup that ends a block in it (expire)

	pieces  []piece     // scratch of cut
	ahead   []BlockHash // scratch of store: the blocks of a span, where they are hashed at once
	found   []uint32    // scratch of remove
	fetched uint64      // what nobody wants to know
	chain   []uint32    // scratch: entries of one handle, first to last
	block   []uint32    // scratch: tokens of one block
	extras  []Extra     // scratch: extras of one block
	spanned []Extra     // scratch: extras of a span, in order

	swept   uint32 // entries that sweep is done with
	counted bool   // of dead contents: what was lost with them is counted
}

func newContents(ix *Index, w *Writer, slot uint32) *contents {
	c := &contents{ix: ix, writer: w, slots: [levels]uint32{slot, slot, slot}}
	c.entries.extend(1)
	return c
}

// distinct reports whether a level has a slot of its own.
func (c *contents) distinct(l level) bool { return l == 0 || c.slots[l] != c.slots[l-1] }

// top is the farthest level that has a slot of its own: what is held on any tier is
// held there.
func (c *contents) top() level {
	l := levelAny
	for !c.distinct(l) {
		l--
	}
	return l
}

// holdings is how many blocks are held on any tier.
func (c *contents) holdings() int { return c.held[c.top()] }

// has reports whether the engine block of entry n has a copy at a level.
func (c *contents) has(n uint32, l level) bool {
	e := c.entries.at(n)
	switch e.kind() {
	case kindRoot:
		return true
	case kindInner:
		return e.copies>>l&1 != 0
	case kindAssumed:
		return e.copies != 0
	case kindExpected:
		return e.copies != 0 && e.flags&(flagConfirm|flagEvicted) == 0
	}
	if e.flags&flagEvicted != 0 {
		return false
	}
	if e.copies != 0 {
		return true
	}
	if l == levelGPU || c.far.n == 0 {
		return false
	}
	f := c.far.at(n)
	return f.copies[TierCPU-1] != 0 ||
		l == levelAny && f.copies[TierDisk-1]|f.copies[TierShared-1] != 0
}

// credit returns the levels at which an engine block has a copy, as a bit each.
func (c *contents) credit(n uint32) uint8 {
	var mask uint8
	if c.slots[levelGPU] == c.slots[levelAny] { // most owners use one tier
		if c.has(n, levelGPU) {
			mask = 1
		}
		return mask
	}
	for l := range levels {
		if c.distinct(l) && c.has(n, l) {
			mask |= 1 << l
		}
	}
	return mask
}

// recredit brings the pieces of a handle, and what readers see, in line with its
// copies. was is the credit before they changed.
func (c *contents) recredit(n uint32, was uint8) {
	is := c.credit(n)
	if was == is {
		return
	}
	e := c.entries.at(n)
	if e.kind() == kindHandle {
		switch {
		case was == 0:
			c.ghosts--
		case is == 0:
			c.ghosts++
			c.enqueue(n)
		}
	}
	if !c.entries.at(e.parent).isInner() { // one piece
		for l := range levels {
			switch bit := uint8(1) << l; {
			case is&^was&bit != 0:
				c.cover(n, e, l)
			case was&^is&bit != 0 && e.full(l):
				c.drain(n, l)
			}
		}
		return
	}
	chain := c.piecesOf(n)
	for l := range levels {
		switch bit := uint8(1) << l; {
		case is&^was&bit != 0:
			for _, p := range chain {
				e := c.entries.at(p)
				if e.isInner() {
					e.copies |= bit
				}
				c.cover(p, e, l)
			}
		case was&^is&bit != 0: // the last first, so that what is left is a prefix
			for i := len(chain) - 1; i >= 0; i-- {
				e := c.entries.at(chain[i])
				if e.isInner() {
					e.copies &^= bit
				}
				if e.full(l) {
					c.drain(chain[i], l)
				}
			}
		}
	}
}

func (e *entry) isInner() bool { return e.kind() == kindInner }

// piecesOf lists the entries of a handle, first to last, in scratch.
func (c *contents) piecesOf(n uint32) []uint32 {
	chain := append(c.chain[:0], n) //nolint:gocritic // c.chain is set below
	for p := c.entries.at(n).parent; p != 0 && c.entries.at(p).isInner(); p = c.entries.at(p).parent {
		chain = append(chain, p)
	}
	for i, j := 0, len(chain)-1; i < j; i, j = i+1, j-1 {
		chain[i], chain[j] = chain[j], chain[i]
	}
	c.chain = chain
	return chain
}

// cover makes a piece that has a copy full, if what precedes it in its block is.
func (c *contents) cover(n uint32, e *entry, l level) {
	if parent := c.entries.at(e.parent); parent.border() || parent.full(l) {
		c.fill(n, l)
	}
}

// fill marks a piece full: it and all pieces before it in its block have copies. If it
// ends the block, the block is held. Its depth of recursion is bounded by the pieces
// of one block.
func (c *contents) fill(n uint32, l level) {
	e := c.entries.at(n)
	e.flags |= 1 << l
	if !e.border() {
		for child := c.parts.at(n).first; child != 0; child = c.parts.at(child).next {
			if !c.entries.at(child).full(l) && c.has(child, l) {
				c.fill(child, l)
			}
		}
		return
	}
	parent := c.above(e)
	c.count(c.heldCounter(parent, l), counterOf(uint64(l), parent), 1)
	if !c.indexed && c.meetsAlias(n, parent, l) {
		c.index()
	}
	if c.aliased == 0 || !c.aliasFull(n, e.tip(), l) {
		c.show(e, parent, l)
	}
	if l == levelGPU && len(c.expected.open) > 0 && (e.kind() == kindHandle || e.isInner()) {
		c.confirm(e.tip())
	}
}

// show lets readers see the block that e ends, after that of parent.
func (c *contents) show(e *entry, parent uint32, l level) {
	if !c.holds(parent, l) {
		above := c.entries.at(parent)
		c.addHole(l, above.tip(), above.depth()-1)
	}
	yield("before a bit is set")
	if !c.ix.records.set(e.tip(), c.slots[l]) && !c.indexed {
		c.index() // an alias holds it
		return
	}
	yield("bit set")
	c.dropHole(l, e.tip())
	c.held[l]++
}

// drain is the opposite of fill.
func (c *contents) drain(n uint32, l level) {
	e := c.entries.at(n)
	e.flags &^= 1 << l
	if !e.border() {
		for child := c.parts.at(n).first; child != 0; child = c.parts.at(child).next {
			if c.entries.at(child).full(l) {
				c.drain(child, l)
			}
		}
		return
	}
	parent := c.above(e)
	c.count(c.heldCounter(parent, l), counterOf(uint64(l), parent), -1)
	if c.aliased > 0 && c.aliasFull(n, e.tip(), l) {
		return
	}
	hole := c.heldBelow(n, l)
	if hole {
		c.addHole(l, e.tip(), e.depth()-1)
	}
	yield("before a bit is cleared")
	if c.locked != nil {
		c.ix.records.take(c.locked, e.tip(), c.slots[l])
	} else {
		c.ix.records.unset(e.tip(), c.slots[l])
	}
	yield("bit cleared")
	if hole {
		c.noteHole(l)
	}
	if len(c.holes[l].known) > 0 && !c.heldBelow(parent, l) {
		c.dropHole(l, c.entries.at(parent).tip()) // if it was one
	}
	c.held[l]--
}

// above returns the entry that ends the block before the one that e ends.
func (c *contents) above(e *entry) uint32 {
	n := e.parent
	for !c.entries.at(n).border() {
		n = c.entries.at(n).parent
	}
	return n
}

// split gives a level a slot of its own, with what the nearer level's holds: until
// now the two were the same. O(entries), once for a tier.
func (c *contents) split(l level) error {
	from := l - 1
	for !c.distinct(from) {
		from--
	}
	slot, err := c.ix.takeSlot()
	if err != nil {
		return err
	}
	old := c.slots
	for k := l; k < levels && old[k] == old[from]; k++ {
		c.slots[k] = slot
	}
	c.held[l] = c.held[from]
	c.far.extend(c.entries.n)
	for n := uint32(1); n < c.entries.n; n++ {
		e := c.entries.at(n)
		held := c.value(c.heldCounter(n, from), counterOf(uint64(from), n))
		*c.heldCounter(n, l) = uint8(min(held, byteFull))
		if held >= byteFull {
			c.wide[counterOf(uint64(l), n)] = uint32(held)
		}
		if e.isInner() {
			e.copies |= e.copies >> from & 1 << l
		}
		if e.full(from) {
			e.flags |= 1 << l
			if e.border() && e.kind() != kindRoot {
				c.ix.records.set(e.tip(), slot)
			}
		}
	}
	for tip, hole := range c.holes[from].known {
		c.addHole(l, tip, hole.depth)
	}
	return c.ix.showSlot(c)
}
