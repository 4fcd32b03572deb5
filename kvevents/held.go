package kvevents

import "slices"

// numbered is a frame with the fingerprint of its payload.
type numbered struct {
	Frame
	sum uint64
}

// held keeps frames that wait for others before them, by number and within bounds. If
// there is no room for all, it keeps the lowest: they are of use first, and the others
// will be asked for again.
type held struct {
	maxFrames, maxBytes int

	frames map[uint64]numbered
	order  []uint64 // the keys of frames, ascending
	bytes  int      // of payloads
}

// add keeps f, whose number must not be there already, and returns for how many frames,
// f or higher ones, there was no room. O(1) for a number above all, as live ones are;
// others move the numbers above them.
func (h *held) add(f numbered) (dropped uint64) {
	for len(h.frames) >= h.maxFrames || len(f.Payload) > h.maxBytes-h.bytes {
		dropped++
		last := len(h.order) - 1
		if last < 0 || h.order[last] < f.Seq {
			return dropped
		}
		h.remove(h.order[last])
		h.order = h.order[:last]
	}
	if h.frames == nil {
		h.frames = map[uint64]numbered{}
	}
	h.frames[f.Seq] = f
	h.bytes += len(f.Payload)
	i, _ := slices.BinarySearch(h.order, f.Seq)
	h.order = slices.Insert(h.order, i, f.Seq)
	return dropped
}

// other reports whether there is a frame of f's number which is not f.
func (h *held) other(f numbered) bool {
	known, ok := h.frames[f.Seq]
	return ok && known.sum != f.sum
}

// lowest returns the lowest number, if there is any.
func (h *held) lowest() (uint64, bool) {
	if len(h.order) == 0 {
		return 0, false
	}
	return h.order[0], true
}

// reaches reports whether each number from first up to end, exclusive, is there. There
// must be none from end on.
func (h *held) reaches(first, end uint64) bool {
	i, ok := slices.BinarySearch(h.order, first)
	return ok && uint64(len(h.order)-i) == end-first
}

// take removes the frame of the lowest number. There must be one.
func (h *held) take() numbered {
	seq := h.order[0]
	h.order = h.order[1:]
	return h.remove(seq)
}

// remove takes a frame out of all but the order.
func (h *held) remove(seq uint64) numbered {
	f := h.frames[seq]
	delete(h.frames, seq)
	h.bytes -= len(f.Payload)
	return f
}

// drop forgets all frames and returns how many there were.
func (h *held) drop() int {
	n := len(h.frames)
	h.frames, h.order, h.bytes = nil, nil, 0
	return n
}
