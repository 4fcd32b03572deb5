package prefixindex

import (
	"math/bits"
	"sync/atomic"
)

// An owner set says which slots hold a block. It is one word of a record, and
// beyond three members some words of the table's spill area:
//
//	63 62 | 61 ... 48 | 47 ... 32 | 31 ... 16 | 15 ... 0
//	  0   |           |  lane 2   |  lane 1   | lane 0     up to three members
//	  1   |   words   |     -     | offset of the words     a list, four lanes a word
//	  2   |   words   |     -     | offset of the words     a bitmap
//
// A lane is a slot plus one; zero is a free lane. The empty set is the word 0.
//
// Writers, under the shard's lock, change a set in place one word at a time, or
// write a larger form elsewhere and then the word that leads to it. A member never
// moves from one lane to another in place, or a reader could miss it. Words of the
// spill area are never used twice in a table's lifetime, so that a reader who was
// led to them by an old word finds the set as it was when the word was replaced.
const (
	kindInline = uint64(0) << kindShift
	kindList   = uint64(1) << kindShift
	kindBitmap = uint64(2) << kindShift
	kindMask   = uint64(3) << kindShift
	kindShift  = 62

	wordsShift = 48
	wordsMask  = 1<<14 - 1

	inlineLanes = 3
	laneBits    = 16
	laneMask    = 1<<laneBits - 1

	// maxSlots is how many slots lanes can tell apart.
	maxSlots = laneMask
)

// spilled returns the words that a list's or bitmap's word leads to.
func (t *table) spilled(set uint64) []atomic.Uint64 {
	at := uint32(set)
	return t.spill[at : at+uint32(set>>wordsShift&wordsMask)]
}

// has reports whether slot is in the set. O(1), a list O(its lanes).
func (t *table) has(set uint64, slot uint32) bool {
	lane := uint64(slot) + 1
	switch set & kindMask {
	case kindInline:
		return set&laneMask == lane || set>>laneBits&laneMask == lane || set>>(2*laneBits)&laneMask == lane
	case kindBitmap:
		words := t.spilled(set)
		return int(slot>>6) < len(words) && words[slot>>6].Load()>>(slot&63)&1 != 0
	}
	words := t.spilled(set)
	for i := range words {
		for w := words[i].Load(); w != 0; w >>= laneBits {
			if w&laneMask == lane {
				return true
			}
		}
	}
	return false
}

// intersect writes the members of the set that are in mask to out, and reports whether
// there are any. Both have a bit for every slot that the caller knows of.
func (t *table) intersect(set uint64, mask, out []uint64) bool {
	if set&kindMask == kindBitmap {
		words := t.spilled(set)
		any := uint64(0)
		n := min(len(words), len(mask))
		out = out[:len(mask)]
		for i := range n {
			w := mask[i] & words[i].Load()
			out[i] = w
			any |= w
		}
		clear(out[n:])
		return any != 0
	}
	clear(out)
	any := false
	if set&kindMask == kindInline {
		for ; set != 0; set >>= laneBits {
			any = pickLane(set, mask, out) || any
		}
		return any
	}
	words := t.spilled(set)
	for i := range words {
		for w := words[i].Load(); w != 0; w >>= laneBits {
			any = pickLane(w, mask, out) || any
		}
	}
	return any
}

// pickLane carries the lowest lane of w from mask to out.
func pickLane(w uint64, mask, out []uint64) bool {
	slot := w&laneMask - 1 // of a free lane: beyond every mask
	i := slot >> 6
	if i >= uint64(len(mask)) {
		return false
	}
	bit := mask[i] & (1 << (slot & 63))
	out[i] |= bit
	return bit != 0
}

// intersect64 is intersect for an index whose slots fit in one word.
func (t *table) intersect64(set, mask uint64) uint64 {
	switch set & kindMask {
	case kindBitmap:
		return mask & t.spill[uint32(set)].Load()
	case kindInline:
		var m uint64
		for ; set != 0; set >>= laneBits {
			m |= lane64(set)
		}
		return m & mask
	}
	var m uint64
	words := t.spilled(set)
	for i := range words {
		for w := words[i].Load(); w != 0; w >>= laneBits {
			m |= lane64(w)
		}
	}
	return m & mask
}

func lane64(w uint64) uint64 {
	slot := w&laneMask - 1
	return uint64(1) << slot // a shift by 64 or more, of a free lane too, gives 0
}

// add puts slot into the set of rec, which it is not in. It reports false if the spill
// area has no room for the larger form, and then has changed nothing.
func (t *table) add(rec *record, slot uint32) bool {
	set := rec.set.Load()
	lane := uint64(slot) + 1
	switch set & kindMask {
	case kindInline:
		for i := range inlineLanes {
			if set>>(i*laneBits)&laneMask == 0 {
				rec.set.Store(set | lane<<(i*laneBits))
				return true
			}
		}
	case kindBitmap:
		if words := t.spilled(set); int(slot>>6) < len(words) {
			w := &words[slot>>6]
			w.Store(w.Load() | 1<<(slot&63))
			return true
		}
	case kindList:
		words := t.spilled(set)
		for i := range words {
			w := words[i].Load()
			for j := range 64 / laneBits {
				if w>>(j*laneBits)&laneMask == 0 {
					words[i].Store(w | lane<<(j*laneBits))
					return true
				}
			}
		}
	}
	larger, ok := t.encode(append(t.members(set), slot))
	if !ok {
		return false
	}
	t.waste += spillWords(set)
	rec.set.Store(larger)
	return true
}

// remove takes slot out of the set of rec, and reports whether it was in it.
func (t *table) remove(rec *record, slot uint32) bool {
	set := rec.set.Load()
	if !t.has(set, slot) {
		return false
	}
	lane := uint64(slot) + 1
	switch set & kindMask {
	case kindInline:
		rec.set.Store(dropLane(set, lane))
		return true
	case kindBitmap:
		w := &t.spilled(set)[slot>>6]
		w.Store(w.Load() &^ (1 << (slot & 63)))
	case kindList:
		words := t.spilled(set)
		for i := range words {
			w := words[i].Load()
			if smaller := dropLane(w, lane); smaller != w {
				words[i].Store(smaller)
				break
			}
		}
	}
	if t.few(set) {
		inline, _ := t.encode(t.members(set))
		t.waste += spillWords(set)
		rec.set.Store(inline)
	}
	return true
}

func dropLane(w, lane uint64) uint64 {
	for j := range 64 / laneBits {
		if w>>(j*laneBits)&laneMask == lane {
			return w &^ (laneMask << (j * laneBits))
		}
	}
	return w
}

// few reports whether a spilled set is due to go back into its word: one lane stays
// free, so that a member that comes and goes does not move the set each time.
func (t *table) few(set uint64) bool {
	n := 0
	words := t.spilled(set)
	for i := range words {
		w := words[i].Load()
		if set&kindMask == kindBitmap {
			n += bits.OnesCount64(w)
		} else {
			for ; w != 0; w >>= laneBits {
				n += int(min(w&laneMask, 1))
			}
		}
		if n >= inlineLanes {
			return false
		}
	}
	return true
}

func spillWords(set uint64) int {
	if set&kindMask == kindInline {
		return 0
	}
	return int(set >> wordsShift & wordsMask)
}

// members lists the slots of a set, in the table's scratch.
func (t *table) members(set uint64) []uint32 {
	m := t.scratch[:0]
	switch set & kindMask {
	case kindInline:
		m = appendLanes(m, set)
	case kindList:
		words := t.spilled(set)
		for i := range words {
			m = appendLanes(m, words[i].Load())
		}
	case kindBitmap:
		words := t.spilled(set)
		for i := range words {
			for w := words[i].Load(); w != 0; w &= w - 1 {
				m = append(m, uint32(i<<6+bits.TrailingZeros64(w)))
			}
		}
	}
	t.scratch = m
	return m
}

func appendLanes(m []uint32, w uint64) []uint32 {
	for ; w != 0; w >>= laneBits {
		if w&laneMask != 0 {
			m = append(m, uint32(w&laneMask-1))
		}
	}
	return m
}

// form returns the kind and the words of the smallest form of n members, the highest
// of which is slot top.
func form(n int, top uint32) (kind uint64, words int) {
	if n <= inlineLanes {
		return kindInline, 0
	}
	lanes := 4
	for lanes < n {
		lanes += max(4, lanes/2/4*4)
	}
	if bitmap := int(top>>6) + 1; bitmap <= lanes/4 {
		return kindBitmap, bitmap
	}
	return kindList, lanes / 4
}

// encode writes the smallest form of a set of members, and returns its word. It
// reports false, having done nothing, if the spill area has no room.
func (t *table) encode(members []uint32) (uint64, bool) {
	var top uint32
	for _, s := range members {
		top = max(top, s)
	}
	kind, n := form(len(members), top)
	if kind == kindInline {
		var set uint64
		for i, s := range members {
			set |= (uint64(s) + 1) << (i * laneBits)
		}
		return set, true
	}
	if t.used+n > len(t.spill) {
		t.want = n
		return 0, false
	}
	set := kind | uint64(n)<<wordsShift | uint64(t.used)
	t.used += n
	words := t.spilled(set)
	for i, s := range members {
		yield("record: before a member is written")
		if kind == kindBitmap {
			w := &words[s>>6]
			w.Store(w.Load() | 1<<(s&63))
		} else {
			w := &words[i/4]
			w.Store(w.Load() | (uint64(s)+1)<<(i%4*laneBits))
		}
	}
	return set, true
}
