package main

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// config is a fleet, and how well its router sees it.
type config struct {
	engines     int
	speed       speed
	spread      float64 // each engine's speed is within that share of the given one
	blockTokens int

	metricsEvery time.Duration // between two scrapes of an engine
	eventDelay   time.Duration // from a step's end to the index
	eventLoss    float64       // share of event batches that never arrive

	load float64 // the scenario's rates times this
}

func defaults() config {
	return config{
		engines:      8,
		speed:        nominal(),
		spread:       0.3,
		blockTokens:  64,
		metricsEvery: 200 * time.Millisecond,
		eventDelay:   20 * time.Millisecond,
		load:         1,
	}
}

// request is one generation. tokens is the prompt and the reply that it will get.
type request struct {
	tokens  []uint32
	prompt  int // tokens
	session uint64
	kind    int    // what a scenario tells requests apart by
	then    func() // when it has ended

	arrived, begun, ended time.Duration

	engine   int
	decision picker.Decision // of the policies that are pickers

	// The engine's.
	seq       *enginetest.Sequence
	out       int // tokens sampled
	left      int // tokens to compute before the next one is sampled
	computing int // of them in this step
	cached    int
	admitted  bool
}

// sim plays one scenario through one policy.
type sim struct {
	config
	now     time.Duration
	agenda  agenda
	rnd     *rand.Rand
	engines []*engine
	router  router
	policy  policy
	result  *result
}

// router is what a router knows, none of it from the engines directly.
type router struct {
	index     *prefixindex.Index
	endpoints []prefixindex.Endpoint
	writers   []*prefixindex.Writer
	signals   []scorer.Signals // as last scraped
	up        []bool
	inFlight  []int // requests
	clock     func() time.Time
	seed      uint64
}

// time is the virtual clock. Its instant 0 is any but the zero time.
func (s *sim) time() time.Time { return time.Unix(1_000_000_000, 0).Add(s.now) }

func run(c config, sc *scenario, pd *policyDef, seed uint64) (*result, error) {
	s := &sim{config: c, rnd: rand.New(rand.NewPCG(seed, 1)), result: newResult(sc, pd, seed)}
	var err error
	s.router = router{seed: seed, clock: s.time, inFlight: make([]int, c.engines)}
	s.router.index, err = prefixindex.New(prefixindex.Options{
		BlockTokens: c.blockTokens, Seed: seed, OwnerBlocks: pd.ownerBlocks(c), Clock: s.time,
	})
	if err != nil {
		return nil, err
	}
	for i := range c.engines {
		e := &engine{id: i, sim: s, speed: c.speed.scaled(1 + c.spread*(2*s.rnd.Float64()-1))}
		if pd.events {
			e.batch = new(batch)
		}
		if err := e.start(c.blockTokens); err != nil {
			return nil, err
		}
		ep, err := s.router.index.Join(fmt.Sprintf("engine %d", i))
		if err != nil {
			return nil, err
		}
		s.engines = append(s.engines, e)
		s.router.endpoints = append(s.router.endpoints, ep)
		s.router.writers = append(s.router.writers, nil)
		s.router.signals = append(s.router.signals, scorer.Signals{})
		s.router.up = append(s.router.up, true)
		if err := s.open(i); err != nil {
			return nil, err
		}
		s.scrape(i, time.Duration(s.rnd.Float64()*float64(c.metricsEvery)))
	}
	if s.policy, err = pd.make(&s.router); err != nil {
		return nil, err
	}
	sc.begin(s)
	for s.result.open > 0 && s.result.err == nil {
		next, _ := heap.Pop(&s.agenda).(appointment)
		s.now = next.at
		next.do()
	}
	s.result.close(s)
	return s.result, s.result.err
}

// open begins an epoch of an engine's owner in the index.
func (s *sim) open(i int) (err error) {
	s.router.writers[i], err = s.router.index.Writer(s.router.endpoints[i], 0)
	if err == nil && s.engines[i].batch != nil {
		err = s.router.writers[i].SetView(prefixindex.ViewLive)
	}
	return err
}

// at schedules something that the run waits for.
func (s *sim) at(at time.Duration, do func()) {
	s.result.open++
	s.schedule(at, func() { s.result.open--; do() })
}

// after schedules what happens by itself as long as the run goes on.
func (s *sim) after(d time.Duration, do func()) { s.schedule(s.now+d, do) }

func (s *sim) schedule(at time.Duration, do func()) {
	s.result.scheduled++
	heap.Push(&s.agenda, appointment{at, s.result.scheduled, do})
}

// submit sends a request where the policy says.
func (s *sim) submit(r *request) {
	if r.arrived == 0 {
		r.arrived = s.now
		s.result.open++
	}
	r.engine = s.policy.choose(r)
	s.router.inFlight[r.engine]++
	s.result.sent(s, r)
	s.engines[r.engine].submit(r)
}

func (s *sim) first(r *request) {
	if r.begun == 0 {
		r.begun = s.now
	}
	s.policy.first(r)
}

func (s *sim) finish(r *request) {
	r.ended = s.now
	s.router.inFlight[r.engine]--
	s.policy.done(r, picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(float64(r.cached))})
	s.result.done(r)
	if r.then != nil {
		r.then()
	}
	s.result.open--
}

// restart ends an engine's life; it is back after down. Its requests are sent anew.
func (s *sim) restart(i int, down time.Duration) {
	e := s.engines[i]
	lost := e.stop()
	s.router.up[i] = false
	for _, r := range lost {
		s.router.inFlight[i]--
		s.policy.done(r, picker.Outcome{Result: picker.Failed})
		r.seq = nil
		s.submit(r)
	}
	s.at(s.now+down, func() {
		s.must(e.start(s.blockTokens))
		s.must(s.open(i))
		s.router.up[i] = true
	})
}

// scrape reads an engine's metrics from then on, each metricsEvery.
func (s *sim) scrape(i int, after time.Duration) {
	s.after(after, func() {
		e := s.engines[i]
		total, free := e.pool.Blocks()
		s.router.signals[i] = scorer.Signals{
			Waiting:  scorer.Known(float64(len(e.waiting))),
			Running:  scorer.Known(float64(len(e.running))),
			CacheUse: scorer.Known(float64(total-free) / float64(total)),
			At:       s.time(),
		}
		s.scrape(i, s.metricsEvery)
	})
}

// batch is the events of one step, copied, since the pool's are valid in its callback only.
type batch struct {
	events []enginetest.Event
	hashes []prefixindex.EngineHash
	tokens []uint32
}

func (b *batch) add(ev *enginetest.Event) {
	for _, h := range ev.Hashes {
		b.hashes = append(b.hashes, prefixindex.EngineHash(h))
	}
	b.tokens = append(b.tokens, ev.Tokens...)
	b.events = append(b.events, *ev)
}

// publish sends what an engine has to say of its cache on its way to the index.
func (s *sim) publish(e *engine) {
	b := e.batch
	if b == nil || len(b.events) == 0 {
		return
	}
	e.batch = new(batch)
	if s.eventLoss > 0 && s.rnd.Float64() < s.eventLoss {
		s.result.lostBatches++
		return
	}
	w := s.router.writers[e.id]
	s.after(s.eventDelay, func() {
		if w == s.router.writers[e.id] { // else it is of an earlier life
			s.must(b.apply(w))
		}
	})
}

func (b *batch) apply(w *prefixindex.Writer) error {
	hashes, tokens := b.hashes, b.tokens
	for i := range b.events {
		ev := &b.events[i]
		own := hashes[:len(ev.Hashes)]
		hashes = hashes[len(ev.Hashes):]
		var err error
		switch ev.Kind {
		case enginetest.Stored:
			n := len(own) * ev.BlockTokens
			err = w.Store(&prefixindex.Span{
				Hashes: own, Parent: prefixindex.EngineHash(ev.Parent), HasParent: ev.HasParent,
				Tokens: tokens[:n], BlockTokens: ev.BlockTokens,
			})
			tokens = tokens[n:]
		case enginetest.Removed:
			err = w.Remove(&prefixindex.Removal{Hashes: own})
		case enginetest.Cleared:
			err = w.Clear()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// must keeps the first error of what cannot fail; the run ends with it.
func (s *sim) must(err error) {
	if err != nil && s.result.err == nil {
		s.result.err = err
	}
}

// poisson calls do at random instants from..to, rate times a second on average.
func (s *sim) poisson(from, to time.Duration, rate float64, do func()) {
	t := from
	for {
		t += time.Duration(-math.Log(1-s.rnd.Float64()) / (rate * s.load) * float64(time.Second))
		if t >= to {
			return
		}
		s.at(t, do)
	}
}

// appointment is something to be done; of those at one instant, the first made is the first.
type appointment struct {
	at time.Duration
	no int
	do func()
}

type agenda []appointment

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].no < a[j].no
}

func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any) {
	next, _ := x.(appointment)
	*a = append(*a, next)
}

func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	old[len(old)-1] = appointment{}
	*a = old[:len(old)-1]
	return x
}
