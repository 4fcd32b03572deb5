package scorer

import (
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Resolved is a candidate as scorers and filters see it.
type Resolved struct {
	Endpoint prefixindex.Endpoint
	Signals  Signals
	Age      time.Duration    // of the signals; negative if nobody said when they were measured
	Stale    bool             // Age is past the picker's limit
	InFlight InFlight         // from the host or the ledger, without this request
	Held     prefixindex.Held // from the host or the index
	Eligible bool             // neither skipped nor removed by an earlier filter
}

// Input is what a scorer reads. It belongs to the picker, is valid during the
// call, and must not be changed.
type Input struct {
	Request      *Request
	PromptTokens int        // 0: not known
	BlockTokens  int        // block size of the match, for rounding
	Candidates   []Resolved // as offered, the ineligible ones among them
	Now          time.Time
}

// Saved returns how many tokens of the prompt c need not compute: what it holds on any
// tier, as far as an engine can use it. An engine computes at least the prompt's last
// token, and caches whole blocks.
//
// O(1), no allocation.
func (in *Input) Saved(c *Resolved) int { return max(min(c.Held.Any, in.usable()), 0) }

// Uncached returns how many tokens of the prompt c would have to compute; 0 for a
// prompt of unknown length.
//
// O(1), no allocation.
func (in *Input) Uncached(c *Resolved) int { return max(in.PromptTokens, 0) - in.Saved(c) }

// usable is the longest cached run of the prompt that saves anything.
func (in *Input) usable() int {
	n := max(in.PromptTokens-1, 0)
	if in.BlockTokens > 1 {
		n -= n % in.BlockTokens
	}
	return n
}

// Scorer compares candidates.
type Scorer interface {
	// Score sets out[i] to the score of in.Candidates[i]: 0 to 1, higher is
	// better, NaN for no opinion. Numbers outside are clipped, and counted. out has
	// the length of in.Candidates and holds NaN; what is written for ineligible
	// candidates is ignored.
	Score(in *Input, out []float64)
}

// SignalScorer is a Scorer whose scores come from Signals alone, so that the rule
// for stale ones applies to it. A scorer that mixes signals with what is always
// current looks at Resolved.Stale itself.
type SignalScorer interface {
	Scorer
	ReadsSignals()
}

// Validator is a Scorer or filter with parameters that may be wrong. picker.New
// asks it, and refuses what it refuses.
type Validator interface {
	// Validate names the field, its value and range.
	Validate() error
}

// Func is a Scorer made of a function.
type Func func(in *Input, out []float64)

// Score calls f.
func (f Func) Score(in *Input, out []float64) { f(in, out) }
