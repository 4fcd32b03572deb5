package prefixindex

import "sync/atomic"

// A hole is a block that an owner does not hold while it holds a child of it. Where
// an owner has no holes at a level, what it holds of any chain is a prefix, and a
// binary search finds its end. Where there are a few, their list corrects the search:
// the first listed hole on the chain below the result bounds it, and below that hole
// the chain is a prefix again.
//
// A writer lists and counts a hole, then changes the bit that makes it one, and where it
// cleared it counts again; a hole that closes is taken off the list after the bit has
// changed. The package comment says what a lookup then sees.
const (
	// maxHoles is how many holes of a slot are listed. With more, readers walk.
	maxHoles = 64

	// fewHoles is at how many a slot goes back from walking to its list.
	fewHoles = maxHoles / 2
)

// holeList is what readers see of a slot's holes: unordered, with free places.
type holeList struct {
	n  atomic.Uint32 // places that may be taken
	at [maxHoles]struct {
		tip   atomic.Uint64 // the hole's BlockHash; 0: free
		depth atomic.Uint32 // its position in the chain
	}
}

// holes is the writer's own view of the holes of one slot.
type holes struct {
	known   map[uint64]hole // by BlockHash
	free    []uint8         // places of the list; used only while not walking
	walking bool
}

type hole struct {
	depth uint32
	place uint8
}

// has reports whether tip is a hole.
func (h *holes) has(tip uint64) bool {
	if len(h.known) == 0 {
		return false
	}
	_, ok := h.known[tip]
	return ok
}

// addHole publishes that tip, at position depth, is a hole of the slot of level l from
// now on. The caller changes the bit after.
func (c *contents) addHole(l level, tip uint64, depth uint32) {
	h := &c.holes[l]
	if h.has(tip) {
		return
	}
	if h.known == nil {
		h.known = make(map[uint64]hole)
	}
	yield("before a hole is listed")
	state, i := c.ix.slotState(c.slots[l])
	switch {
	case h.walking:
		h.known[tip] = hole{depth: depth}
	case len(h.known) < maxHoles:
		list := state.lists[i].Load()
		if list == nil {
			list = new(holeList)
			state.lists[i].Store(list)
		}
		h.known[tip] = hole{depth, h.list(list, tip, depth)}
		state.holed.Or(1 << i)
	default:
		h.known[tip] = hole{depth: depth}
		h.walking = true
		state.walk.Or(1 << i)
	}
	yield("hole listed")
	c.noteHole(l)
}

// noteHole makes lookups of a slot that are under way search again.
func (c *contents) noteHole(l level) {
	state, i := c.ix.slotState(c.slots[l])
	state.last[i].Store(c.ix.holesMade.Add(1))
}

// list writes a hole into a free place.
func (h *holes) list(list *holeList, tip uint64, depth uint32) uint8 {
	var place uint8
	if n := len(h.free); n > 0 {
		place = h.free[n-1]
		h.free = h.free[:n-1]
	} else {
		place = uint8(list.n.Load())
		list.n.Store(uint32(place) + 1)
	}
	list.at[place].depth.Store(depth)
	list.at[place].tip.Store(tip)
	return place
}

// dropHole publishes that tip is no hole any more, after the bit has changed.
func (c *contents) dropHole(l level, tip uint64) {
	h := &c.holes[l]
	gone, ok := h.known[tip]
	if !ok {
		return
	}
	delete(h.known, tip)
	state, i := c.ix.slotState(c.slots[l])
	switch {
	case !h.walking:
		state.lists[i].Load().at[gone.place].tip.Store(0)
		h.free = append(h.free, gone.place)
		if len(h.known) == 0 {
			state.holed.And(^(uint64(1) << i))
			state.lists[i].Load().n.Store(0)
			h.free = h.free[:0]
		}
	case len(h.known) <= fewHoles:
		// The list is complete before a reader is told to use it.
		list := state.lists[i].Load()
		for k := range list.at {
			list.at[k].tip.Store(0)
		}
		h.free = h.free[:0]
		list.n.Store(0)
		for tip, x := range h.known {
			x.place = h.list(list, tip, x.depth)
			h.known[tip] = x
		}
		h.walking = false
		state.holed.Or(1 << i)
		yield("list complete")
		state.walk.And(^(uint64(1) << i))
	}
}

// resetHoles readies a slot for its next use. No lookup knows it then.
func (s *slotState) resetHoles(i uint32) {
	s.holed.And(^(uint64(1) << i))
	s.walk.And(^(uint64(1) << i))
	s.lists[i].Store(nil)
}
