package main

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// speed is what an engine can do.
type speed struct {
	prefillRate float64       // prompt tokens computed in a second
	step        time.Duration // of one step, whatever is in it
	perContext  time.Duration // added to a step for each 1,000 tokens of context that it decodes behind
	budget      int           // tokens of one step: a prompt longer than that is computed in chunks
	tokens      int           // capacity of the KV cache
	maxRunning  int
}

// nominal is about the speed of a model of 32 B parameters on two large GPUs: 65 GB of
// weights to read in a step, and 262 KB of cache for each token of context.
func nominal() speed {
	return speed{
		prefillRate: 14_000,
		step:        12 * time.Millisecond,
		perContext:  40 * time.Microsecond,
		budget:      2_048,
		tokens:      300_000,
		maxRunning:  256,
	}
}

// scaled returns s with its rates times f.
func (s speed) scaled(f float64) speed {
	s.prefillRate *= f
	s.step = time.Duration(float64(s.step) / f)
	s.perContext = time.Duration(float64(s.perContext) / f)
	return s
}

// engine batches continuously: each step computes one token of every request that decodes
// and, with what is left of the budget, chunks of prompts, first come first served.
type engine struct {
	speed
	id      int
	sim     *sim
	pool    *enginetest.Pool
	waiting []*request
	running []*request // in order of admission
	busy    bool       // a step is under way
	life    int        // a step of an earlier life has no end
	up      bool

	refused     *request // the head of the queue, when it last found too few blocks,
	refusedFree int      // and the free blocks then: before there are others, asking again is useless

	worked   time.Duration
	computed int // prompt tokens
	batch    *batch
}

// start begins a life with an empty cache.
func (e *engine) start(blockTokens int) error {
	pool, err := enginetest.NewPool(enginetest.PoolOptions{
		Blocks:      e.tokens / blockTokens,
		BlockTokens: blockTokens,
		Seed:        e.sim.rnd.Uint64(),
		OnEvent: func(ev *enginetest.Event) {
			if e.batch != nil {
				e.batch.add(ev)
			}
		},
	})
	e.pool, e.up, e.refused = pool, true, nil
	return err
}

// stop ends the life, and returns the requests that it took along.
func (e *engine) stop() []*request {
	lost := slices.Concat(e.running, e.waiting)
	e.running, e.waiting = nil, nil
	e.busy, e.up = false, false
	e.life++
	return lost
}

func (e *engine) submit(r *request) {
	r.out, r.computing, r.admitted = 0, 0, false
	e.waiting = append(e.waiting, r)
	if !e.busy {
		e.begin()
	}
}

// begin plans a step and lets it run, if there is anything to do.
func (e *engine) begin() {
	budget, context := e.budget, 0
	for _, r := range e.running {
		if r.left == 0 {
			budget--
			context += r.prompt + r.out
		}
	}
	prefill := 0
	chunk := func(r *request) {
		r.computing = max(min(r.left, budget), 0)
		budget -= r.computing
		prefill += r.computing
		if r.computing > 0 && r.computing == r.left {
			r.seq.Compute() // as in vLLM, who is admitted next may hit what this step computes
		}
	}
	for _, r := range e.running {
		chunk(r)
	}
	for len(e.waiting) > 0 && budget > 0 && len(e.running) < e.maxRunning && e.admit(e.waiting[0]) {
		r := e.waiting[0]
		e.waiting = e.waiting[1:]
		e.running = append(e.running, r)
		chunk(r)
	}
	if e.busy = len(e.running) > 0; !e.busy {
		return
	}
	e.computed += prefill
	took := e.step + time.Duration(float64(prefill)/e.prefillRate*float64(time.Second)) +
		e.perContext*time.Duration(context)/1_000
	e.worked += took
	life := e.life
	e.sim.after(took, func() {
		if e.life == life {
			e.end()
		}
	})
}

// admit opens the request's sequence, if it can have the blocks.
func (e *engine) admit(r *request) bool {
	_, free := e.pool.Blocks()
	if e.refused == r && e.refusedFree == free {
		return false
	}
	tokens := r.tokens[:r.prompt+r.out] // preempted: what it had generated is computed again
	seq, err := e.pool.Open(tokens, enginetest.Scope{})
	if err != nil {
		e.refused, e.refusedFree = r, free
		return false
	}
	r.seq, r.left = seq, len(tokens)-seq.CachedTokens()
	if !r.admitted {
		r.admitted, r.cached = true, seq.CachedTokens()
	}
	return true
}

// end is the end of a step: chunks are computed, and each request whose prompt is has one
// more token.
func (e *engine) end() {
	for _, r := range slices.Clone(e.running) {
		switch {
		case r.seq == nil: // preempted in this step
		case r.left > 0:
			if r.left -= r.computing; r.left == 0 {
				e.sample(r)
			}
		case e.room(r):
			e.sample(r)
		}
		r.computing = 0
	}
	e.sim.publish(e)
	e.begin()
}

// room appends the last token of r to its sequence. If there is no block for it, the
// request that was admitted last gives up its own.
func (e *engine) room(r *request) bool {
	for r.seq.Append(r.tokens[r.prompt+r.out-1]) != nil {
		victim := e.running[len(e.running)-1]
		e.running = e.running[:len(e.running)-1]
		victim.seq.Free()
		victim.seq = nil
		e.waiting = slices.Insert(e.waiting, 0, victim)
		if victim == r {
			return false
		}
	}
	return true
}

func (e *engine) sample(r *request) {
	if r.out++; r.out == 1 {
		e.sim.first(r)
	}
	if r.out == len(r.tokens)-r.prompt {
		r.seq.Free()
		r.seq = nil
		e.running = slices.DeleteFunc(e.running, func(o *request) bool { return o == r })
		e.sim.finish(r)
	}
}
