package kvevents

import "container/heap"

// numbered is a frame with the fingerprint of its payload.
type numbered struct {
	Frame
	sum uint64
}

// held keeps frames that wait for others before them, by number and within bounds.
type held struct {
	maxFrames, maxBytes int

	frames map[uint64]numbered
	order  seqHeap // the keys of frames
	bytes  int     // of payloads
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
	heap.Push(&h.order, f.Seq)
	return true
}

// lowest returns the lowest number, if there is any.
func (h *held) lowest() (uint64, bool) {
	if len(h.order) == 0 {
		return 0, false
	}
	return h.order[0], true
}

// take removes the frame of the lowest number.
func (h *held) take() numbered {
	seq := heap.Pop(&h.order).(uint64)
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

type seqHeap []uint64

func (h seqHeap) Len() int           { return len(h) }
func (h seqHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h seqHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *seqHeap) Push(x any)        { *h = append(*h, x.(uint64)) }
func (h *seqHeap) Pop() any {
	last := len(*h) - 1
	seq := (*h)[last]
	*h = (*h)[:last]
	return seq
}
