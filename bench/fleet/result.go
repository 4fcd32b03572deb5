package main

import (
	"math"
	"slices"
	"time"
)

// slo is what counts as good service.
var slo = struct{ ttft, perToken time.Duration }{2 * time.Second, 100 * time.Millisecond}

// warmUp is how long caches fill before figures of requests count.
const warmUp = 10 * time.Second

const binWidth = 5 * time.Second

// result is what one policy made of one scenario.
type result struct {
	scenario, policy string
	seed             uint64

	requests    int
	ttft, e2e   []float64 // seconds, in order
	hitRate     float64   // of prompt tokens
	computed    int       // prompt tokens, those after preemption and failures among them
	imbalance   float64   // busy time of the busiest engine against the mean
	good        float64   // share of requests within the SLO
	goodput     float64   // of those, a second
	gpuHours    float64   // engine hours at work
	rate        float64   // requests a second, from the first arrival to the last
	span        time.Duration
	lostBatches int

	bins   []bin
	stages [][]float64 // TTFT by kind
	hot    [][]int     // hot-prefix: requests of kind 1, by bin and engine

	// Of the run.
	open, scheduled int
	texts           uint64
	err             error
	prompts, cached int
	kept            int
	last            float64 // arrival, in seconds
}

// bin is a few seconds of a run, by arrival.
type bin struct {
	prompt, cached int
	sent           []int // requests by engine
	ttft           []float64
}

func newResult(sc *scenario, p *policyDef, seed uint64) *result {
	return &result{scenario: sc.name, policy: p.name, seed: seed}
}

func (res *result) bin(at time.Duration, engines int) *bin {
	i := int(at / binWidth)
	for len(res.bins) <= i {
		res.bins = append(res.bins, bin{sent: make([]int, engines)})
		res.hot = append(res.hot, make([]int, engines))
	}
	return &res.bins[i]
}

func (res *result) sent(s *sim, r *request) {
	res.bin(s.now, len(s.engines)).sent[r.engine]++
	if r.kind == 1 {
		res.hot[s.now/binWidth][r.engine]++
	}
}

func (res *result) done(r *request) {
	b := &res.bins[r.arrived/binWidth]
	ttft := (r.begun - r.arrived).Seconds()
	b.prompt += r.prompt
	b.cached += r.cached
	b.ttft = append(b.ttft, ttft)
	res.last = max(res.last, r.arrived.Seconds())
	if r.arrived < warmUp {
		return
	}
	res.requests++
	res.ttft = append(res.ttft, ttft)
	res.e2e = append(res.e2e, (r.ended - r.arrived).Seconds())
	res.prompts += r.prompt
	res.cached += r.cached
	for len(res.stages) <= r.kind {
		res.stages = append(res.stages, nil)
	}
	res.stages[r.kind] = append(res.stages[r.kind], ttft)
	tokens := len(r.tokens) - r.prompt
	if r.begun-r.arrived <= slo.ttft && r.ended-r.begun <= slo.perToken*time.Duration(tokens) {
		res.kept++
	}
}

func (res *result) close(s *sim) {
	slices.Sort(res.ttft)
	slices.Sort(res.e2e)
	for _, t := range res.stages {
		slices.Sort(t)
	}
	for i := range res.bins {
		slices.Sort(res.bins[i].ttft)
	}
	var total, most time.Duration
	for _, e := range s.engines {
		res.computed += e.computed
		total += e.worked
		most = max(most, e.worked)
	}
	res.span = s.now
	arrivals := 0
	for i := range res.bins {
		arrivals += len(res.bins[i].ttft)
	}
	res.rate = float64(arrivals) / max(res.last, 1e-9)
	res.hitRate = float64(res.cached) / float64(max(res.prompts, 1))
	res.imbalance = float64(most) * float64(len(s.engines)) / float64(max(total, 1))
	res.good = float64(res.kept) / float64(max(res.requests, 1))
	res.goodput = float64(res.kept) / (res.span - warmUp).Seconds()
	res.gpuHours = total.Hours()
}

// percentile wants sorted numbers; NaN for none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[int(math.Ceil(p/100*float64(len(sorted))))-1]
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}
