package picker

import "github.com/warmroute/warmroute/scorer"

// DefaultScorers returns the policy of a Picker whose Options.Scorers is nil: a
// new slice, to start one's own from.
//
// Of a prompt of 7,000 tokens, one that is cached as a whole outweighs up to six
// requests waiting, or ten in flight, where another candidate has none, and no more: no
// prefix is worth any load. Prompts below 512 tokens, cheap to compute anywhere, count
// in proportion; longer ones than 7,000 weigh more by the tokens to compute.
//
// A weight says how much a scorer could decide, not how much it does. The whole prompt
// cached is the whole of prefix, 4 of 37, and saves about 1 of load-tokens; a queue takes
// the whole of queue, 16 of 37, only when it is endless: 7 waiting, where another
// candidate has none, cost 7/23 of it, or 5.
//
// The weights were chosen by simulating eight engines under six workloads of agents,
// chats and long documents, among those that meet these bounds and give a lone holder
// of the prefix no less than a quarter and no more than three quarters of a burst of 64.
func DefaultScorers() []Weighted {
	return []Weighted{
		{Name: "prefix", Weight: 4, Scorer: scorer.Prefix{Floor: 512}},
		{Name: "queue", Weight: 16, Scorer: scorer.Queue{Norm: scorer.ToLeast, Half: 16}},
		{Name: "memory", Weight: 1, Scorer: scorer.Memory{}},
		{Name: "load-requests", Weight: 12, Scorer: scorer.LoadRequests{Norm: scorer.ToLeast, Half: 16}},
		{Name: "load-tokens", Weight: 4, Scorer: scorer.LoadTokens{Norm: scorer.ToLeast}},
	}
}
