package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed means that the socket or Source was closed.
var ErrClosed = errors.New("zmtp: closed")

// ErrOptions means that an option is out of range. The error names it, its value and
// the range.
var ErrOptions = errors.New("zmtp: bad options")

// defaultHWM is libzmq's.
const defaultHWM = 1000

// serverLimits are those of a socket that an engine would open: vLLM sends no
// heartbeats, and what subscribers and requesters send is short.
func serverLimits() Limits {
	return Limits{HandshakeTimeout: 10 * time.Second, MaxMessageBytes: 1 << 20}
}

// PublisherOptions configure a Publisher.
type PublisherOptions struct {
	Address string // tcp://host:port, of which host may be * and port 0, or ipc://path
	Connect bool   // dial Address, where a SUB listens, instead of binding it
	HWM     int    // messages queued for a subscriber before further ones are dropped; 0: 1000

	// Wrap, unless nil, is given each connection and returns what is used in its place:
	// a test's way to slow or break it.
	Wrap func(net.Conn) net.Conn
}

// Publisher is a PUB socket: what fake engines publish with.
type Publisher struct {
	hwm    int
	wrap   func(net.Conn) net.Conn
	at     endpoint
	cancel context.CancelFunc
	wg     sync.WaitGroup

	dropped atomic.Uint64

	mu     sync.Mutex
	closed bool
	peers  map[*subscriber]struct{}
}

const maxSubscriptions = 1024 // different ones, of a peer

// subscriber is a Publisher's peer.
type subscriber struct {
	out    *outbox
	topics map[string]int // prefixes, and how often each was asked for; guarded by Publisher.mu
}

func (s *subscriber) wants(topic []byte) bool {
	for prefix := range s.topics {
		if len(topic) >= len(prefix) && string(topic[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

// NewPublisher binds or begins to dial. Close it.
func NewPublisher(o PublisherOptions) (*Publisher, error) {
	at, hwm, err := o.validate()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{hwm: hwm, wrap: o.Wrap, at: at, cancel: cancel, peers: make(map[*subscriber]struct{})}
	if o.Connect {
		p.wg.Go(func() { p.dialLoop(ctx) })
		return p, nil
	}
	b, err := bind(ctx, at, p.serve)
	if err != nil {
		cancel()
		return nil, err
	}
	p.at = b.at
	p.wg.Go(func() {
		<-ctx.Done()
		b.close()
	})
	return p, nil
}

func (o *PublisherOptions) validate() (endpoint, int, error) {
	at, err := parseAddress(o.Address)
	if err == nil && o.Connect {
		err = at.checkDial()
	}
	if err != nil {
		return endpoint{}, 0, fmt.Errorf("%w: Address: %w", ErrOptions, err)
	}
	if o.HWM < 0 {
		return endpoint{}, 0, fmt.Errorf("%w: HWM is %d, want 0 or more", ErrOptions, o.HWM)
	}
	if o.HWM == 0 {
		return at, defaultHWM, nil
	}
	return at, o.HWM, nil
}

// dialLoop keeps one connection to a SUB that listens.
func (p *Publisher) dialLoop(ctx context.Context) {
	const pause = 100 * time.Millisecond // libzmq's default
	for ctx.Err() == nil {
		if nc, err := p.at.dial(ctx); err == nil {
			p.serve(ctx, nc)
		}
		sleep(ctx, pause)
	}
}

// serve speaks to one subscriber until it goes.
func (p *Publisher) serve(ctx context.Context, nc net.Conn) {
	if p.wrap != nil {
		nc = p.wrap(nc)
	}
	c, release, err := connect(ctx, nc, typePub, serverLimits())
	if err != nil {
		return
	}
	s := &subscriber{out: newOutbox(p.hwm), topics: make(map[string]int)}
	c.pong = s.out.putPong
	c.onSubscribe = func(topic []byte, on bool) { p.subscription(s, topic, on) }
	p.mu.Lock()
	p.peers[s] = struct{}{}
	p.mu.Unlock()

	converse(ctx, c, release, s.out, func(message [][]byte) {
		// Before 3.1 a subscription is a message: 1 or 0, then the topic.
		if len(message) == 1 && len(message[0]) > 0 && message[0][0] <= 1 {
			p.subscription(s, message[0][1:], message[0][0] == 1)
		}
	})

	p.mu.Lock()
	delete(p.peers, s)
	p.mu.Unlock()
	p.dropped.Add(uint64(s.out.drain()))
}

// converse reads from a peer, and writes what its outbox has on a goroutine of its own,
// until either fails. Then it releases the connection.
func converse(ctx context.Context, c *conn, release func(), out *outbox, take func(message [][]byte)) {
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		if out.run(ctx, c.nc) != nil {
			release() // which also wakes the reader
		}
	})
	for {
		message, err := c.receive()
		if err != nil {
			break
		}
		take(message)
	}
	cancel()
	release()
	writer.Wait()
}

func (p *Publisher) subscription(s *subscriber, topic []byte, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch prefix := string(topic); {
	case on && s.topics[prefix] == 0 && len(s.topics) == maxSubscriptions:
		// Ignored: no subscriber of events has a use for as many.
	case on:
		s.topics[prefix]++
	case s.topics[prefix] > 1:
		s.topics[prefix]--
	default:
		delete(s.topics, prefix)
	}
}

// Send publishes a message whose first part is the topic. Subscribers whose queue is
// full miss it, which is counted. The parts are not kept.
//
// O(bytes + subscribers); does not wait for any. Safe for concurrent use.
func (p *Publisher) Send(parts ...[]byte) error {
	if len(parts) == 0 {
		return fmt.Errorf("%w: Send of a message without parts", ErrOptions)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	var encoded []byte
	for s := range p.peers {
		if !s.wants(parts[0]) {
			continue
		}
		if encoded == nil {
			encoded = appendMessage(make([]byte, 0, messageSize(parts)), parts)
		}
		if !s.out.put(encoded) {
			p.dropped.Add(1)
		}
	}
	return nil
}

// Address returns what the publisher is bound to, with the port that the system chose,
// or what it dials. O(1). Safe for concurrent use.
func (p *Publisher) Address() string { return p.at.String() }

// Subscribers returns how many peers would be sent a message with this topic.
// O(subscribers). Safe for concurrent use.
func (p *Publisher) Subscribers(topic string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.peers {
		if s.wants([]byte(topic)) {
			n++
		}
	}
	return n
}

// Dropped returns how many messages found a subscriber's queue full or were still in
// it when the subscriber went. O(1). Safe for concurrent use.
func (p *Publisher) Dropped() uint64 { return p.dropped.Load() }

// Close drops what is queued, closes the socket and its connections, and waits for
// their goroutines, which wait for nothing. Safe for concurrent use, any number of
// times.
func (p *Publisher) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
