package prefixindex

import (
	"math"
	"slices"
)

// piece is an entry that cut proposes.
type piece struct {
	tip    uint64
	tokens []uint32
	extras []Extra // At counts from the engine block's first token
	from   int     // of this piece, in the same way
	begin  int     // tokens of its block before it
	border bool
}

// store takes in the blocks of a span with tokens.
func (c *contents) store(s *Span) {
	st := &c.writer.stats
	group, ok := c.group(s.Group)
	if !ok {
		st.Conflicts += uint64(len(s.Hashes))
		return
	}
	extras := s.Extras
	if len(extras) > 0 {
		extras = append(c.spanned[:0], extras...)
		c.spanned = extras
		slices.SortFunc(extras, compareExtras)
	}
	var parent uint32
	name := nameKey{uint64(s.Parent), group}
	if s.HasParent {
		parent = c.findName(name.key, group)
	} else {
		parent = c.root(uint64(c.ix.hasher.Root(s.Scope)))
	}
	first := parent
	c.ahead = c.ahead[:0]
	if parent != 0 && len(extras) == 0 && s.BlockTokens == c.ix.hasher.blockTokens && c.entries.at(parent).border() {
		c.ahead = c.ix.hasher.appendChain(c.ahead, BlockHash(c.entries.at(parent).tip()), s.Tokens)
	}
	c.fetch(s.Hashes, group)
	for i, hash := range s.Hashes {
		from := i * s.BlockTokens
		tokens := s.Tokens[from : from+s.BlockTokens]
		n := 0
		for n < len(extras) && extras[n].At < from+s.BlockTokens {
			extras[n].At -= from
			n++
		}
		own := extras[:n]
		extras = extras[n:]

		var pieces []piece
		switch {
		case len(c.ahead) > 0:
			c.pieces = append(c.pieces[:0], piece{tip: uint64(c.ahead[i]), tokens: tokens, border: true})
			pieces = c.pieces
		case parent != 0:
			pieces = c.cut(parent, tokens, own)
		}
		key := nameKey{uint64(hash), group}
		known := c.findName(key.key, group)
		parked := c.orphans.find(key)
		switch {
		case known != 0 && parent != 0 && c.same(known, parent, pieces):
			c.addCopy(known, s.Tier, &st.Stored)
		case parked != nil && parent == 0 && parked.parent == name && parked.same(tokens, own):
			c.addParkedCopy(parked, s.Tier)
		case known != 0 || parked != nil:
			// The blocks after this one continue a chain that is not the one known by
			// this name; placed behind the old one they would be misplaced.
			st.Conflicts += uint64(len(s.Hashes) - i)
			c.reap(first)
			return
		case parent != 0:
			known = c.place(parent, key, pieces)
			if known == 0 {
				st.ParkedDropped += uint64(len(s.Hashes) - i)
				c.reap(first)
				return
			}
			st.Stored++
			c.setCopies(known, s.Tier)
			c.adopt(key)
		default:
			c.park(key, name, tokens, own, s.Tier)
		}
		parent, name = known, key
	}
	c.reap(first)
}

// group returns the small number of one of the engine's groups.
func (c *contents) group(g int) (uint32, bool) {
	i := slices.Index(c.groups, g)
	if i < 0 {
		if len(c.groups) == maxGroups {
			return 0, false
		}
		i = len(c.groups)
		c.groups = append(c.groups, g)
	}
	return uint32(i), true
}

// knownGroup is group without making one.
func (c *contents) knownGroup(g int) (uint32, bool) {
	i := slices.Index(c.groups, g)
	return uint32(i), i >= 0
}

// root returns the entry that the first blocks of a scope follow.
func (c *contents) root(hash uint64) uint32 {
	if n := c.find(hash, placeOf(0, kindRoot, 0)); n != 0 {
		return n
	}
	e := entry{place: placeOf(0, kindRoot, 0), flags: flagBorder}
	e.setKey(hash)
	e.setTip(hash)
	return c.newEntry(e)
}

// cut divides an engine block that follows parent at the borders of the index's
// blocks, and hashes them. The pieces are in scratch.
func (c *contents) cut(parent uint32, tokens []uint32, extras []Extra) []piece {
	h := c.ix.hasher
	size := h.blockTokens
	e := c.entries.at(parent)
	tip, last, begin := e.tip(), e.tip(), 0
	if !e.border() {
		begin = int(c.parts.at(parent).end)
		last = c.entries.at(c.above(e)).tip()
	}
	c.pieces = c.pieces[:0]
	for from := 0; from < len(tokens); {
		n := min(size-begin, len(tokens)-from)
		x := 0
		for x < len(extras) && extras[x].At < from+n {
			x++
		}
		p := piece{tokens: tokens[from : from+n], extras: extras[:x], from: from, begin: begin}
		from, extras = from+n, extras[x:]
		switch {
		case begin+n < size:
			tip = uint64(link(BlockHash(tip*mixExtra), sumTokens(p.tokens), p.extras))
		case begin == 0:
			tip = uint64(h.Next(BlockHash(last), p.tokens, p.extras))
			p.border = true
		default:
			c.gather(parent, begin)
			c.block = append(c.block, p.tokens...)
			c.extras = append(c.extras, p.extras...)
			tip = uint64(h.Next(BlockHash(last), c.block, c.extras))
			p.border = true
		}
		if p.border {
			last = tip
		}
		p.tip = tip
		begin = (begin + n) % size
		c.pieces = append(c.pieces, p)
	}
	return c.pieces
}

// gather collects in scratch the tokens and extras of the unfinished block that ends
// in the partial entry n.
func (c *contents) gather(n uint32, end int) {
	c.block = slices.Grow(c.block[:0], c.ix.hasher.blockTokens)[:end]
	c.extras = c.extras[:0]
	for ; !c.entries.at(n).border(); n = c.entries.at(n).parent {
		p := c.parts.at(n)
		c.tails.read(p.tokens, c.block[p.begin:p.end])
		if x := c.tails.extras[n]; len(x) > 0 {
			c.extras = slices.Insert(c.extras, 0, x...)
		}
	}
}

// same reports whether a handle stands for these pieces after parent. Their hashes say
// so.
func (c *contents) same(n, parent uint32, pieces []piece) bool {
	for i := len(pieces) - 1; i >= 0; i-- {
		e := c.entries.at(n)
		if e.tip() != pieces[i].tip || e.border() != pieces[i].border || e.isInner() != (i < len(pieces)-1) {
			return false
		}
		n = e.parent
	}
	return n == parent
}

// place makes a handle known, without copies. It returns 0 if there is no room.
func (c *contents) place(parent uint32, key nameKey, pieces []piece) uint32 {
	depth := c.entries.at(parent).depth()
	if int(depth)+len(pieces) > maxDepth || c.used+len(pieces) > maxEntry-1 {
		return 0
	}
	n := parent
	for i := range pieces {
		p := &pieces[i]
		kind := uint32(kindInner)
		if i == len(pieces)-1 {
			kind = kindHandle
		}
		e := entry{parent: n}
		if p.border {
			depth++
			e.flags = flagBorder
		}
		e.place = placeOf(depth, kind, key.group)
		e.setTip(p.tip)
		if kind == kindHandle {
			e.setKey(key.key)
			e.flags |= flagRecent
			if p.border && c.indexed && c.findTip(p.tip) != 0 {
				c.thin(p.tip)
			}
		}
		n = c.newEntry(e)
		c.newPart(n, p)
	}
	c.handles++
	c.ghosts++ // until its copies are credited
	return n
}

// setCopies gives a handle without copies its first.
func (c *contents) setCopies(n uint32, t Tier) {
	was := c.credit(n)
	if t == TierGPU {
		c.entries.at(n).copies = 1
	} else {
		if !c.reach(t) {
			c.enqueue(n)
			return
		}
		c.far.at(n).copies[t-1] = 1
	}
	c.recredit(n, was)
}

// reach makes the level of a tier distinct. It reports false if the index has no slot
// left, which the bound of its owners rules out, or the epoch has ended.
func (c *contents) reach(t Tier) bool {
	if l := levelOf(t); !c.distinct(l) {
		return c.split(l) == nil
	}
	return true
}

// copiesOf returns the counter of a handle's copies on a tier.
func (c *contents) copiesOf(n uint32, t Tier) *uint8 {
	if t == TierGPU {
		return &c.entries.at(n).copies
	}
	return &c.far.at(n).copies[t-1]
}

// addCopy counts one more copy of a handle on a tier, the first in first.
func (c *contents) addCopy(n uint32, t Tier, first *uint64) {
	if t != TierGPU && !c.reach(t) {
		return
	}
	was := c.credit(n)
	c.addCount(c.copiesOf(n, t), first)
	e := c.entries.at(n)
	e.flags = e.flags&^flagEvicted | flagRecent
	c.recredit(n, was)
}

func (c *contents) addCount(copies *uint8, first *uint64) {
	st := &c.writer.stats
	switch n := int(*copies); {
	case n == 0:
		*first++
	case n < c.ix.options.Copies:
		st.Copies++
	default:
		st.CopiesCapped++
		return
	}
	*copies++
}

// locate gives a tier to blocks by name alone.
func (c *contents) locate(s *Span) {
	st := &c.writer.stats
	group, ok := c.knownGroup(s.Group)
	for _, hash := range s.Hashes {
		key := nameKey{uint64(hash), group}
		if !ok {
			st.PlacedUnknown++
		} else if n := c.findName(key.key, group); n != 0 {
			c.addCopy(n, s.Tier, &st.Placed)
		} else if o := c.orphans.find(key); o != nil {
			c.addCount(&o.copies[s.Tier], &st.Placed)
		} else {
			st.PlacedUnknown++
		}
	}
}

// whole returns the length in tokens of a unit that a tier gives back. That of a span
// without tokens or block size is that of the blocks it names, as far as known.
func (c *contents) whole(s *Span) int {
	if len(s.Hashes) > 0 && s.BlockTokens > 0 {
		return min(len(s.Hashes), maxDepth/s.BlockTokens+1) * s.BlockTokens // within an int
	}
	n := 0
	group, ok := c.knownGroup(s.Group)
	for _, hash := range s.Hashes {
		if !ok {
			break
		}
		key := nameKey{uint64(hash), group}
		if h := c.findName(key.key, group); h != 0 {
			n += c.tokensOf(h)
		} else if o := c.orphans.find(key); o != nil {
			n += len(o.tokens)
		}
	}
	return min(n, math.MaxInt32)
}

// tokensOf returns the length of a handle.
func (c *contents) tokensOf(n uint32) int {
	size := c.ix.hasher.blockTokens
	total := 0
	for _, p := range c.piecesOf(n) {
		if c.parts.n == 0 || c.parts.at(p).end == 0 {
			total += size
		} else {
			total += int(c.parts.at(p).end - c.parts.at(p).begin)
		}
	}
	return total
}

// fetch reads where the names of a span's blocks and their records will be looked for.
// Memory answers many reads at once; those of the writes that follow would each wait for
// the write before.
func (c *contents) fetch(hashes []EngineHash, group uint32) {
	var sum uint64
	for _, hash := range hashes {
		sum += c.names.peek(nameHash(uint64(hash), placeOf(0, kindHandle, group)))
	}
	for _, tip := range c.ahead {
		sum += c.ix.records.peek(uint64(tip))
	}
	c.fetched = sum // or the compiler would leave the reads out
}

// remove takes one copy of each block away. All are found first, for the reason that
// fetch gives.
func (c *contents) remove(r *Removal) {
	st := &c.writer.stats
	group, ok := c.knownGroup(r.Group)
	if !ok {
		st.RemovedUnknown += uint64(len(r.Hashes))
		return
	}
	c.found = c.found[:0]
	for _, hash := range r.Hashes {
		c.found = append(c.found, c.findName(uint64(hash), group))
	}
	var sum uint64
	for _, n := range c.found {
		sum += c.ix.records.peek(c.entries.at(n).tip())
	}
	c.fetched = sum
	for i, n := range c.found {
		switch {
		case n == 0:
			c.removeParked(nameKey{uint64(r.Hashes[i]), group}, r.Tier)
		case r.Tier != TierGPU && c.far.n == 0 || *c.copiesOf(n, r.Tier) == 0:
			st.RemovedUnknown++
		default:
			st.Removed++
			was := c.credit(n)
			*c.copiesOf(n, r.Tier)--
			c.recredit(n, was)
		}
	}
}
