package picker

import "github.com/warmroute/warmroute/scorer"

// DefaultScorers returns the scorers of a Picker whose Options.Scorers is nil: a new slice,
// to start one's own from. They go with [DefaultSelect].
//
// The cost leads: milliseconds to the first token, 32 of 39 for 10 seconds. The rest is what
// these milliseconds do not see, in the same coin. The prompt cached as a whole is worth 625
// more than the time it saves, since computing it elsewhere takes an engine's time and cache
// from others; less in proportion below 4,096 tokens. A first request in flight more than the least loaded has costs 74, as it
// decodes beside the next, and an engine whose cache is full of running requests 310.
//
// So a prompt of 7,000 tokens, cached as a whole, outweighs up to fifteen requests waiting
// where another candidate has none, at 8,000 tokens a second until the ledger has learned
// how fast the engines are; in flight, DefaultSelect draws the line.
func DefaultScorers() []Weighted {
	return []Weighted{
		{Name: "prefix", Weight: 2, Scorer: scorer.Prefix{Floor: 4_096}},
		{Name: "memory", Weight: 1, Scorer: scorer.Memory{}},
		{Name: "load-requests", Weight: 4, Scorer: scorer.LoadRequests{Norm: scorer.ToLeast, Half: 16}},
		{Name: "cost", Weight: 32, Scorer: scorer.Cost{}},
	}
}

// DefaultSelect returns the selection of a Picker whose Options.Scorers is nil and whose
// Options.Select is the zero one. No prefix is worth more than half as many requests in
// flight again as the mean has, beyond ten: without that bound, a prefix that is suddenly
// asked for by many queues where it is. Within 37 milliseconds candidates are equal, and within 305 those
// that hold the prefix and keep up.
//
// All these numbers were chosen together in the simulator of bench/fleet, one set for all
// of its scenarios; bench/README.md says how they fare.
func DefaultSelect() Select { return Select{Band: 0.003, HomeBand: 0.025, Bound: 1.5, BoundFloor: 10} }
