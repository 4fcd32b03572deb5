package enginetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// PublishOptions say where an engine publishes. The zero value is a PUB on a loopback
// port that the system chooses, without replay.
type PublishOptions struct {
	Address string // of the PUB; "": tcp://127.0.0.1:0
	Connect bool   // dial Address, as an engine does whose address has no *

	ReplayAddress   string // of the ROUTER, which binds; "": no replay
	TopiclessReplay bool   // replies without the topic: vLLM until 0.25, SGLang

	HWM       int // batches queued for a subscriber until it loses some; 0: 100000, as in vLLM
	ReplayHWM int // the same for a replay; 0: 1000, as in vLLM
}

// Publisher is the part of an engine process that publishes events over ZMQ: vLLM's
// loop, on sockets, and faults on demand. All methods may be called from any goroutine.
type Publisher struct {
	engine *Engine
	o      PublishOptions
	link   *link
	faults *faults

	life sync.Mutex // Restart and Close, one at a time; guards stop, sub
	stop func()     // ends the process and waits for it
	sub  *Subscription

	mu     sync.Mutex
	closed bool
	pub    *zmtp.Publisher
	router *zmtp.Router
	next   uint64 // the number after the last batch that the process took up
	hide   uint64 // numbers below it are not published live
	stats  PublisherStats
}

// PublisherStats count what a Publisher did, over all lives of the engine.
type PublisherStats struct {
	Batches  uint64 // taken from the engine; live frames are these less what Injected and Hidden say
	Hidden   uint64 // not sent live to hide a restart
	Replays  uint64 // answered
	Replayed uint64 // frames in the answers
	Invalid  uint64 // requests that are none, and have no answer
	Lost     uint64 // live frames that a full queue or a departed peer cost

	LostReplayed uint64 // the same, of replays, end markers included
}

// Publish binds the engine's sockets and begins to publish: batches of this life that
// the replay buffer still has, and then each as it comes. In a testing/synctest bubble
// sockets do not work. An error wraps zmtp.ErrOptions or zmtp.ErrUnreachable, or is
// ErrClosed.
//
// One goroutine, and two for each connection. Close it.
func (e *Engine) Publish(o PublishOptions) (*Publisher, error) {
	if o.Address == "" {
		o.Address = "tcp://127.0.0.1:0"
	}
	if o.HWM == 0 {
		o.HWM = 100_000
	}
	p := &Publisher{engine: e, o: o, link: newLink(), faults: newFaults()}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	// From here on the addresses are those that the system chose, in every life.
	p.o.Address = p.pub.Address()
	if p.router != nil {
		p.o.ReplayAddress = p.router.Address()
	}
	p.start()
	return p, nil
}

// open binds the sockets.
func (p *Publisher) open() error {
	pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{
		Address: p.o.Address, Connect: p.o.Connect, HWM: p.o.HWM, Wrap: p.link.wrap,
	})
	if err != nil {
		return err
	}
	var router *zmtp.Router
	if p.o.ReplayAddress != "" {
		router, err = zmtp.NewRouter(zmtp.RouterOptions{
			Address: p.o.ReplayAddress, HWM: p.o.ReplayHWM, Wrap: p.link.wrap,
		})
		if err != nil {
			pub.Close()
			return err
		}
	}
	p.mu.Lock()
	p.pub, p.router = pub, router
	p.mu.Unlock()
	return nil
}

// closeSockets drops what is queued, as vLLM does, which closes without linger.
func (p *Publisher) closeSockets() {
	p.mu.Lock()
	pub, router := p.pub, p.router
	p.pub, p.router = nil, nil
	p.mu.Unlock()
	var lost, lostReplayed uint64
	if pub != nil {
		pub.Close()
		lost = pub.Dropped()
	}
	if router != nil {
		router.Close()
		lostReplayed = router.Dropped()
	}
	p.mu.Lock()
	p.stats.Lost += lost
	p.stats.LostReplayed += lostReplayed
	p.mu.Unlock()
}

// start begins a process: an empty buffer, and the batches of the engine's present life.
func (p *Publisher) start() {
	p.faults.restart()
	p.mu.Lock()
	p.next = 0
	p.mu.Unlock()
	p.sub = p.engine.subscribeFromStart()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	sub := p.sub
	go func() {
		defer close(done)
		p.run(ctx, sub)
	}()
	p.stop = func() {
		cancel()
		<-done
		sub.Close()
	}
}

// subscribeFromStart is Subscribe with the batches of this life that are past.
func (e *Engine) subscribeFromStart() *Subscription {
	s := &Subscription{engine: e, limit: DefaultSubscriptionBuffer, more: make(chan struct{}, 1)}
	e.lock()
	defer e.unlock()
	s.queue = e.feed.published(0)
	if e.closed {
		s.end()
	} else {
		e.feed.subs[s] = struct{}{}
	}
	s.wake()
	return s
}

// RestartOptions say how a process dies and another takes its place.
type RestartOptions struct {
	Down time.Duration // between the two

	// KeepConnections: subscribers see no connection end, as behind a proxy.
	KeepConnections bool

	// Hide: nothing is sent live until the new count has come up to the old one, so that a
	// subscriber sees no number that goes backwards: with KeepConnections it sees a gap,
	// without it only that its connection was lost.
	Hide bool
}

// Restart is Engine.Restart, with the sockets: they close, the ring buffer and whatever
// was not sent yet are gone, and after a while they are there again, at the same
// addresses. It returns when they are. (Engine.Restart alone is noticed at the next
// batch, and then does the same without a pause.) The error is ErrClosed, or that of the
// engine or of binding; after that there are no sockets.
func (p *Publisher) Restart(o RestartOptions) error {
	p.life.Lock()
	defer p.life.Unlock()
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return ErrClosed
	}
	p.stop()
	if !o.KeepConnections {
		p.closeSockets()
	}
	if err := p.engine.Restart(); err != nil {
		p.closeSockets()
		return err
	}
	p.mu.Lock()
	p.hide = 0
	if o.Hide {
		p.hide = p.next
		if o.KeepConnections {
			p.hide++ // or nobody could notice anything
		}
	}
	p.mu.Unlock()
	if o.Down > 0 {
		<-time.After(o.Down)
	}
	var err error
	if !o.KeepConnections {
		err = p.reopen(context.Background())
	}
	p.start() // without sockets, if err: so that Close and another Restart find a process
	return err
}

// reopen binds again what a moment ago was bound. The system may need a moment, too.
func (p *Publisher) reopen(ctx context.Context) error {
	const tries, pause = 50, 20 * time.Millisecond
	var err error
	for range tries {
		//nolint:contextcheck // the sockets outlive ctx
		if err = p.open(); err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("enginetest: sockets of a restarted engine: %w", err)
}

// Address returns the address of the PUB. O(1).
func (p *Publisher) Address() string { return p.o.Address }

// ReplayAddress returns the address of the ROUTER; "": there is none. O(1).
func (p *Publisher) ReplayAddress() string { return p.o.ReplayAddress }

// Subscribers returns how many connections have subscribed to the engine's topic. It is
// for tests that must not publish before. O(subscribers).
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	pub := p.pub
	p.mu.Unlock()
	if pub == nil {
		return 0
	}
	return pub.Subscribers(p.engine.o.Topic)
}

// Published returns the number after that of the last batch which the process has sent,
// or withheld by a fault. O(1).
func (p *Publisher) Published() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// Stats returns counts. O(1).
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	if p.pub != nil {
		stats.Lost += p.pub.Dropped()
	}
	if p.router != nil {
		stats.LostReplayed += p.router.Dropped()
	}
	return stats
}

// Close ends the process; the engine goes on without. No goroutine is left. Any number
// of times.
func (p *Publisher) Close() {
	p.life.Lock()
	defer p.life.Unlock()
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if !closed {
		p.stop()
		p.closeSockets()
	}
}

// buffered is what a process keeps for replays.
type buffered struct {
	frames []kvevents.Frame // at most limit, oldest first after head
	head   int
	limit  int
}

func (b *buffered) add(f kvevents.Frame) {
	if len(b.frames) < b.limit {
		b.frames = append(b.frames, f)
		return
	}
	b.frames[b.head] = f
	b.head = (b.head + 1) % b.limit
}

func (b *buffered) each(f func(kvevents.Frame)) {
	for i := range b.frames {
		f(b.frames[(b.head+i)%len(b.frames)])
	}
}
