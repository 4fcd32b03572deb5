package enginemetrics

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

var (
	// ErrOption means an option out of its range; the error names both.
	ErrOption = errors.New("enginemetrics: bad option")

	// ErrRunning is the answer to Run while another Run is under way.
	ErrRunning = errors.New("enginemetrics: scraper is running")
)

// Options configure a Scraper. The zero value is good for engines in one cluster.
type Options struct {
	Interval    time.Duration // between scrapes of a target, 10 ms to 1 h; 0: 1 s
	Jitter      float64       // share of Interval by which it varies, up to 1; 0: 0.2; below: none
	Timeout     time.Duration // for one scrape, 1 ms to 1 min; 0: 1 s
	Concurrency int           // scrapes at once, 1 to 1,024; 0: 16
	MaxBytes    int           // of a page, 1 kB to 1 GB; 0: 4 MiB

	// StaleAfter is the age from which Stats counts a target as stale; give it what
	// the picker has. 0: 5 s, as there.
	StaleAfter time.Duration

	Client *http.Client     // nil: one of its own, without proxy, compression and redirects
	Logger *slog.Logger     // nil: nothing is logged
	Seed   uint64           // of the jitter; 0: random
	Clock  func() time.Time // nil: time.Now
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Interval, time.Second)
	def(&o.Timeout, time.Second)
	def(&o.StaleAfter, 5*time.Second)
	if o.Jitter == 0 {
		o.Jitter = 0.2
	}
	o.Jitter = max(o.Jitter, 0)
	if o.Concurrency == 0 {
		o.Concurrency = 16
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 4 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

func (o *Options) validate() error {
	duration := func(field string, d, least, most time.Duration) error {
		if d < least || d > most {
			return fmt.Errorf("%w: %s is %v, want %v to %v", ErrOption, field, d, least, most)
		}
		return nil
	}
	number := func(field string, n, least, most int) error {
		if n < least || n > most {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrOption, field, n, least, most)
		}
		return nil
	}
	if !(o.Jitter <= 1) {
		return fmt.Errorf("%w: Jitter is %v, want at most 1", ErrOption, o.Jitter)
	}
	return errors.Join(
		duration("Interval", o.Interval, 10*time.Millisecond, time.Hour),
		duration("Timeout", o.Timeout, time.Millisecond, time.Minute),
		duration("StaleAfter", o.StaleAfter, time.Millisecond, 24*time.Hour),
		number("Concurrency", o.Concurrency, 1, 1024),
		number("MaxBytes", o.MaxBytes, 1_000, 1e9),
	)
}

// Scraper keeps reading the pages of its targets while it runs.
type Scraper struct {
	o    Options
	own  *http.Transport // nil if the client is the host's
	wake chan struct{}   // something fell due earlier than was known

	mu      sync.Mutex // over all below, and over targets' fields that say so
	rng     *rand.Rand
	running bool
	queue   queue // targets that no worker has, the next due first
	targets map[*Target]struct{}
	stats   Stats
}

// New returns a scraper without targets, that does nothing until Run. An error names
// the option, its value and range.
func New(o Options) (*Scraper, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Scraper{
		o:       o,
		wake:    make(chan struct{}, 1),
		rng:     rand.New(rand.NewPCG(o.Seed, 0)),
		targets: make(map[*Target]struct{}),
	}
	if o.Client == nil {
		// Compression would cost the engine's process more than the bytes cost the network.
		s.own = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 90 * time.Second}
		s.o.Client = &http.Client{Transport: s.own, CheckRedirect: noRedirect}
	}
	return s, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Run scrapes until ctx ends, and returns nil when no goroutine and no request of it is
// left. It may run again afterwards; a second Run at the same time is ErrRunning.
func (s *Scraper) Run(ctx context.Context) error {
	s.mu.Lock()
	busy := s.running
	s.running = true
	s.mu.Unlock()
	if busy {
		return ErrRunning
	}
	work := make(chan *Target)
	var workers sync.WaitGroup
	for range s.o.Concurrency {
		workers.Go(func() {
			w := worker{s: s}
			for t := range work {
				w.scrape(ctx, t)
			}
		})
	}
	s.dispatch(ctx, work)
	close(work)
	workers.Wait()
	if s.own != nil {
		s.own.CloseIdleConnections()
	}
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	return nil
}

// dispatch hands targets to workers as they fall due.
func (s *Scraper) dispatch(ctx context.Context, work chan<- *Target) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		t, wait := s.next()
		if t != nil {
			select {
			case work <- t:
			case <-ctx.Done():
				s.putBack(t)
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// next takes the target that is due, or says how long none is.
func (s *Scraper) next() (*Target, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, time.Hour
	}
	if wait := s.queue[0].due.Sub(s.o.Clock()); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&s.queue).(*Target), 0 //nolint:forcetypeassert // holds nothing else
}

// putBack queues a target again, unless it was removed meanwhile.
func (s *Scraper) putBack(t *Target) {
	s.mu.Lock()
	if _, ours := s.targets[t]; ours {
		heap.Push(&s.queue, t)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // told already
	}
}

// pause returns how long after the start of its last scrape a target is due. s.mu is
// held.
func (s *Scraper) pause(t *Target) time.Duration {
	if t.scrapes == 1 && t.failures == 0 {
		// Targets that were added together drift apart at once.
		return time.Duration(s.rng.Float64() * float64(s.o.Interval))
	}
	pause := float64(s.o.Interval) * (1 + s.o.Jitter*(s.rng.Float64()-0.5))
	return time.Duration(pause) << min(t.failures, maxBackoff)
}

// maxBackoff bounds how much less often a failing target is asked: 2^3.
const maxBackoff = 3

// queue is a heap of targets by when they are due.
type queue []*Target

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *queue) Push(x any) {
	t := x.(*Target)
	t.at = len(*q)
	*q = append(*q, t)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.at = -1
	return t
}
