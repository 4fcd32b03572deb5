package prefixindex

import (
	"iter"
	"math/bits"
	"sync/atomic"
)

// roster is who is a member, and which slots stand for what, at one instant. It is
// immutable; a change publishes another one, which shares all pages but those that
// changed. A lookup takes one and keeps it in its Match, so that results can be read
// long after.
type roster struct {
	slots   []*slotPage   // by slot
	members []*memberPage // by Endpoint.Slot
	joined  int
	seated  int
}

const pageSlots = 64

// slotPage says what the slots of one word of a set stand for.
type slotPage struct {
	live   uint64               // slots that are looked up
	held   [pageSlots]*contents // whose slots they are
	levels [pageSlots]level     // at which level
	state  *slotState           // of the same slots, changed in place
}

type memberPage [pageSlots]member

// member is an endpoint of the present generation.
type member struct {
	endpoint Endpoint // 0: none
	name     string
	seats    []seat // by rank
}

// seat is one owner's current epoch, and where its contents are looked up.
type seat struct {
	writer   *Writer
	contents *contents
	slots    [levels]uint32
}

var emptyRoster roster //nolint:gochecknoglobals // never written

// member returns the row of e, or nil if e is no member.
func (r *roster) member(e Endpoint) *member {
	i := e.Slot()
	if i <= 0 || i>>6 >= len(r.members) {
		return nil
	}
	if m := &r.members[i>>6][i&(pageSlots-1)]; m.endpoint == e {
		return m
	}
	return nil
}

// seats yields all owners' seats.
func (r *roster) seats() iter.Seq[*seat] {
	return func(yield func(*seat) bool) {
		for _, page := range r.members {
			for i := range page {
				for k := range page[i].seats {
					if !yield(&page[i].seats[k]) {
						return
					}
				}
			}
		}
	}
}

// seat returns the seat of a rank, or nil.
func (m *member) seat(rank int) *seat {
	for i := range m.seats {
		if m.seats[i].writer.rank == rank {
			return &m.seats[i]
		}
	}
	return nil
}

// draft is a roster about to be published. It copies each page once, when it is
// first written.
type draft struct {
	roster
	ownSlots, ownMembers map[int]bool
}

func (r *roster) draft() *draft {
	d := &draft{roster: *r}
	d.slots = append([]*slotPage(nil), r.slots...)
	d.members = append([]*memberPage(nil), r.members...)
	d.ownSlots, d.ownMembers = map[int]bool{}, map[int]bool{}
	return d
}

func (d *draft) slotPage(i int) *slotPage {
	for len(d.slots) <= i {
		d.ownSlots[len(d.slots)] = true
		d.slots = append(d.slots, &slotPage{state: new(slotState)})
	}
	if !d.ownSlots[i] {
		page := *d.slots[i]
		d.slots[i], d.ownSlots[i] = &page, true
	}
	return d.slots[i]
}

// row returns the row of an endpoint slot, to be written.
func (d *draft) row(slot int) *member {
	i := slot >> 6
	for len(d.members) <= i {
		d.ownMembers[len(d.members)] = true
		d.members = append(d.members, new(memberPage))
	}
	if !d.ownMembers[i] {
		page := *d.members[i]
		d.members[i], d.ownMembers[i] = &page, true
	}
	return &d.members[i][slot&(pageSlots-1)]
}

// show makes the slots of c be looked up.
func (d *draft) show(c *contents) {
	for l, slot := range c.slots {
		if c.distinct(level(l)) {
			page := d.slotPage(int(slot >> 6))
			page.live |= 1 << (slot & 63)
			page.held[slot&63], page.levels[slot&63] = c, level(l)
		}
	}
}

// hide is the fence: lookups that begin after publication see nothing of the seat. Its
// own copy of the slots is read: a write may be under way that gives the contents one
// more, which is not shown yet, and will not be.
func (d *draft) hide(s *seat) {
	for _, slot := range s.slots {
		page := d.slotPage(int(slot >> 6))
		page.live &^= 1 << (slot & 63)
		page.held[slot&63] = nil
	}
}

// numbers hands out small numbers, the lowest free one first.
type numbers struct {
	taken []uint64
	max   int
}

// take returns a free number below max, or false.
func (n *numbers) take() (int, bool) {
	for i, w := range n.taken {
		if w != ^uint64(0) {
			free := bits.TrailingZeros64(^w)
			if i<<6+free >= n.max {
				return 0, false
			}
			n.taken[i] |= 1 << free
			return i<<6 + free, true
		}
	}
	if len(n.taken)<<6 >= n.max {
		return 0, false
	}
	n.taken = append(n.taken, 1)
	return (len(n.taken) - 1) << 6, true
}

func (n *numbers) give(i int) { n.taken[i>>6] &^= 1 << (i & 63) }

// slotState is what readers must know of 64 slots besides who holds what: where the
// content of a slot is not closed under "parent of" (holes.go).
type slotState struct {
	holed atomic.Uint64 // slots whose lists are not empty
	walk  atomic.Uint64 // slots with too many holes to list
	last  [pageSlots]atomic.Uint64
	lists [pageSlots]atomic.Pointer[holeList]
}
