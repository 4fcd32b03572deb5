package zmtp

import (
	"context"
	"net"
	"sync"
)

// outbox queues what is to be written to one peer, so that a slow one holds nobody up.
type outbox struct {
	limit int // messages
	wake  chan struct{}

	mu      sync.Mutex
	queue   [][]byte // encoded messages, shared between peers and never written to
	writing int      // of those, taken by the writer
	pong    []byte   // goes ahead of the queue; the latest replaces an earlier one
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, wake: make(chan struct{}, 1)}
}

// put queues a message, or returns false because the queue is full.
func (o *outbox) put(message []byte) bool {
	o.mu.Lock()
	full := len(o.queue)+o.writing >= o.limit
	if !full {
		o.queue = append(o.queue, message)
	}
	o.mu.Unlock()
	if !full {
		o.signal()
	}
	return !full
}

func (o *outbox) putPong(frame []byte) error {
	o.mu.Lock()
	o.pong = frame
	o.mu.Unlock()
	o.signal()
	return nil
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes until ctx ends or the connection fails.
func (o *outbox) run(ctx context.Context, nc net.Conn) error {
	const burst = 64 // messages a system call, so that the queue's count stays true
	buffers := make(net.Buffers, 0, burst+1)
	for {
		o.mu.Lock()
		buffers = buffers[:0]
		if o.pong != nil {
			buffers = append(buffers, o.pong)
			o.pong = nil
		}
		n := min(burst, len(o.queue))
		buffers = append(buffers, o.queue[:n]...)
		clear(o.queue[:n])
		o.queue = o.queue[n:]
		o.writing = n
		if len(o.queue) == 0 {
			o.queue = nil // so that a peak's memory does not stay
		}
		o.mu.Unlock()

		if len(buffers) > 0 {
			writing := buffers
			if _, err := writing.WriteTo(nc); err != nil {
				return err
			}
			continue
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dropped empties the queue of a peer that is gone and returns how many messages that
// cost.
func (o *outbox) drain() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.queue) + o.writing
	o.queue, o.writing = nil, 0
	return n
}
