package prefixindex

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// sparedGhosts is how many ghosts an epoch keeps besides one for each held handle.
const sparedGhosts = 4096

// epoch is what one owner holds from one empty start of its cache to the next. The
// index's lock guards it.
type epoch struct {
	ix    *Index
	owner *owner
	ended bool
	view  View
	fed   bool // Store was called: the engine says what it holds
	stats Stats

	handles map[handleKey]*handle
	waiting map[handleKey][]*handle // parked, by the parent that is missing
	orphans int
	blocks  map[BlockHash]*block // what known handles end
	chunk   [tiers]int           // longest Whole span seen, in tokens

	held   int        // known handles with credit
	ghosts int        // known handles without
	leaves handleHeap // held handles without held children
	bare   handleHeap // ghosts without known children
	stamp  uint64

	// Blocks of Insert, each with the time from which it no longer counts. Nil until
	// the first.
	assumed *simplelru.LRU[BlockHash, time.Time]

	holdings int // blocks held by handles or assumed

	// Scratch: the names and extras of the span being stored, and what place hashes.
	named       map[EngineHash]struct{}
	spanExtras  []Extra
	chainTokens []uint32
	chainExtras []Extra
}

// block is one of the index's blocks, as handles end it. Handles of several groups,
// or an engine's names for equal contents, may end the same one.
type block struct {
	ends []ending
	held level // the nearest at which the whole of one ending's cover is
}

// ending is a handle in which a block ends; from is where the block begins.
type ending struct {
	handle *handle
	from   int
}

func newEpoch(ix *Index, o *owner) *epoch {
	e := &epoch{ix: ix, owner: o, stats: Stats{Epochs: 1}, named: make(map[EngineHash]struct{})}
	e.empty()
	return e
}

// empty drops all contents and keeps the counters.
func (e *epoch) empty() {
	for b, bl := range e.blocks {
		if bl.held < levels {
			e.ix.release(b)
		}
	}
	if e.assumed != nil {
		for _, b := range e.assumed.Keys() {
			if e.reported(b) == levels {
				e.ix.release(b)
			}
		}
	}
	e.stats.ParkedDropped += uint64(e.orphans)
	e.handles, e.waiting, e.blocks, e.assumed = nil, nil, nil, nil
	e.leaves, e.bare = nil, nil
	e.orphans, e.held, e.ghosts, e.holdings = 0, 0, 0, 0
	if !e.ended {
		e.handles = make(map[handleKey]*handle)
		e.waiting = make(map[handleKey][]*handle)
		e.blocks = make(map[BlockHash]*block)
	}
}

// reported is the level at which handles hold b.
func (e *epoch) reported(b BlockHash) level {
	if bl := e.blocks[b]; bl != nil {
		return bl.held
	}
	return levels
}

// level is the level at which the owner holds b at the time now, which is only read
// if assumed blocks expire.
func (e *epoch) level(b BlockHash, now time.Time) level {
	if e.assumed != nil {
		until, ok := e.assumed.Peek(b)
		if ok && (e.ix.options.AssumedTTL == 0 || now.Before(until)) {
			return levelGPU
		}
	}
	return e.reported(b)
}

// store takes in the blocks of a span that has tokens.
func (e *epoch) store(s *Span) {
	c := content{tokens: s.BlockTokens}
	if s.HasParent {
		c.parent, c.hasParent = handleKey{s.Group, s.Parent}, true
	} else {
		c.root = e.ix.hasher.Root(s.Scope)
	}
	extras := append(e.spanExtras[:0], s.Extras...)
	e.spanExtras = extras
	slices.SortFunc(extras, compareExtras)
	for i, hash := range s.Hashes {
		key := handleKey{s.Group, hash}
		start := i * s.BlockTokens
		tokens := s.Tokens[start : start+s.BlockTokens]
		n := 0
		for n < len(extras) && extras[n].At < start+s.BlockTokens {
			extras[n].At -= start
			n++
		}
		c.digest = digest(tokens, extras[:n])
		if h := e.handles[key]; h == nil {
			e.add(key, c, tokens, extras[:n], s.Tier)
		} else if h.content == c {
			e.addCopy(h, s.Tier, &e.stats.Stored)
		} else {
			// The blocks after this one continue a chain that is not the one known by
			// this name; placed behind the old one they would be misplaced.
			e.stats.Conflicts += uint64(len(s.Hashes) - i)
			break
		}
		extras = extras[n:]
		c.parent, c.hasParent, c.root = key, true, 0
	}
}

// digest tells contents apart. A 64-bit one will do: what it guards against is an
// engine's mistake.
func digest(tokens []uint32, extras []Extra) uint64 {
	d := sumTokens(tokens)
	for i := range extras {
		var b [24]byte
		binary.LittleEndian.PutUint64(b[0:], d)
		binary.LittleEndian.PutUint64(b[8:], uint64(extras[i].At))
		binary.LittleEndian.PutUint64(b[16:], sumExtra(&extras[i]))
		d = xxhash.Sum64(b[:])
	}
	return d
}

// locate gives a tier to blocks by name alone.
func (e *epoch) locate(s *Span) {
	for _, hash := range s.Hashes {
		if h := e.handles[handleKey{s.Group, hash}]; h != nil {
			e.addCopy(h, s.Tier, &e.stats.Placed)
		} else {
			e.stats.PlacedUnknown++
		}
	}
}

// whole remembers the longest unit that a tier gives back. The length of a span
// without tokens or block size is that of the blocks it names, as far as known.
func (e *epoch) whole(s *Span) {
	n := len(s.Hashes) * s.BlockTokens
	if n == 0 {
		for _, hash := range s.Hashes {
			if h := e.handles[handleKey{s.Group, hash}]; h != nil {
				n += h.content.tokens
			}
		}
	}
	e.chunk[s.Tier] = max(e.chunk[s.Tier], n)
}

// add takes in a block under a new name.
func (e *epoch) add(key handleKey, c content, tokens []uint32, extras []Extra, t Tier) {
	h := &handle{key: key, content: c, level: levels}
	h.copies[t] = 1
	parent, ok := e.parent(h)
	if ok {
		e.handles[key] = h
		e.stats.Stored++
		e.place(h, parent, tokens, extras)
		e.adopt(key)
		return
	}
	if e.orphans >= e.ix.options.OwnerOrphans {
		e.stats.ParkedDropped++
		return
	}
	h.parked = true
	h.tokens, h.extras = append([]uint32(nil), tokens...), append([]Extra(nil), extras...)
	e.handles[key] = h
	e.waiting[c.parent] = append(e.waiting[c.parent], h)
	e.orphans++
	e.stats.Parked++
}

// parent finds the handle that h follows; nil is the root. It reports whether h can
// be placed.
func (e *epoch) parent(h *handle) (*handle, bool) {
	if !h.content.hasParent {
		return nil, true
	}
	p := e.handles[h.content.parent]
	return p, p != nil && !p.parked
}

// place makes h known: it computes the blocks that end in h and credits them.
func (e *epoch) place(h, parent *handle, tokens []uint32, extras []Extra) {
	h.parent, h.last = parent, h.content.root
	chain, chainExtras := e.chainTokens[:0], e.chainExtras[:0]
	if parent != nil {
		h.start, h.last = parent.end, parent.last
		chain = append(chain, parent.tail...)
		chainExtras = append(chainExtras, parent.tailExtras...)
		parent.link(h)
		e.file(parent)
	}
	for _, x := range extras {
		x.At += len(chain)
		chainExtras = append(chainExtras, x)
	}
	h.end = h.start + len(tokens)
	chain = append(chain, tokens...)
	e.chainTokens, e.chainExtras = chain, chainExtras

	size := e.ix.options.BlockTokens
	for at := 0; ; at += size {
		n := 0
		for n < len(chainExtras) && chainExtras[n].At < at+size {
			n++
		}
		if len(chain)-at < size {
			// An append copies nothing where there is nothing, and then keeps no
			// scratch alive.
			h.tail = append([]uint32(nil), chain[at:]...)
			h.tailExtras = append([]Extra(nil), chainExtras...)
			for i := range h.tailExtras {
				h.tailExtras[i].At -= at
			}
			break
		}
		h.last = e.ix.hasher.Next(h.last, chain[at:at+size], chainExtras[:n])
		h.blocks = append(h.blocks, h.last)
		chainExtras = chainExtras[n:]
	}
	for i, b := range h.blocks {
		bl := e.blocks[b]
		if bl == nil {
			bl = &block{held: levels}
			e.blocks[b] = bl
		}
		bl.ends = append(bl.ends, ending{h, (h.start/size + i) * size})
	}
	e.ghosts++ // until its copies are credited
	e.credit(h)
	e.file(h)
}

// adopt places the parked blocks that waited for key, and those that waited for them.
func (e *epoch) adopt(key handleKey) {
	for queue := []handleKey{key}; len(queue) > 0; queue = queue[1:] {
		key := queue[0]
		parent := e.handles[key]
		for _, h := range e.waiting[key] {
			tokens, extras := h.tokens, h.extras
			h.parked, h.tokens, h.extras = false, nil, nil
			e.orphans--
			e.stats.Adopted++
			e.place(h, parent, tokens, extras)
			queue = append(queue, h.key)
		}
		delete(e.waiting, key)
	}
}

// addCopy counts one more copy of h on a tier, the first in first.
func (e *epoch) addCopy(h *handle, t Tier, first *uint64) {
	switch n := int(h.copies[t]); {
	case n == 0:
		*first++
	case n < e.ix.options.Copies:
		e.stats.Copies++
	default:
		e.stats.CopiesCapped++
		h.copies[t]--
	}
	h.copies[t]++
	h.evicted = false
	if !h.parked {
		e.credit(h)
		e.touch(h)
	}
}

// remove takes one copy of a block away.
func (e *epoch) remove(key handleKey, t Tier) {
	h := e.handles[key]
	if h == nil || h.copies[t] == 0 {
		e.stats.RemovedUnknown++
		return
	}
	h.copies[t]--
	e.stats.Removed++
	if !h.parked {
		e.credit(h)
	} else if !h.hasCopy() {
		e.unpark(h)
	}
}

// unpark forgets a parked block.
func (e *epoch) unpark(h *handle) {
	delete(e.handles, h.key)
	e.orphans--
	p := h.content.parent
	if rest := slices.DeleteFunc(e.waiting[p], func(w *handle) bool { return w == h }); len(rest) > 0 {
		e.waiting[p] = rest
	} else {
		delete(e.waiting, p)
	}
}

// credit brings everything in line with the copies of a known handle.
func (e *epoch) credit(h *handle) {
	was, is := h.level, h.credit()
	if was == is {
		return
	}
	h.level = is
	for _, b := range h.blocks {
		e.refresh(b)
	}
	e.refreshAfter(h, h.end/e.ix.options.BlockTokens*e.ix.options.BlockTokens)

	change := 0
	switch {
	case was == levels:
		change = 1
	case is == levels:
		change = -1
	default:
		return
	}
	e.held += change
	e.ghosts -= change
	if h.parent != nil {
		h.parent.heldChildren += change
		e.file(h.parent)
	}
	e.touch(h)
}

// refreshAfter refreshes the block that begins at from and ends beyond h, in each of
// the chains that continue h.
func (e *epoch) refreshAfter(h *handle, from int) {
	if h.end == from {
		return
	}
	for child := h.children; child != nil; child = child.next {
		if len(child.blocks) > 0 {
			e.refresh(child.blocks[0])
		} else {
			e.refreshAfter(child, from)
		}
	}
}

// refresh recomputes the level at which handles hold b.
func (e *epoch) refresh(b BlockHash) {
	bl := e.blocks[b]
	was, is := bl.held, levels
	for _, end := range bl.ends {
		is = min(is, end.handle.covers(end.from))
	}
	bl.held = is
	if (was == levels) != (is == levels) && !e.isAssumed(b) {
		e.count(b, is < levels)
	}
}

// count notes that the owner came to hold b, or holds it no more.
func (e *epoch) count(b BlockHash, held bool) {
	if held {
		e.holdings++
		e.ix.hold(b)
	} else {
		e.holdings--
		e.ix.release(b)
	}
}

// touch makes h the youngest.
func (e *epoch) touch(h *handle) {
	e.stamp++
	h.stamp = e.stamp
	e.file(h)
}

// file puts a known handle where the next eviction or the next forgetting looks for it.
func (e *epoch) file(h *handle) {
	switch {
	case h.level < levels && h.heldChildren == 0:
		h.move(&e.leaves)
	case h.level == levels && h.children == nil:
		h.move(&e.bare)
	default:
		h.move(nil)
	}
}

// trim enforces the bounds after a write.
func (e *epoch) trim() {
	before := e.holdings
	for e.holdings > e.ix.options.OwnerBlocks {
		if e.assumed != nil && e.assumed.Len() > 0 {
			e.assumed.RemoveOldest() // a guess goes before what the engine said
			continue
		}
		h := e.leaves.oldest()
		h.evicted = true
		e.credit(h)
	}
	e.stats.Evicted += uint64(before - e.holdings)
	for len(e.bare) > 0 && e.ghosts > e.held+sparedGhosts {
		e.forget(e.bare.oldest())
	}
}

// forget drops a ghost without children.
func (e *epoch) forget(h *handle) {
	h.move(nil)
	delete(e.handles, h.key)
	e.ghosts--
	for _, b := range h.blocks {
		bl := e.blocks[b]
		bl.ends = slices.DeleteFunc(bl.ends, func(end ending) bool { return end.handle == h })
		if len(bl.ends) == 0 {
			delete(e.blocks, b)
		}
	}
	if h.parent != nil {
		h.parent.unlink(h)
		e.file(h.parent)
	}
}
