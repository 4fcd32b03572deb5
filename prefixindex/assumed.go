package prefixindex

import "time"

// assumed is the list of the blocks that Insert recorded, by recency. Its links are in
// the entries, in place of engine hashes, which such blocks do not have.
type assumed struct {
	newest, oldest uint32
	n              int
}

// An assumed entry that is in the list has copies 1; one that is not only leads to an
// expected one. The head of a prompt is always more recent than what follows it: the
// oldest is never the parent of another one.

func (e *entry) listed() bool   { return e.kind() == kindAssumed && e.copies != 0 }
func (e *entry) unlisted() bool { return e.kind() == kindAssumed && e.copies == 0 }

func (c *contents) older(n uint32) *uint32 { return &c.entries.at(n).keyLo }
func (c *contents) newer(n uint32) *uint32 { return &c.entries.at(n).keyHi }

func (c *contents) linkNewest(n uint32) {
	a := &c.assumed
	*c.older(n), *c.newer(n) = a.newest, 0
	if a.newest != 0 {
		*c.newer(a.newest) = n
	} else {
		a.oldest = n
	}
	a.newest = n
}

func (c *contents) unlinkAssumed(n uint32) {
	a := &c.assumed
	older, newer := *c.older(n), *c.newer(n)
	if older != 0 {
		*c.newer(older) = newer
	} else {
		a.oldest = newer
	}
	if newer != 0 {
		*c.older(newer) = older
	} else {
		a.newest = older
	}
}

// assume records blocks that follow root, a chain from its first block on. The last is
// made the least recent of them.
func (c *contents) assume(root BlockHash, blocks []BlockHash, now time.Time) {
	st := &c.writer.stats
	limit := c.ix.options.OwnerBlocks
	own := c.chain[:0] // entries of the first blocks, those that are there already
	for _, tip := range blocks {
		n := c.findKind(uint64(tip), kindAssumed)
		if n == 0 || c.entries.at(n).copies == 0 {
			break
		}
		own = append(own, n)
	}
	// Room is made first, with the same outcome as block by block from the last. The
	// oldest may be of this prompt.
	for c.assumed.n > 0 && c.assumed.n+len(blocks)-len(own) > limit {
		n := c.assumed.oldest
		if k := len(own) - 1; k >= 0 && own[k] == n {
			own = own[:k]
		}
		c.chain = own
		c.forgetAssumed(n)
		st.Evicted++
	}
	st.Inserted += uint64(len(blocks) - len(own))
	if extra := len(blocks) - limit; extra > 0 {
		st.Evicted += uint64(extra)
		blocks = blocks[:limit]
	}
	top := c.root(uint64(root))
	parent := top
	for i := len(own); i < len(blocks); i++ {
		if i > 0 {
			parent = own[i-1]
		}
		n := c.findKind(uint64(blocks[i]), kindAssumed)
		if n != 0 && (c.entries.at(n).copies != 0 || c.entries.at(n).parent != parent) {
			break // in another place: hashes that agree by chance, or a forged snapshot
		}
		if n == 0 {
			depth := c.entries.at(parent).depth() + 1
			if depth > maxDepth || c.used >= maxEntry-1 {
				break
			}
			e := entry{parent: parent, place: placeOf(depth, kindAssumed, 0), flags: flagBorder}
			e.setTip(uint64(blocks[i]))
			n = c.newEntry(e)
		}
		own = append(own, n)
		c.entries.at(n).copies = 1
		c.assumed.n++
		for l := range levels {
			if c.distinct(l) {
				c.fill(n, l)
			}
		}
		*c.older(n), *c.newer(n) = 0, 0
		c.linkNewest(n)
	}
	ttl := c.ix.options.AssumedTTL
	if ttl > 0 {
		c.until.extend(c.entries.n)
	}
	for i := len(own) - 1; i >= 0; i-- {
		c.unlinkAssumed(own[i])
		c.linkNewest(own[i])
		if ttl > 0 {
			*c.until.at(own[i]) = now.Add(ttl).UnixNano()
		}
	}
	c.chain = own
	c.reap(top)
}

// findKind returns an entry of a kind that ends the block of a hash, or 0.
func (c *contents) findKind(tip uint64, kind uint32) uint32 {
	found := uint32(0)
	c.aliases(tip, func(n uint32, e *entry) bool {
		if e.kind() == kind {
			found = n
		}
		return found == 0
	})
	return found
}

// forgetAssumed takes a block out of the list.
func (c *contents) forgetAssumed(n uint32) {
	c.unlinkAssumed(n)
	c.assumed.n--
	c.entries.at(n).copies = 0
	for l := range levels {
		if c.distinct(l) {
			c.drain(n, l)
		}
	}
	c.reap(n)
}

// endAssumed forgets all that was recorded without events.
func (c *contents) endAssumed() {
	for c.assumed.oldest != 0 {
		c.forgetAssumed(c.assumed.oldest)
		c.writer.stats.Expired++
	}
}
