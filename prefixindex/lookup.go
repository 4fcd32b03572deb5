package prefixindex

import (
	"math/bits"
	"slices"
)

// lookup finds entries by a hash of one of their fields: open addressing over four
// bytes an entry. The bits that the largest entry number leaves are a tag of the hash,
// which spares most looks at entries that are not meant. Entries with equal hashes may
// be in it together.
type lookup struct {
	cells []uint32 // tag, entry number; 0: free
	mask  uint32   // of an entry number
	live  int
	dead  int // cells of entries taken out
}

const (
	maxEntry = 1<<28 - 1
	deadCell = 1 << 31 // no entry, but the search goes on

	lookupMost  = 0.75
	lookupLeast = 0.60
)

func (x *lookup) home(hash uint64) (i uint64, tag uint32) {
	hi, lo := bits.Mul64(hash, uint64(len(x.cells)))
	return hi, uint32(lo>>32) &^ x.mask
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
		if c&^x.mask == tag && c&x.mask != 0 {
			return c & x.mask, i
		}
	}
}

// peek reads the cell where the search for a hash begins.
func (x *lookup) peek(hash uint64) uint64 {
	if len(x.cells) == 0 {
		return 0
	}
	i, _ := x.home(hash)
	return uint64(x.cells[i])
}

// put adds an entry. The caller has made room.
func (x *lookup) put(hash uint64, entry uint32) {
	i, tag := x.home(hash)
	for n := uint64(len(x.cells)); ; i++ {
		if i >= n {
			i = 0
		}
		if c := x.cells[i]; c&x.mask == 0 {
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
			next := at + 1
			if next == uint64(len(x.cells)) {
				next = 0
			}
			if x.cells[next] == 0 {
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

// full reports whether room must be made before the next put, of an entry up to top.
func (x *lookup) full(top uint32) bool {
	return float64(x.live+x.dead+1) > lookupMost*float64(len(x.cells)) || top > x.mask
}

// clear empties x and gives it cells for n entries and some more, with numbers up to
// twice top.
func (x *lookup) clear(n int, top uint32) {
	cells := slices.Grow([]uint32(nil), int(float64(n+1)/lookupLeast)+2)
	*x = lookup{cells: cells[:cap(cells)], mask: 1<<min(bits.Len32(top)+1, bits.Len32(maxEntry)) - 1}
}
