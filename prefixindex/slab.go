package prefixindex

import "slices"

const (
	pageBits = 12
	pageLen  = 1 << pageBits
)

// slab is a growing array of pointer-free elements, of which growth never copies more
// than the first page. Index 0 is never handed out: it means none.
type slab[T any] struct {
	pages [][]T
	n     uint32 // elements in use, with number 0
}

func (s *slab[T]) at(i uint32) *T { return &s.pages[i>>pageBits][i&(pageLen-1)] }

// extend makes elements up to n-1 usable, the new ones zero.
func (s *slab[T]) extend(n uint32) {
	for s.n < n {
		last := len(s.pages) - 1
		if last < 0 || len(s.pages[last]) == cap(s.pages[last]) {
			switch {
			case last < 0:
				s.pages = append(s.pages, slices.Grow([]T(nil), 4))
			case last == 0 && cap(s.pages[0]) < pageLen:
				s.pages[0] = slices.Grow(s.pages[0], min(cap(s.pages[0]), pageLen-cap(s.pages[0])))
			default:
				s.pages = append(s.pages, make([]T, 0, pageLen))
			}
			last = len(s.pages) - 1
			if cap(s.pages[last]) > pageLen { // rounded up by the allocator
				s.pages[last] = s.pages[last][:len(s.pages[last]):pageLen]
			}
		}
		page := &s.pages[last]
		room := min(uint32(cap(*page)-len(*page)), n-s.n)
		*page = (*page)[:uint32(len(*page))+room]
		s.n += room
	}
}

// capacity returns how many elements the memory of s holds.
func (s *slab[T]) capacity() int {
	n := 0
	if len(s.pages) > 0 {
		n = cap(s.pages[0]) + (len(s.pages)-1)*pageLen
	}
	return n
}
