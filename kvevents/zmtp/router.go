package zmtp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// RouterOptions configure a Router.
type RouterOptions struct {
	Address string // tcp://host:port, of which host may be * and port 0, or ipc://path
	HWM     int    // messages queued for a peer before further ones are dropped; 0: 1000

	// Wrap is as in PublisherOptions.
	Wrap func(net.Conn) net.Conn
}

// Router is a ROUTER socket: what fake engines answer replay requests with.
type Router struct {
	hwm     int
	wrap    func(net.Conn) net.Conn
	bound   *binding
	inbox   chan [][]byte
	closing chan struct{}

	dropped atomic.Uint64

	mu     sync.Mutex
	closed bool
	lastID uint32
	peers  map[string]*outbox // by identity
}

// maxInbox bounds requests that wait; peers with more of them wait to be read.
const maxInbox = 1024

// NewRouter binds. Close it.
func NewRouter(o RouterOptions) (*Router, error) {
	bound := PublisherOptions{Address: o.Address, HWM: o.HWM}
	at, hwm, err := bound.validate()
	if err != nil {
		return nil, err
	}
	r := &Router{
		hwm: hwm, wrap: o.Wrap,
		inbox: make(chan [][]byte, maxInbox), closing: make(chan struct{}),
		peers: make(map[string]*outbox),
	}
	if r.bound, err = bind(context.Background(), at, r.serve); err != nil {
		return nil, err
	}
	return r, nil
}

// serve speaks to one peer until it goes.
func (r *Router) serve(ctx context.Context, nc net.Conn) {
	if r.wrap != nil {
		nc = r.wrap(nc)
	}
	c, release, err := connect(ctx, nc, typeRouter, serverLimits())
	if err != nil {
		return
	}
	out := newOutbox(r.hwm)
	c.pong = out.putPong
	r.mu.Lock()
	r.lastID++
	identity := string(binary.BigEndian.AppendUint32([]byte{0}, r.lastID)) // libzmq's form
	r.peers[identity] = out
	r.mu.Unlock()

	converse(ctx, c, release, out, func(message [][]byte) {
		request := make([][]byte, 0, len(message)+1)
		request = append(request, []byte(identity))
		for _, part := range message {
			request = append(request, slices.Clone(part))
		}
		select {
		case r.inbox <- request:
		case <-ctx.Done():
		}
	})

	r.mu.Lock()
	delete(r.peers, identity)
	r.mu.Unlock()
	r.dropped.Add(uint64(out.drain()))
}

// Receive returns the next message, its first part the sender's identity. The message
// is the caller's. The error is ctx's or ErrClosed.
//
// Waits. Safe for concurrent use.
func (r *Router) Receive(ctx context.Context) ([][]byte, error) {
	select {
	case m := <-r.inbox:
		return m, nil
	case <-r.closing:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Waiting returns how many messages can be received without waiting. O(1). Safe for
// concurrent use.
func (r *Router) Waiting() int { return len(r.inbox) }

// Send sends a message to the peer whose identity is its first part. As with libzmq's
// defaults, one for a peer that is unknown or whose queue is full is dropped, which is
// counted. The parts are not kept.
//
// O(bytes); does not wait for the peer. Safe for concurrent use.
func (r *Router) Send(parts ...[]byte) error {
	if len(parts) < 2 {
		return fmt.Errorf("%w: Send of %d parts, want an identity and a message", ErrOptions, len(parts))
	}
	r.mu.Lock()
	out, closed := r.peers[string(parts[0])], r.closed
	r.mu.Unlock()
	if closed {
		return ErrClosed
	}
	message := parts[1:]
	if out == nil || !out.put(appendMessage(make([]byte, 0, messageSize(message)), message)) {
		r.dropped.Add(1)
	}
	return nil
}

// Address returns what the router is bound to, with the port that the system chose.
// O(1). Safe for concurrent use.
func (r *Router) Address() string { return r.bound.at.String() }

// Dropped returns how many messages had no peer, found its queue full, or were still
// in it when the peer went. O(1). Safe for concurrent use.
func (r *Router) Dropped() uint64 { return r.dropped.Load() }

// Close drops what is queued, closes the socket and its connections, and waits for
// their goroutines, which wait for nothing. Safe for concurrent use, any number of
// times.
func (r *Router) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	r.bound.close()
}
