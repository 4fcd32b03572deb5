package prefixindex

import (
	"math/bits"
	"slices"
)

// lookup finds entries by a hash of one of their fields: open addressing over four
// bytes an entry, of which a few bits of the hash spare most looks at entries that
// are not meant. Entries with equal hashes may be in it together.
type lookup struct {
	cells []uint32 // tag, entry number; 0: free
	live  int
	dead  int // cells of entries taken out
}

const (
	entryBits = 28
	entryMask = 1<<entryBits - 1
	deadCell  = 1 << entryBits // no entry, but the search goes on

	lookupMost  = 0.75
	lookupLeast = 0.60
)

func (x *lookup) home(hash uint64) (i uint64, tag uint32) {
	hi, lo := bits.Mul64(hash, uint64(len(x.cells)))
	return hi, uint32(lo>>(64-4)) << entryBits
}

// next returns the next cell that may lead to an entry with the given hash, beginning
// at i; 0 entry: there is no more.
func (x *lookup) next(i uint64, tag uint32) (entry uint32, at uint64) {
	for n := uint64(len(x.cells)); ; i++ {
		if i >= n {
			i = 0
		}
		c := x.cells[i]
		if c == 0 {
			return 0, i
		}
		if c&^entryMask == tag && c&entryMask != 0 {
			return c & entryMask, i
		}
	}
}

// put adds an entry. The caller has made room.
func (x *lookup) put(hash uint64, entry uint32) {
	i, tag := x.home(hash)
	for n := uint64(len(x.cells)); ; i++ {
		if i >= n {
			i = 0
		}
		if c := x.cells[i]; c&entryMask == 0 {
			if c != 0 {
				x.dead--
			}
			x.cells[i] = tag | entry
			x.live++
			return
		}
	}
}

// drop takes an entry out.
func (x *lookup) drop(hash uint64, entry uint32) {
	i, tag := x.home(hash)
	for {
		e, at := x.next(i, tag)
		if e == entry {
			x.live--
			if next := (at + 1) % uint64(len(x.cells)); x.cells[next] == 0 {
				x.cells[at] = 0
			} else {
				x.cells[at] = deadCell
				x.dead++
			}
			return
		}
		if e == 0 {
			return
		}
		i = at + 1
	}
}

// full reports whether room must be made before the next put.
func (x *lookup) full() bool {
	return float64(x.live+x.dead+1) > lookupMost*float64(len(x.cells))
}

// clear empties x and gives it cells for n entries and some more.
func (x *lookup) clear(n int) {
	cells := slices.Grow([]uint32(nil), int(float64(n+1)/lookupLeast)+2)
	*x = lookup{cells: cells[:cap(cells)]}
}
