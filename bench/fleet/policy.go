package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// policy decides where requests go. It knows what the router knows.
type policy interface {
	choose(r *request) int
	first(r *request) // its first token
	done(r *request, o picker.Outcome)
}

// policyDef is a policy by name.
type policyDef struct {
	name   string
	about  string
	events bool // the index is fed by the engines' events
	routed int  // blocks an engine that the index is fed with as they are routed; 0: it is not
	make   func(rt *router) (policy, error)
}

func (d *policyDef) ownerBlocks(config) int { return d.routed }

// policies are those that are compared. Rules of others are written after their sources as
// of August and September 2026, for a fleet without disaggregation.
func policies() []policyDef {
	shipped := []picker.Weighted{
		{Name: "prefix", Weight: 3, Scorer: scorer.Prefix{}},
		{Name: "queue", Weight: 2, Scorer: scorer.Queue{Norm: scorer.Relative}},
		{Name: "memory", Weight: 2, Scorer: scorer.Memory{}},
	}
	noCost := []picker.Weighted{
		{Name: "prefix", Weight: 4, Scorer: scorer.Prefix{Floor: 512}},
		{Name: "queue", Weight: 16, Scorer: scorer.Queue{Norm: scorer.ToLeast, Half: 16}},
		{Name: "memory", Weight: 1, Scorer: scorer.Memory{}},
		{Name: "load-requests", Weight: 12, Scorer: scorer.LoadRequests{Norm: scorer.ToLeast, Half: 16}},
		{Name: "load-tokens", Weight: 4, Scorer: scorer.LoadTokens{Norm: scorer.ToLeast}},
	}
	return []policyDef{
		{name: "round-robin", about: "one after the other", make: plain(func(rt *router, _ *rand.Rand) chooser {
			last := -1
			return func(*request) int {
				for last++; !rt.up[last%len(rt.up)]; last++ {
				}
				return last % len(rt.up)
			}
		})},
		{name: "random", about: "any", make: plain(func(rt *router, rnd *rand.Rand) chooser {
			return func(*request) int { return rt.least(rnd, func(int) float64 { return 0 }) }
		})},
		{name: "least-request", about: "the fewest in flight", make: plain(func(rt *router, rnd *rand.Rand) chooser {
			return func(*request) int { return rt.least(rnd, rt.load) }
		})},
		{name: "sticky", about: "by the session's hash", make: plain(func(rt *router, rnd *rand.Rand) chooser {
			return func(r *request) int {
				return rt.least(rnd, func(i int) float64 { return -rank(r.session, i) })
			}
		})},
		{
			name:  "bounded hash",
			about: "by the hash of the first 256 tokens, as long as that one has at most 1.25 times its share",
			make:  plain(boundedHash),
		},
		{name: "prefix only", about: "the longest cached prefix", events: true, make: pick(picker.Options{
			Scorers: []picker.Weighted{{Name: "prefix", Weight: 1, Scorer: scorer.Prefix{}}},
			Select:  picker.Select{Band: -1},
		})},
		{
			name: "3:2:2", about: "cached share 3, queue 2, free memory 2, as llm-d-router ships", events: true,
			make: pick(picker.Options{Scorers: shipped, Select: picker.Select{Band: -1}}),
		},
		{
			name: "3:2:2 routed", about: "the same without events: prefixes are remembered where they were sent",
			routed: 7_812, // blocks of 64 tokens: as many tokens as in 31,250 of 16
			make:   pick(picker.Options{Scorers: shipped, Select: picker.Select{Band: -1}}),
		},
		{
			name:  "SGLang",
			about: "who had 0.3 of the prompt last, or the fewest in flight; only these if loads differ by 64",
			make:  plain(sglang),
		},
		{
			name: "Dynamo", about: "the least prompt blocks to compute plus blocks that decode", events: true,
			make: newDynamo,
		},
		{
			name: "no cost", about: "prefix, queue, memory, requests and tokens in flight, weighted 4:16:1:12:4",
			events: true, make: pick(picker.Options{Scorers: noCost}),
		},
		{name: "default", about: "the zero Options of package picker", events: true, make: pick(picker.Options{})},
		{
			name: "default+expect", about: "the same, and what is under way counts as cached, for 5 s at most",
			events: true, make: picks(picker.Options{}, true),
		},
	}
}

// rank orders engines for a key, as rendezvous hashing does.
func rank(key uint64, engine int) float64 {
	x := key ^ (uint64(engine)+1)*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return float64(x^x>>31) / (1 << 64)
}

func (rt *router) rand() *rand.Rand { return rand.New(rand.NewPCG(rt.seed, 2)) }

// load returns the requests in flight on an engine.
func (rt *router) load(i int) float64 { return float64(rt.inFlight[i]) }

// least returns the engine with the least cost, any of those that have it.
func (rt *router) least(rnd *rand.Rand, cost func(i int) float64) int {
	best, ties := -1, 0
	var least float64
	for i, up := range rt.up {
		if !up {
			continue
		}
		switch c := cost(i); {
		case best < 0 || c < least:
			best, least, ties = i, c, 1
		case c == least:
			if ties++; rnd.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// chooser is a policy that learns nothing from what becomes of a request.
type chooser func(r *request) int

func (c chooser) choose(r *request) int         { return c(r) }
func (c chooser) first(*request)                {}
func (c chooser) done(*request, picker.Outcome) {}

func plain(with func(rt *router, rnd *rand.Rand) chooser) func(*router) (policy, error) {
	return func(rt *router) (policy, error) { return with(rt, rt.rand()), nil }
}

func boundedHash(rt *router, rnd *rand.Rand) chooser {
	var p prefixindex.Prompt
	return func(r *request) int {
		p.Reset(prefixindex.Scope{}, r.tokens[:min(256, r.prompt)])
		hashes := rt.index.Hasher().Hashes(&p)
		key := uint64(hashes[len(hashes)-1])
		total, n := 1.0, 0.0
		for i, up := range rt.up {
			if up {
				total += rt.load(i)
				n++
			}
		}
		return rt.least(rnd, func(i int) float64 {
			if over := rt.load(i) > 1.25*total/n; over {
				return 1 + rt.load(i)
			}
			return -rank(key, i)
		})
	}
}

func sglang(rt *router, rnd *rand.Rand) chooser {
	last := map[prefixindex.BlockHash]int{} // by block, the engine that was sent it last
	var p prefixindex.Prompt
	return func(r *request) int {
		p.Reset(prefixindex.Scope{}, r.tokens[:r.prompt])
		hashes := rt.index.Hasher().Hashes(&p)
		matched, holder := 0, -1
		for _, h := range hashes {
			i, ok := last[h]
			if !ok {
				break
			}
			matched, holder = matched+1, i
		}
		low, high := slices.Min(rt.inFlight), slices.Max(rt.inFlight)
		to := holder
		if balanced := high-low <= 64 || float64(high) <= 1.5*float64(low); !balanced || holder < 0 ||
			!rt.up[holder] || float64(matched) <= 0.3*float64(len(hashes)) {
			to = rt.least(rnd, rt.load)
		}
		for _, h := range hashes {
			last[h] = to
		}
		return to
	}
}

// dynamo is its cost with the default parameters: prompt blocks to compute there, with this
// request's less what is cached, plus the different blocks that requests there hold, with
// this request's.
type dynamo struct {
	rt      *router
	rnd     *rand.Rand
	prompt  prefixindex.Prompt
	match   prefixindex.Match
	waiting []int                           // prompt tokens, by engine, until the first token
	held    []map[prefixindex.BlockHash]int // requests that hold a block, by engine, until the end
	open    map[*request]*charge
}

type charge struct {
	uncached int
	hashes   []prefixindex.BlockHash
}

func newDynamo(rt *router) (policy, error) {
	d := &dynamo{
		rt: rt, rnd: rt.rand(), waiting: make([]int, len(rt.up)),
		held: make([]map[prefixindex.BlockHash]int, len(rt.up)), open: map[*request]*charge{},
	}
	for i := range d.held {
		d.held[i] = map[prefixindex.BlockHash]int{}
	}
	return d, nil
}

func (d *dynamo) choose(r *request) int {
	size := float64(d.rt.index.Hasher().BlockTokens())
	d.prompt.Reset(prefixindex.Scope{}, r.tokens[:r.prompt])
	d.rt.index.Match(&d.prompt, &d.match)
	hashes := d.rt.index.Hasher().Hashes(&d.prompt)
	to := d.rt.least(d.rnd, func(i int) float64 {
		shared := 0 // held blocks are prefixes
		for shared < len(hashes) && d.held[i][hashes[shared]] > 0 {
			shared++
		}
		cached := d.match.Of(d.rt.endpoints[i]).GPU
		return float64(d.waiting[i]+r.prompt-cached)/size + float64(len(d.held[i])+len(hashes)-shared)
	})
	c := &charge{r.prompt - d.match.Of(d.rt.endpoints[to]).GPU, slices.Clone(hashes)}
	d.open[r] = c
	d.waiting[to] += c.uncached
	for _, h := range c.hashes {
		d.held[to][h]++
	}
	return to
}

func (d *dynamo) first(r *request) {
	c := d.open[r]
	d.waiting[r.engine] -= c.uncached
	c.uncached = 0
}

func (d *dynamo) done(r *request, _ picker.Outcome) {
	d.first(r)
	held := d.held[r.engine]
	for _, h := range d.open[r].hashes {
		if held[h]--; held[h] == 0 {
			delete(held, h)
		}
	}
	delete(d.open, r)
}

// picking is a policy of package picker.
type picking struct {
	rt     *router
	picker *picker.Picker
	call   picker.Call
	prompt prefixindex.Prompt
	routed bool
	expect bool // what was routed counts as held until events say so, or for 5 s
}

func pick(o picker.Options) func(*router) (policy, error) { return picks(o, false) }

func picks(o picker.Options, expect bool) func(*router) (policy, error) {
	return func(rt *router) (policy, error) {
		o := o
		o.Index, o.Clock, o.Seed = rt.index, rt.clock, cmp.Or(rt.seed, 1)
		pk, err := picker.New(o)
		if err != nil {
			return nil, err
		}
		p := &picking{rt: rt, picker: pk, expect: expect}
		p.call.Prompt = &p.prompt
		p.call.Candidates = make([]scorer.Candidate, len(rt.endpoints))
		p.routed = rt.index.View(rt.endpoints[0], 0) != prefixindex.ViewLive
		return p, nil
	}
}

func (p *picking) choose(r *request) int {
	p.prompt.Reset(prefixindex.Scope{}, r.tokens[:r.prompt])
	for i, ep := range p.rt.endpoints {
		p.call.Candidates[i] = scorer.Candidate{Endpoint: ep, Signals: p.rt.signals[i], Skip: !p.rt.up[i]}
	}
	d, err := p.picker.Pick(&p.call)
	if err != nil {
		panic(err) // some engine is always up, and nothing caps
	}
	r.decision = d
	if p.routed {
		if err := p.rt.writers[d.Index].Insert(&p.prompt, r.prompt); err != nil {
			panic(err)
		}
	}
	if p.expect {
		cached, _ := d.CachedTokens.Get()
		from := int(cached) / p.rt.index.Hasher().BlockTokens()
		if err := p.rt.index.Expect(d.Endpoint, 0, &p.prompt, from, 5*time.Second); err != nil {
			panic(err)
		}
	}
	return d.Index
}

func (p *picking) first(r *request)                  { r.decision.FirstToken() }
func (p *picking) done(r *request, o picker.Outcome) { r.decision.Done(o) }
