package picker

import (
	"context"
	"math"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Call is one pick's input and memory. It is the caller's, serves one pick at a
// time, and is worth reusing: it holds the match and scratch space. A Decision refers
// to nothing of it, so it is free again as soon as Pick has returned.
type Call struct {
	Request    scorer.Request
	Prompt     *prefixindex.Prompt // nil: nothing is matched
	Candidates []scorer.Candidate  // read during the pick; order is kept and means nothing
	Record     *Record             // nil: nothing is recorded

	// Context is the request's, for observers that make spans. The pick does not look at
	// it: nothing in a pick can wait. May be nil.
	Context context.Context //nolint:containedctx // lives as long as the pick

	match  prefixindex.Match
	sheet  sheet
	record Record // for observers, where the host wants none
}

// Match returns what the last pick with this call found in the index. It means
// nothing if the pick did not ask: no index, no prompt or one below
// Options.MinPromptTokens, a single candidate with a single rank that was not skipped, or
// all said themselves what they hold. O(1).
func (c *Call) Match() *prefixindex.Match { return &c.match }

// sheet is what one pick works on.
type sheet struct {
	in       scorer.Input
	resolved []scorer.Resolved
	facts    []facts
	eligible []int32 // places of the eligible, in order until a winner is chosen
	over     []int32 // those of them that are over Select.Bound
	keep     []bool
	out      []float64
	nan      []float64 // what out holds before a scorer has written
	sums     []float64
	matched  bool
	home     uint64 // hash of what is cached of the prompt, where that is most of it; 0: it is not
	counts   Stats  // of this pick
}

// facts are what the picker knows of a candidate beyond what scorers see.
type facts struct {
	hostCounts bool // the ledger neither counts nor reserves
	hostTokens bool // nor does it count tokens
	stranger   bool // nothing can be counted there
	heldKnown  bool // Held is what somebody knows, if only that it is nothing
}

// grow makes room for n candidates, none of them eligible yet.
func (s *sheet) grow(n int) {
	if cap(s.resolved) < n {
		s.resolved = make([]scorer.Resolved, n)
		s.facts = make([]facts, n)
		s.eligible = make([]int32, 0, n)
		s.over = make([]int32, 0, n)
		s.keep = make([]bool, n)
		s.out = make([]float64, n)
		s.nan = make([]float64, n)
		s.sums = make([]float64, n)
		for i := range s.nan {
			s.nan[i] = math.NaN()
		}
	}
	s.resolved = s.resolved[:n]
	s.facts = s.facts[:n]
	s.eligible = s.eligible[:0]
	s.keep = s.keep[:n]
	s.out = s.out[:n]
	s.sums = s.sums[:n]
}

// predicted returns what candidate i should find in its cache.
func (s *sheet) predicted(i int) scorer.Value {
	if !s.facts[i].heldKnown || s.in.PromptTokens == 0 {
		return scorer.Value{}
	}
	return scorer.Known(float64(s.in.Saved(&s.resolved[i])))
}
