package kvevents

// numbered is a frame with the fingerprint of its payload.
type numbered struct {
	Frame
	sum uint64
}

// held keeps frames that wait for others before them, by number and within bounds.
type held struct {
	maxFrames, maxBytes int

	frames map[uint64]numbered
	order  []uint64 // the keys of frames, as a heap: none is above its parent (i-1)/2
	bytes  int      // of payloads
}

// add keeps f, unless its number is there already. It reports whether there was room.
func (h *held) add(f numbered) bool {
	if _, ok := h.frames[f.Seq]; ok {
		return true
	}
	if len(h.frames) >= h.maxFrames || len(f.Payload) > h.maxBytes-h.bytes {
		return false
	}
	if h.frames == nil {
		h.frames = map[uint64]numbered{}
	}
	h.frames[f.Seq] = f
	h.bytes += len(f.Payload)
	i := len(h.order)
	h.order = append(h.order, f.Seq)
	for i > 0 && h.order[(i-1)/2] > f.Seq { // live frames come in order, and stay at the end
		h.order[i] = h.order[(i-1)/2]
		i = (i - 1) / 2
	}
	h.order[i] = f.Seq
	return true
}

// lowest returns the lowest number, if there is any.
func (h *held) lowest() (uint64, bool) {
	if len(h.order) == 0 {
		return 0, false
	}
	return h.order[0], true
}

// take removes the frame of the lowest number. There must be one.
func (h *held) take() numbered {
	seq := h.order[0]
	last := len(h.order) - 1
	moved := h.order[last]
	h.order = h.order[:last]
	i := 0
	for 2*i+1 < last {
		child := 2*i + 1
		if child+1 < last && h.order[child+1] < h.order[child] {
			child++
		}
		if h.order[child] >= moved {
			break
		}
		h.order[i] = h.order[child]
		i = child
	}
	if last > 0 {
		h.order[i] = moved
	}
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
