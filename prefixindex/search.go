package prefixindex

import "math/bits"

// search is the scratch of lookups. Masks have a bit for each slot.
type search struct {
	walk   []uint64   // slots whose chains are walked
	masks  []uint64   // stack of masks, words each
	frames []frame    // stack of brackets, each with a mask
	holes  []seenHole // that were listed before the search

	fetched uint64 // what nobody wants to know
}

// frame is a bracket: the slots of its mask hold block lo-1 and not block hi, so that
// their runs are lo to hi blocks long.
type frame struct{ lo, hi uint32 }

type seenHole struct {
	slot, depth uint32
	tip         uint64
}

// chainSearch is one call of Match: the search for the ends of all owners' runs at once.
// Each position of the chain is probed at most once for all owners, about
// D log(blocks/D) of them for D different lengths.
type chainSearch struct {
	ix     *Index
	prompt *Prompt
	match  *Match
	blocks int // of the prompt
}

// Match fills m with how much of p each owner holds, hashing as many of p's
// blocks as the search needs. What m held before is gone.
//
// It runs on the caller's goroutine and waits for no lock: those that it finds free it
// takes to sweep, up to 1,024 blocks, what has expired since the last one.
// Safe beside every other method; p and m belong to the caller until it returns. No
// allocation once p and m have grown. O(owners that hold the first block), and
// O(log blocks) probes for each different length of run.
func (ix *Index) Match(p *Prompt, m *Match) {
	r := ix.roster.Load()
	words := len(r.slots)
	m.roster, m.blockTokens, m.promptTokens = r, ix.options.BlockTokens, p.Tokens()
	if cap(m.found) < words {
		m.grow(words)
	}
	m.found = m.found[:words]
	clear(m.found)
	s := chainSearch{ix: ix, prompt: p, match: m, blocks: p.blocks(ix.hasher)}
	if words == 0 || s.blocks == 0 {
		return
	}

	// Who does not hold the first block has no run, and that is most of a lookup's
	// work where nobody does. That look is part of every run: a hole made after it
	// counts as made during the search.
	before := ix.holesMade.Load()
	due := ix.nextDue.Load() // first: another lookup may end what is due before it is looked for
	hash := s.hash(0)
	if p.hasher == ix.hasher && len(p.hashes) >= s.blocks {
		m.search.fetched = ix.records.peek(uint64(p.hashes[s.blocks-1])) // while memory is at the first
	}
	t := ix.records.table(hash)
	set := t.find(hash)
	if set == 0 {
		return
	}
	yield("looked")
	live := m.search.masks[:words]
	for i, page := range r.slots {
		live[i] = page.live
	}
	if due != never {
		if at := ix.options.Clock().UnixNano(); at >= due {
			ix.expireDue(r, at, live)
			t = ix.records.table(hash)
			set = t.find(hash)
		}
	}
	if !t.intersect(set, live, m.found) {
		return
	}
	if s.blocks == 1 {
		s.assign(m.found, 1)
	} else {
		yield("found")
		s.run(before)
	}

	if m.lookups++; m.lookups%recencyEvery == 1 {
		s.markEnds()
	}

	// A slot that was given to other contents during the search says nothing.
	if now := ix.roster.Load(); now != r {
		for i, page := range r.slots {
			if now.slots[i] == page {
				continue
			}
			for w := m.found[i]; w != 0; w &= w - 1 {
				if k := bits.TrailingZeros64(w); now.slots[i].held[k] != page.held[k] {
					m.found[i] &^= 1 << k
				}
			}
		}
	}
}

// markEnds keeps the blocks at the ends of the runs found from eviction.
func (s *chainSearch) markEnds() {
	last := uint32(0)
	for i, w := range s.match.found {
		for ; w != 0; w &= w - 1 {
			if run := s.match.runs[i<<6+bits.TrailingZeros64(w)]; run != last && run > 0 {
				last = run
				s.ix.recency.mark(s.hash(int(run) - 1))
			}
		}
	}
}

// grow makes room for slots of a number of words.
func (m *Match) grow(words int) {
	m.found = make([]uint64, words)
	m.runs = make([]uint32, words*64)
	m.search.masks = make([]uint64, words, 16*words)
	m.search.walk = make([]uint64, words)
}

// hash returns the hash of block i.
func (s *chainSearch) hash(i int) uint64 {
	h := s.prompt.hashes
	if i >= len(h) || s.prompt.hasher != s.ix.hasher {
		h = s.prompt.grow(s.ix.hasher, i+1)
	}
	return uint64(h[i])
}

// probe writes to out the slots of mask that hold block i.
func (s *chainSearch) probe(i int, mask, out []uint64) bool {
	yield("probe")
	hash := s.hash(i)
	t := s.ix.records.table(hash)
	return t.intersect(t.find(hash), mask, out)
}

// holds reports whether a slot holds block i.
func (s *chainSearch) holds(i int, slot uint32) bool {
	yield("probe")
	hash := s.hash(i)
	t := s.ix.records.table(hash)
	return t.has(t.find(hash), slot)
}

// assign notes that the slots of a mask have runs of n blocks.
func (s *chainSearch) assign(mask []uint64, n int) {
	runs := s.match.runs
	for i, w := range mask {
		if w == ^uint64(0) {
			for k := range runs[i<<6 : i<<6+64] {
				runs[i<<6+k] = uint32(n)
			}
			continue
		}
		for ; w != 0; w &= w - 1 {
			runs[i<<6+bits.TrailingZeros64(w)] = uint32(n)
		}
	}
}

// run searches for the runs of all slots found, which held the first block after before
// was noted.
func (s *chainSearch) run(before uint64) {
	ix, m := s.ix, s.match
	x := &m.search
	words := len(m.found)

	// First who walks, then whose holes are listed, then the lists (holes.go). Where
	// following lists would take more probes than the chain has blocks, their slots
	// walk too.
	walking := uint64(0)
	holed := 0
	mask := x.masks[:words] // the others
	x.walk = x.walk[:words] // the Match may have served a larger index
	for i, page := range m.roster.slots {
		w := m.found[i] & page.state.walk.Load()
		x.walk[i] = w
		mask[i] = m.found[i] &^ w
		walking |= w
	}
	yield("walkers known")
	x.holes = x.holes[:0]
	for i, page := range m.roster.slots {
		holed += bits.OnesCount64(mask[i] & page.state.holed.Load())
	}
	if holed > 0 {
		together := holed*bits.Len(uint(s.blocks)) > s.blocks
		for i, page := range m.roster.slots {
			w := mask[i] & page.state.holed.Load()
			if together {
				x.walk[i] |= w
				mask[i] &^= w
				walking |= w
				continue
			}
			for ; w != 0; w &= w - 1 {
				k := bits.TrailingZeros64(w)
				s.see(page.state.lists[k].Load(), uint32(i<<6+k))
			}
		}
	}

	yield("holes known")
	if words == 1 {
		s.search64(mask[0])
	} else {
		s.search(mask)
	}
	if walking != 0 {
		s.walk()
	}
	for at := 0; at < len(x.holes); {
		at = s.correct(x.holes[at].slot, at)
	}

	if ix.holesMade.Load() != before {
		for i, page := range m.roster.slots {
			for w := m.found[i]; w != 0; w &= w - 1 {
				k := bits.TrailingZeros64(w)
				if page.state.last[k].Load() > before {
					s.again(page.state, uint32(i<<6+k))
				}
			}
		}
	}
}

// see keeps the listed holes of a slot for after the search.
func (s *chainSearch) see(list *holeList, slot uint32) {
	if list == nil {
		return
	}
	x := &s.match.search
	for i := range list.n.Load() {
		h := seenHole{slot: slot, tip: list.at[i].tip.Load(), depth: list.at[i].depth.Load()}
		if h.tip != 0 && int(h.depth) < s.blocks {
			x.holes = append(x.holes, h)
		}
	}
}

// correct shortens the run of a slot to its first listed hole on the chain. The slot's
// holes are those seen from at on; it returns where the next slot's begin.
func (s *chainSearch) correct(slot uint32, at int) int {
	x := &s.match.search
	run := s.match.runs[slot]
	first := run
	for ; at < len(x.holes) && x.holes[at].slot == slot; at++ {
		if h := &x.holes[at]; h.depth < first && s.hash(int(h.depth)) == h.tip {
			first = h.depth
		}
	}
	if first < run {
		s.match.runs[slot] = s.bisect(slot, min(first, 1), first)
	}
	return at
}

// bisect returns the run of a slot that holds block lo-1, has no hole below block hi
// on this chain, and does not hold block hi.
func (s *chainSearch) bisect(slot, lo, hi uint32) uint32 {
	for lo < hi {
		mid := (lo + hi) / 2
		if s.holds(int(mid), slot) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// search finds the runs of slots whose chains are prefixes. If the last hash is known
// the last block is looked at first: whoever has the whole prompt is done. Else the
// search doubles its distance, so that it hashes at most twice the blocks it credits.
func (s *chainSearch) search(mask []uint64) {
	x := &s.match.search
	words := len(mask)
	x.frames = x.frames[:0]
	x.masks = x.masks[:words]
	held := 1 // blocks that all in mask hold
	for held < s.blocks {
		at := s.blocks - 1
		if len(s.prompt.hashes) < s.blocks {
			at = min(2*held, s.blocks-1)
		}
		have, lack := x.push2(words)
		mask := x.masks[:words]
		any := s.probe(at, mask, have)
		rest := subtract(lack, mask, have)
		copy(mask, have)
		x.masks = x.masks[:words]
		if rest {
			copy(x.push(words), lack)
			x.frames = append(x.frames, frame{uint32(held), uint32(at)})
			s.brackets()
		}
		if !any {
			return
		}
		held = at + 1
	}
	s.assign(x.masks[:words], s.blocks)
}

// brackets narrows the brackets on the stack until it is empty.
func (s *chainSearch) brackets() {
	x := &s.match.search
	words := len(s.match.found)
	for len(x.frames) > 0 {
		f := &x.frames[len(x.frames)-1]
		top := len(x.masks) - words
		if f.lo == f.hi {
			s.assign(x.masks[top:], int(f.lo))
			x.frames = x.frames[:len(x.frames)-1]
			x.masks = x.masks[:top]
			continue
		}
		mid := (f.lo + f.hi) / 2
		have := x.push(words)
		mask := x.masks[top : top+words]
		switch any := s.probe(int(mid), mask, have); {
		case !any:
			f.hi = mid
			x.masks = x.masks[:top+words]
		case subtract(mask, mask, have):
			lo, hi := mid+1, f.hi
			f.hi = mid
			x.frames = append(x.frames, frame{lo, hi})
		default:
			f.lo = mid + 1
			copy(mask, have)
			x.masks = x.masks[:top+words]
		}
	}
}

// search64 is search and brackets for an index of at most 64 slots, whose masks are
// words on the goroutine's stack.
func (s *chainSearch) search64(mask uint64) {
	var stack [maxStack]struct {
		lo, hi uint32
		mask   uint64
	}
	runs := s.match.runs
	held := uint32(1) // blocks that all in mask hold
	for blocks := uint32(s.blocks); held < blocks; {
		at := blocks - 1
		if len(s.prompt.hashes) < s.blocks {
			at = min(2*held, at)
		}
		have := s.probe64(s.hash(int(at)), mask)
		hashes := s.prompt.hashes
		stack[0].lo, stack[0].hi, stack[0].mask = held, at, mask&^have
		n := 1
		if mask == have {
			n = 0
		}
		for n > 0 {
			f := &stack[n-1]
			if f.lo == f.hi {
				for w := f.mask; w != 0; w &= w - 1 {
					runs[bits.TrailingZeros64(w)] = f.lo
				}
				n--
				continue
			}
			mid := (f.lo + f.hi) / 2
			switch have := s.probe64(uint64(hashes[mid]), f.mask); have {
			case 0:
				f.hi = mid
			case f.mask:
				f.lo = mid + 1
			default:
				stack[n].lo, stack[n].hi, stack[n].mask = mid+1, f.hi, have
				f.hi, f.mask = mid, f.mask&^have
				n++
			}
		}
		if mask = have; mask == 0 {
			return
		}
		held = at + 1
	}
	s.assign([]uint64{mask}, s.blocks)
}

// maxStack is more brackets than can be open at once: each is at most half as wide as
// the one below it.
const maxStack = 64

func (s *chainSearch) probe64(hash, mask uint64) uint64 {
	yield("probe")
	t := s.ix.records.table(hash)
	return t.intersect64(t.find(hash), mask)
}

// push makes room for a mask on the stack, whose contents are not defined.
func (x *search) push(words int) []uint64 {
	n := len(x.masks)
	if n+words > cap(x.masks) {
		x.masks = append(x.masks, make([]uint64, words)...)
	}
	x.masks = x.masks[:n+words]
	return x.masks[n:]
}

func (x *search) push2(words int) (a, b []uint64) {
	x.push(words)
	x.push(words)
	n := len(x.masks)
	return x.masks[n-2*words : n-words], x.masks[n-words:]
}

// subtract sets out to what is in a and not in b, and reports whether that is anything.
func subtract(out, a, b []uint64) bool {
	any := uint64(0)
	for i := range out {
		w := a[i] &^ b[i]
		out[i] = w
		any |= w
	}
	return any != 0
}

// walk looks at block after block, for the slots whose holes are too many to list.
func (s *chainSearch) walk() {
	x := &s.match.search
	words := len(s.match.found)
	x.masks = x.masks[:words]
	for i := 1; i < s.blocks; i++ {
		have, lack := x.push2(words)
		any := s.probe(i, x.walk, have)
		if subtract(lack, x.walk, have) {
			s.assign(lack, i)
		}
		copy(x.walk, have)
		x.masks = x.masks[:words]
		if !any {
			return
		}
	}
	s.assign(x.walk, s.blocks)
}

// tries is how often the search for a slot is repeated if holes are made in it
// meanwhile.
const tries = 3

// again searches for one slot, for which a hole was made during the search. If holes
// go on being made, the least of all results stands: each ended behind a block that was
// seen held.
func (s *chainSearch) again(state *slotState, slot uint32) {
	x := &s.match.search
	i := slot & 63
	least := s.match.runs[slot]
	for range tries {
		before := s.ix.holesMade.Load()
		walk := state.walk.Load()>>i&1 != 0
		x.holes = x.holes[:0]
		if !walk && state.holed.Load()>>i&1 != 0 {
			s.see(state.lists[i].Load(), slot)
		}
		run := uint32(0)
		if walk {
			for int(run) < s.blocks && s.holds(int(run), slot) {
				run++
			}
		} else {
			run = s.gallop(slot)
		}
		s.match.runs[slot] = run
		s.correct(slot, 0)
		run = s.match.runs[slot]
		if state.last[i].Load() <= before {
			s.settle(slot, run)
			return
		}
		least = min(least, run)
	}
	s.settle(slot, least)
}

func (s *chainSearch) settle(slot, run uint32) {
	s.match.runs[slot] = run
	if run == 0 {
		s.match.found[slot>>6] &^= 1 << (slot & 63)
	}
}

// gallop is search for one slot.
func (s *chainSearch) gallop(slot uint32) uint32 {
	if !s.holds(0, slot) {
		return 0
	}
	for held := 1; held < s.blocks; {
		at := min(2*held, s.blocks-1)
		if !s.holds(at, slot) {
			return s.bisect(slot, uint32(held), uint32(at))
		}
		held = at + 1
	}
	return uint32(s.blocks)
}
