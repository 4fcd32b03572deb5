package zmtp

import (
	"context"
	"io"
	"sync"

	"github.com/warmroute/warmroute/kvevents"
)

// queue holds the frames that wait for Receive, each with the number of the connection
// that brought it, from 1.
type queue struct {
	maxFrames, maxBytes int

	more chan struct{} // holds one token while there may be something to find

	mu         sync.Mutex
	items      []item
	head       int // items[:head] are gone
	bytes      int
	connection uint64 // the latest
	announced  uint64 // the latest that get has told of
	closed     bool
}

type item struct {
	frame      kvevents.Frame
	connection uint64
}

func newQueue(maxFrames, maxBytes int) *queue {
	return &queue{maxFrames: maxFrames, maxBytes: maxBytes, more: make(chan struct{}, 1)}
}

// put queues a frame, or returns false because a bound is reached.
func (q *queue) put(f kvevents.Frame) bool {
	q.mu.Lock()
	n := len(q.items) - q.head
	if n > 0 && (n >= q.maxFrames || q.bytes+len(f.Payload) > q.maxBytes) {
		q.mu.Unlock()
		return false
	}
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		// Mostly room at the front: use it before memory grows.
		kept := copy(q.items, q.items[q.head:])
		clear(q.items[kept:])
		q.items, q.head = q.items[:kept], 0
	}
	q.items = append(q.items, item{f, q.connection})
	q.bytes += len(f.Payload)
	q.mu.Unlock()
	q.wake()
	return true
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// get returns the oldest frame, waiting for one; kvevents.ErrReconnected, once, before
// the first frame of a connection that is not the first, or before nothing, if none has
// come yet; io.EOF after close, when all are out.
func (q *queue) get(ctx context.Context) (kvevents.Frame, error) {
	for {
		if err := ctx.Err(); err != nil {
			return kvevents.Frame{}, err
		}
		q.mu.Lock()
		next := q.connection
		if q.head < len(q.items) {
			next = q.items[q.head].connection
		}
		if next > q.announced {
			first := q.announced == 0
			q.announced = next
			if !first {
				q.mu.Unlock()
				return kvevents.Frame{}, kvevents.ErrReconnected
			}
		}
		if q.head < len(q.items) {
			it := q.items[q.head]
			q.items[q.head] = item{}
			q.head++
			q.bytes -= len(it.frame.Payload)
			if q.head == len(q.items) {
				q.items, q.head = q.items[:0], 0
				if cap(q.items) > keepItems {
					q.items = nil // a peak's memory does not stay
				}
			}
			q.mu.Unlock()
			return it.frame, nil
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			q.wake() // for the next Receive
			return kvevents.Frame{}, io.EOF
		}
		select {
		case <-q.more:
		case <-ctx.Done():
		}
	}
}

const keepItems = 1024

func (q *queue) connected() {
	q.mu.Lock()
	q.connection++
	q.mu.Unlock()
	q.wake()
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

func (q *queue) depth() (frames, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.head, q.bytes
}
