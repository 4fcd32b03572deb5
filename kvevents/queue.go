package kvevents

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// QueuePolicy is what to do with a frame for which a queue has no room.
type QueuePolicy uint8

// The queue policies.
const (
	// QueueDefault is QueueBlock for a Subscriber, and QueueDrop for a Demux, where one
	// key whose frames nobody receives would stop all.
	QueueDefault QueuePolicy = iota

	// QueueBlock receives nothing until there is room, so that the transport, and at
	// last the engine, does the waiting or dropping.
	QueueBlock

	// QueueDrop drops the frame, counted. Its number is then missing, and fetched again
	// or given up like any other.
	QueueDrop
)

// QueueOptions bounds a queue of frames.
type QueueOptions struct {
	Frames int         // most frames: by default 1,024
	Bytes  int         // most bytes of payload, unless it is one frame: by default 64 MiB
	Full   QueuePolicy // what to do when it is full
}

func (o *QueueOptions) validate(full QueuePolicy) error {
	const maxFrames, maxBytes = 1 << 24, 1 << 30
	switch {
	case o.Frames < 0 || o.Frames > maxFrames:
		return fmt.Errorf("%w: Queue.Frames is %d, want 0 to %d", ErrOptions, o.Frames, maxFrames)
	case o.Bytes < 0 || o.Bytes > maxBytes:
		return fmt.Errorf("%w: Queue.Bytes is %d, want 0 to %d", ErrOptions, o.Bytes, maxBytes)
	case o.Full > QueueDrop:
		return fmt.Errorf("%w: Queue.Full is %d, want %d to %d", ErrOptions, o.Full, QueueDefault, QueueDrop)
	}
	if o.Full == QueueDefault {
		o.Full = full
	}
	if o.Frames == 0 {
		o.Frames = 1024
	}
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	return nil
}

// arrival is what Source.Receive returned: a frame, or an error.
type arrival struct {
	frame Frame
	err   error
}

// queue passes arrivals from one goroutine to another.
type queue struct {
	o     QueueOptions
	ready chan struct{} // has a token when there may be something to take
	space chan struct{} // has a token when there may be room

	mu      sync.Mutex
	list    []arrival // from head on
	head    int
	bytes   int
	dropped uint64
	end     error // what comes after the list, for ever; nil: nothing is known yet
}

func newQueue(o QueueOptions) *queue {
	return &queue{o: o, ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// put adds a, or drops it. It waits for room if the policy says so, and then fails
// only when ctx ends.
func (q *queue) put(ctx context.Context, a arrival) error {
	for !q.offer(a) {
		select {
		case <-q.space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	signal(q.ready)
	return nil
}

// fail adds an error, for which there is always room.
func (q *queue) fail(err error) {
	q.offer(arrival{err: err})
	signal(q.ready)
}

// close has err come after what is in the queue, and again and again. Nothing more is
// taken in.
func (q *queue) close(err error) {
	q.mu.Lock()
	q.end = err
	q.mu.Unlock()
	signal(q.ready)
	signal(q.space)
}

// offer reports whether a has been dealt with.
func (q *queue) offer(a arrival) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != nil {
		return true
	}
	n := len(q.list) - q.head
	if n > 0 && errors.Is(a.err, ErrReconnected) && errors.Is(q.list[len(q.list)-1].err, ErrReconnected) {
		return true // once is enough
	}
	if a.err == nil && n > 0 && (n >= q.o.Frames || q.bytes+len(a.frame.Payload) > q.o.Bytes) {
		if q.o.Full == QueueBlock {
			return false
		}
		q.dropped++
		return true
	}
	q.list = append(q.list, a)
	q.bytes += len(a.frame.Payload)
	return true
}

// take removes the oldest, or returns the end.
func (q *queue) take() (arrival, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.list) {
		return arrival{err: q.end}, q.end != nil
	}
	a := q.list[q.head]
	q.list[q.head] = arrival{}
	q.head++
	q.bytes -= len(a.frame.Payload)
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
	case q.head >= 1024 && q.head >= len(q.list)/2: // a queue that is never empty must not creep
		q.list = append(q.list[:0], q.list[q.head:]...)
		q.head = 0
	}
	signal(q.space)
	return a, true
}

// frames takes all frames, and leaves errors.
func (q *queue) frames() (frames []Frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.list[:0]
	for _, a := range q.list[q.head:] {
		if a.err != nil {
			kept = append(kept, a)
		} else {
			frames = append(frames, a.frame)
		}
	}
	clear(q.list[len(kept):])
	q.list, q.head, q.bytes = kept, 0, 0
	signal(q.space)
	return frames
}

// drop forgets frames and errors.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list, q.head, q.bytes = nil, 0, 0
}

// fill returns how many frames wait and how many were dropped.
func (q *queue) fill() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list) - q.head, q.dropped
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
