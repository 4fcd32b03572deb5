package enginetest

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvevents"
)

// ErrRestarted means that the engine restarted while the request was under way.
var ErrRestarted = errors.New("enginetest: engine restarted")

// Engine is a fake inference server: a Pool, a scheduler with a stated model
// of time, an event feed and, as an http.Handler, the API of vLLM that a router
// uses. All methods may be called from any goroutine. It runs none itself: a
// timer, armed only while a request is under way, does the work.
type Engine struct {
	o       Options
	adapter map[string]int // name -> lora_id
	mux     *http.ServeMux
	origin  time.Time // the scheduler's zero

	mu      sync.Mutex
	closed  bool
	life    uint64 // restarts so far
	started time.Time
	sched   *scheduler
	feed    feed
	past    Stats  // counters of former lives
	served  uint64 // of the ids in responses
	adapted adapterSeries

	events  []byte // encoded events of the turn under way
	nevents int

	stopTimer func() bool
	timerAt   time.Duration
	timerID   uint64
}

// New returns an engine with an empty cache. The error wraps ErrOptions and
// names the field, the value and the range. Close it to end what is under way.
func New(o Options) (*Engine, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		o:       o,
		adapter: make(map[string]int, len(o.Adapters)),
		origin:  o.Clock.Now(),
		feed: feed{
			topic: o.Topic,
			limit: o.ReplayBuffer,
			subs:  make(map[*Subscription]struct{}),
		},
	}
	for i, name := range o.Adapters {
		e.adapter[name] = i + 1
	}
	e.routes()
	if err := e.boot(); err != nil {
		return nil, err
	}
	return e, nil
}

// boot begins a life: an empty pool under a new hash seed, counters at zero.
func (e *Engine) boot() error {
	seed := fold(fold(e.o.Seed, e.life), uint64(e.o.Rank))
	if e.o.Seed == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return fmt.Errorf("enginetest: random seed: %w", err)
		}
		seed = binary.LittleEndian.Uint64(b[:])
	}
	pool, err := NewPool(PoolOptions{
		Blocks:      e.o.Blocks,
		BlockTokens: e.o.BlockTokens,
		Seed:        seed,
		OnEvent: func(ev *Event) {
			e.events = e.o.Wire.appendEvent(e.events, ev)
			e.nevents++
		},
	})
	if err != nil {
		return err
	}
	now := e.now()
	e.sched = &scheduler{
		pool:        pool,
		prefillRate: e.o.PrefillTokensPerSecond,
		decodeStep:  e.o.DecodeStep,
		maxRunning:  e.o.MaxRunning,
		endTurn:     e.endTurn,
		now:         now,
	}
	// Two lives never have the same start time, at the 10 ms that Linux
	// resolves process starts to, even when the clock stood still between.
	started := e.origin.Add(now)
	if earliest := e.started.Add(10 * time.Millisecond); e.life > 0 && started.Before(earliest) {
		started = earliest
	}
	e.started = started
	e.adapted = nil
	return nil
}

// now is the time since the engine was made; it never goes back.
func (e *Engine) now() time.Duration {
	now := e.o.Clock.Now().Sub(e.origin)
	if e.sched != nil {
		now = max(now, e.sched.now)
	}
	return now
}

// lock takes the lock with the model played up to the present.
func (e *Engine) lock() {
	e.mu.Lock()
	if !e.closed {
		e.sched.advance(e.now())
	}
}

// unlock sees to it that the next event of the model is played in time.
func (e *Engine) unlock() {
	defer e.mu.Unlock()
	at, ok := e.sched.next()
	if e.stopTimer != nil {
		if ok && !e.closed && at == e.timerAt {
			return
		}
		e.stopTimer()
		e.stopTimer = nil
	}
	if !ok || e.closed {
		return
	}
	e.timerID++
	id := e.timerID
	e.timerAt = at
	e.stopTimer = e.o.Clock.AfterFunc(max(0, at-e.now()), func() {
		e.lock()
		if id == e.timerID {
			e.stopTimer = nil
		}
		e.unlock()
	})
}

// endTurn publishes what the turn changed, if anything.
func (e *Engine) endTurn(at time.Duration) {
	if e.nevents == 0 {
		return
	}
	payload := make([]byte, 0, len(e.events)+24)
	payload = e.o.Wire.appendHeader(payload, e.origin.Add(at), e.nevents)
	payload = append(payload, e.events...)
	payload = e.o.Wire.appendRank(payload, e.o.Rank)
	e.events, e.nevents = e.events[:0], 0
	e.sched.stats.Batches++
	e.feed.publish(payload)
}

// Subscribe returns a source of the batches published from now on. buffer is
// how many it holds before it drops; 0 or less is DefaultSubscriptionBuffer.
// On a closed engine it is closed too. O(1).
func (e *Engine) Subscribe(buffer int) *Subscription {
	if buffer <= 0 {
		buffer = DefaultSubscriptionBuffer
	}
	s := &Subscription{engine: e, limit: buffer, more: make(chan struct{}, 1)}
	e.lock()
	defer e.unlock()
	if e.closed {
		s.end()
	} else {
		e.feed.subs[s] = struct{}{}
	}
	return s
}

// Published returns this life's batches numbered from or later, oldest first,
// as far as the replay buffer goes back. The frames are the caller's own.
// Copies their payloads.
func (e *Engine) Published(from uint64) []kvevents.Frame {
	e.lock()
	defer e.unlock()
	return e.feed.published(from)
}

// Restart is the death of the process and the start of another: requests under
// way fail with ErrRestarted (over HTTP the connection breaks), the cache is
// empty without an event to say so, hashes have a new seed, batches are
// numbered from 0, Published has nothing, the metrics begin again with another
// process_start_time_seconds. Subscriptions stay, as sockets that reconnect
// do. It takes no time. The error is ErrClosed, or the system's if it gave no
// random seed.
func (e *Engine) Restart() error {
	e.lock()
	defer e.unlock()
	if e.closed {
		return ErrClosed
	}
	e.abort(ErrRestarted)
	e.past = e.past.plus(e.present())
	e.life++
	e.feed.restart()
	return e.boot()
}

// abort ends every request without another turn of the scheduler.
func (e *Engine) abort(why error) {
	e.sched.each(func(r *request, _ bool) {
		r.err = why
		e.sched.stats.Aborted++
		e.sched.finish(r)
	})
	e.sched.waiting, e.sched.prefilling, e.sched.decoding = nil, nil, nil
}

// ResetPrefixCache empties the cache and publishes AllBlocksCleared, at once:
// a real engine keeps that event until its next step. With requests running it
// is refused with ErrInUse, as in vLLM.
func (e *Engine) ResetPrefixCache() error {
	e.lock()
	defer e.unlock()
	if e.closed {
		return ErrClosed
	}
	if err := e.sched.pool.Reset(); err != nil {
		return err
	}
	e.endTurn(e.sched.now)
	return nil
}

// Holds returns how many leading tokens of the prompt are in the cache now:
// whole blocks, the last one included. Cost: one hash a block.
func (e *Engine) Holds(tokens []uint32, scope Scope) int {
	e.lock()
	defer e.unlock()
	return e.sched.pool.Holds(tokens, scope)
}

// CachedTokens returns what a request with this prompt would report as cached
// if it were admitted now. Cost: one hash a block.
func (e *Engine) CachedTokens(tokens []uint32, scope Scope) int {
	e.lock()
	defer e.unlock()
	return e.sched.pool.CachedTokens(tokens, scope)
}

// Resident returns the cached blocks by hash, with the number of copies of
// each. O(blocks used).
func (e *Engine) Resident() map[uint64]int {
	e.lock()
	defer e.unlock()
	return maps.Collect(e.sched.pool.Resident())
}

// Close ends the engine: requests under way and later fail with ErrClosed (503
// over HTTP), subscriptions end. Safe to call more than once. It waits for
// nothing; afterwards no timer or goroutine of the engine is left.
func (e *Engine) Close() {
	e.lock()
	defer e.unlock()
	if e.closed {
		return
	}
	e.abort(ErrClosed)
	e.closed = true
	for s := range e.feed.subs {
		s.end()
	}
	clear(e.feed.subs)
}

// Options returns the engine's options, defaults filled in. O(1).
func (e *Engine) Options() Options {
	o := e.o
	o.Adapters = slices.Clone(o.Adapters)
	return o
}
