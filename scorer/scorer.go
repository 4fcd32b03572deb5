package scorer

import (
	"errors"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Resolved is a candidate as scorers and filters see it.
type Resolved struct {
	Endpoint prefixindex.Endpoint
	Name     string // of the endpoint in the index; "" if it is no member
	Signals  Signals
	Age      time.Duration // of the signals; negative if nobody said when they were measured
	InFlight InFlight      // from the host or the ledger, without this request
	Held     prefixindex.Held
	Labels   uint64

	// Doubt is the share of what was predicted to be cached there that the engine's
	// reports did not bear out lately: 0, all of it was there, to 1, nothing.
	Doubt float64

	// PrefillRate is how many prompt tokens it computes in a second, as far as the
	// ledger could learn it.
	PrefillRate Value

	Stale    bool // Age is past the picker's limit
	Eligible bool // neither skipped nor removed by an earlier filter
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

// Saved returns how many tokens of the prompt c should have cached: what it holds on
// any tier, as far as an engine can use it. An engine computes at least the prompt's
// last token, and caches whole blocks.
//
// O(1), no allocation.
func (in *Input) Saved(c *Resolved) int { return max(min(c.Held.Any, in.usable()), 0) }

// Uncached returns how many tokens of the prompt c will have to compute, as far as its
// reports can be believed; 0 for a prompt of unknown length.
//
// O(1), no allocation.
func (in *Input) Uncached(c *Resolved) int {
	saved := in.Saved(c)
	if c.Doubt > 0 {
		saved = int(float64(saved) * (1 - min(c.Doubt, 1)))
	}
	return max(in.PromptTokens, 0) - saved
}

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

// Estimator is a Scorer whose scores stand for times. It is asked for them where a pick
// is recorded.
type Estimator interface {
	Scorer

	// Estimate sets millis[i] to the milliseconds expected of in.Candidates[i].
	Estimate(in *Input, millis []float64)
}

// ErrOptions means that a scorer's parameter is out of its range. The message names the
// field, its value and range.
var ErrOptions = errors.New("scorer: invalid option")

// ErrJSON means that JSON was read that is not of this package. The message says what it
// holds and what it must.
var ErrJSON = errors.New("scorer: invalid JSON")

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
