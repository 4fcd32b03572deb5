package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/warmroute/warmroute/bench/internal/latency"
	"github.com/warmroute/warmroute/bench/internal/trace"
	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

const model = "llama"

// fleet is an index and those who feed it. Worker w of world u is number u*workers+w.
type fleet struct {
	recording *recording
	worlds    int
	ix        *prefixindex.Index
	endpoints []prefixindex.Endpoint
	appliers  []*kvevents.Applier
	decoder   kvevents.Decoder
	batch     kvevents.Batch
	clear     []byte // a payload that says that a cache is empty
}

func newFleet(r *recording, workers int) (*fleet, error) {
	ix, err := prefixindex.New(prefixindex.Options{})
	if err != nil {
		return nil, err
	}
	f := &fleet{
		recording: r,
		worlds:    (workers + r.workers - 1) / r.workers,
		ix:        ix,
		clear:     []byte("\x93\xcb\x41\xda\x13\xb8\x60\x20\x00\x00\x91\x81\xa4type\xb0AllBlocksCleared\x00"),
	}
	for i := range f.worlds * r.workers {
		e, err := ix.Join(fmt.Sprintf("worker-%d", i))
		if err != nil {
			return nil, err
		}
		a, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: e, Model: model})
		if err != nil {
			return nil, err
		}
		if err := a.Begin(); err != nil {
			return nil, err
		}
		f.endpoints = append(f.endpoints, e)
		f.appliers = append(f.appliers, a)
	}
	return f, nil
}

// requests is how many there are until every worker has come to its recording's end.
func (f *fleet) requests() int { return len(f.recording.steps) * f.worlds }

// request returns the n-th: a step, the world in which it happens, and the prompts' world,
// which is another one each time the recording is played again.
func (f *fleet) request(n int) (s *step, world, prompts int) {
	steps := f.recording.steps
	world = n % f.worlds
	return &steps[n/f.worlds%len(steps)], world, n/f.requests()*f.worlds + world
}

func (f *fleet) number(s *step, world int) int { return world*f.recording.workers + s.worker }

// apply decodes and applies the batches of the n-th request, and times each.
func (f *fleet) apply(n int, times *latency.Histogram) error {
	s, world, prompts := f.request(n)
	a := f.appliers[f.number(s, world)]
	if n >= f.requests() && s.begins {
		// The recording begins again, for a cache that is empty.
		if err := f.one(a, f.clear); err != nil {
			return err
		}
	}
	becomePayload(s.first, prompts)
	for _, payload := range s.batches {
		start := time.Now()
		if err := f.one(a, payload); err != nil {
			return err
		}
		times.Record(time.Since(start))
	}
	return nil
}

func (f *fleet) one(a *kvevents.Applier, payload []byte) error {
	if err := f.decoder.Decode(payload, &f.batch); err != nil {
		return err
	}
	return a.Apply(&f.batch)
}

// A reader looks up.
type reader struct {
	f      *fleet
	prompt prefixindex.Prompt
	match  prefixindex.Match
}

// lookup looks up the n-th request and returns what it says of the request's worker.
func (r *reader) lookup(n int) (held, want int) {
	s, world, prompts := r.f.request(n)
	become(s.tokens, prompts)
	r.prompt.Reset(prefixindex.Scope{Model: model}, s.tokens)
	r.f.ix.Match(&r.prompt, &r.match)
	return r.match.Of(r.f.endpoints[r.f.number(s, world)]).GPU, s.held
}

// size is what was measured with that many workers.
type size struct {
	Workers     int     `json:"workers"`
	Requests    int     `json:"requests"` // until all caches had their share
	InputTokens float64 `json:"mean_input_tokens"`
	HitRate     float64 `json:"hit_rate"` // of input tokens, where the requests went

	Fill  figures   `json:"fill"` // as fast as one goroutine does both
	Rates []figures `json:"rates"`

	Holdings    int     `json:"holdings"` // blocks, each as often as workers hold it
	Blocks      int     `json:"blocks"`
	IndexBytes  int64   `json:"index_bytes"`
	HeapBytes   int64   `json:"heap_bytes"` // of the index and its feeders, measured
	CollectTime float64 `json:"collect_seconds"`
}

// figures are of one phase. Times are in nanoseconds.
type figures struct {
	Offered  float64 `json:"offered_requests_per_second,omitempty"`
	Requests float64 `json:"requests_per_second"`
	Blocks   float64 `json:"blocks_stored_per_second"`

	Match     percentiles `json:"match"`         // a lookup, hashing included
	Apply     percentiles `json:"apply"`         // a batch, decoding included
	MatchLate percentiles `json:"match_overall"` // from when the request was due
	ApplyLate percentiles `json:"apply_overall"` // until all its batches were applied

	Differ int     `json:"lookups_that_differ"` // from the pool's own word
	GC     uint32  `json:"collections"`
	Pause  float64 `json:"pause_seconds"`
}

type percentiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

func of(h *latency.Histogram) (p percentiles) {
	if h.N > 0 {
		p = percentiles{h.Percentile(50), h.Percentile(99), h.Percentile(99.9)}
	}
	return p
}

// measure does it all for a number of workers.
func measure(ctx context.Context, s *settings, list []trace.Request, workers int,
	show func(string, ...any),
) (size, error) {
	defer show("")
	rec, err := record(ctx, list, min(workers, mostPools), s.pool, s.requests, show)
	if err != nil {
		return size{}, err
	}
	before := heap()
	f, err := newFleet(rec, workers)
	if err != nil {
		return size{}, err
	}
	workers = len(f.endpoints)
	out := size{Workers: workers, Requests: f.requests(), InputTokens: float64(rec.input) / float64(len(rec.steps))}
	for i := range rec.steps {
		out.HitRate += float64(rec.steps[i].held) / float64(rec.input)
	}

	// The first half of the recording fills the caches, and the rest is for what follows.
	fill := (f.requests() + 1) / 2
	if out.Fill, err = f.fill(ctx, fill, show); err != nil {
		return size{}, err
	}
	start := time.Now()
	out.HeapBytes = heap() - before
	out.CollectTime = time.Since(start).Seconds() / 2
	st := f.ix.Stats()
	out.Holdings, out.Blocks, out.IndexBytes = st.Holdings, st.Blocks, st.Bytes

	next := fill
	for _, share := range s.rates {
		show("%d workers: %.0f requests a second", workers, share*out.Fill.Requests)
		fig, n, err := f.offer(ctx, next, share*out.Fill.Requests, s.step)
		if err != nil {
			return size{}, err
		}
		next += n
		out.Rates = append(out.Rates, fig)
	}
	return out, nil
}

// heap returns the bytes in live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collections tells what the collector did since an earlier call.
func collections(since *debug.GCStats) (n uint32, pause float64) {
	var now debug.GCStats
	debug.ReadGCStats(&now)
	n, pause = uint32(now.NumGC-since.NumGC), (now.PauseTotal - since.PauseTotal).Seconds()
	*since = now
	return n, pause
}

// fill looks up and applies the first n requests, one after another.
func (f *fleet) fill(ctx context.Context, n int, show func(string, ...any)) (figures, error) {
	var match, apply latency.Histogram
	var gc debug.GCStats
	collections(&gc)
	fig := figures{}
	blocks := 0
	r := reader{f: f}
	start := time.Now()
	for i := range n {
		if i%256 == 0 {
			show("%d workers: request %d of %d", len(f.endpoints), i, n)
			if ctx.Err() != nil {
				return fig, ctx.Err()
			}
		}
		at := time.Now()
		held, want := r.lookup(i)
		match.Record(time.Since(at))
		if held != want {
			fig.Differ++
		}
		if err := f.apply(i, &apply); err != nil {
			return fig, err
		}
		s, _, _ := f.request(i)
		blocks += s.blocks
	}
	took := time.Since(start).Seconds()
	fig.Requests, fig.Blocks = float64(n)/took, float64(blocks)/took
	fig.Match, fig.Apply = of(&match), of(&apply)
	fig.GC, fig.Pause = collections(&gc)
	return fig, nil
}

// offer lets requests come at a rate from the first-th on: each is looked up on this
// goroutine when it is due, and its events are applied on another. It returns how many came.
func (f *fleet) offer(ctx context.Context, first int, rate float64, d time.Duration) (figures, int, error) {
	const ahead = 1 << 14 // requests whose events wait; beyond, the lookups wait
	var match, apply, matchLate, applyLate latency.Histogram
	var gc debug.GCStats
	collections(&gc)
	start := time.Now()
	due := func(i int) time.Time { return start.Add(time.Duration(float64(i) / rate * 1e9)) }

	looked := make(chan int, ahead)
	ended := make(chan error, 1)
	failed := make(chan struct{})
	blocks := 0
	go func() {
		for i := range looked {
			if err := f.apply(first+i, &apply); err != nil {
				close(failed)
				ended <- err
				return
			}
			applyLate.Record(time.Since(due(i)))
			s, _, _ := f.request(first + i)
			blocks += s.blocks
		}
		ended <- nil
	}()

	fig := figures{Offered: rate}
	r := reader{f: f}
	n := 0
	for ctx.Err() == nil && time.Since(start) < d {
		wait(due(n))
		at := time.Now()
		held, want := r.lookup(first + n)
		match.Record(time.Since(at))
		matchLate.Record(time.Since(due(n)))
		if held != want {
			fig.Differ++
		}
		select {
		case looked <- n:
		case <-failed:
			return fig, n, <-ended
		}
		n++
	}
	close(looked)
	err := errors.Join(<-ended, ctx.Err())
	took := time.Since(start).Seconds()
	fig.Requests, fig.Blocks = float64(n)/took, float64(blocks)/took
	fig.Match, fig.Apply, fig.MatchLate, fig.ApplyLate = of(&match), of(&apply), of(&matchLate), of(&applyLate)
	fig.GC, fig.Pause = collections(&gc)
	return fig, n, err
}

// wait sleeps until shortly before t, and looks at the clock from then on.
func wait(t time.Time) {
	const early = 100 * time.Microsecond
	if d := time.Until(t); d > early {
		time.Sleep(d - early)
	}
	for time.Now().Before(t) {
		runtime.Gosched()
	}
}
