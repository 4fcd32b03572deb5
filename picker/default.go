package picker

import "github.com/warmroute/warmroute/scorer"

// DefaultScorers returns the policy of a Picker whose Options.Scorers is nil: a
// new slice, to start one's own from.
//
// A prompt that is cached as a whole outweighs about seven requests waiting, or
// eleven in flight, where another candidate has none, and no more than that: no
// prefix is worth any load. A prompt of less than 2,048 tokens, cheap to compute
// anywhere, counts in proportion.
func DefaultScorers() []Weighted {
	return []Weighted{
		{Name: "prefix", Weight: 2, Scorer: scorer.Prefix{Floor: 2_048}},
		{Name: "queue", Weight: 5, Scorer: scorer.Queue{Norm: scorer.ToLeast, Half: 8}},
		{Name: "memory", Weight: 1, Scorer: scorer.Memory{}},
		{Name: "load-requests", Weight: 4, Scorer: scorer.LoadRequests{Norm: scorer.ToLeast}},
		{Name: "load-tokens", Weight: 1, Scorer: scorer.LoadTokens{Norm: scorer.ToLeast}},
	}
}
