package picker

import (
	"fmt"
	"math"

	"github.com/warmroute/warmroute/scorer"
)

// AffinityGate is a condition: where candidates have most of the prompt cached, only
// those remain, unless even the least loaded of them has more to do than another
// candidate by more than a limit. Then all remain, and the scores decide. Loads that
// nobody counts are taken as zero. It never removes all.
type AffinityGate struct {
	// Share is how much of the prompt must be cached, 0 to less than 1, as the last
	// token never is; zero is the default of 0.8. What an endpoint holds counts as far as
	// its reports can be believed.
	Share float64

	// MaxTokens and MaxRequests are the limits, in prompt tokens in flight and requests
	// in flight. Zero is no limit; one of them must be set.
	MaxTokens, MaxRequests int
}

// Validate names a field that is out of range. O(1).
func (f AffinityGate) Validate() error {
	switch {
	case !(f.Share >= 0 && f.Share < 1):
		return fmt.Errorf("picker: AffinityGate.Share is %v; it must be 0 to less than 1", f.Share)
	case f.MaxTokens < 0:
		return fmt.Errorf("picker: AffinityGate.MaxTokens is %d; it must not be negative", f.MaxTokens)
	case f.MaxRequests < 0:
		return fmt.Errorf("picker: AffinityGate.MaxRequests is %d; it must not be negative", f.MaxRequests)
	case f.MaxTokens == 0 && f.MaxRequests == 0:
		return fmt.Errorf("picker: AffinityGate has neither MaxTokens nor MaxRequests; one must be set, since no prefix is worth any load")
	}
	return nil
}

// Filter implements Filter. O(candidates), no allocation.
func (f AffinityGate) Filter(in *scorer.Input, keep []bool) {
	if in.PromptTokens <= 0 {
		return
	}
	type load struct{ requests, tokens float64 }
	warm := load{math.Inf(1), math.Inf(1)}
	cold, anyWarm := warm, false
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if !c.Eligible {
			continue
		}
		requests, _ := c.InFlight.Requests.Get()
		tokens, _ := c.InFlight.Tokens.Get()
		side := &cold
		if f.warm(in, c) {
			side, anyWarm = &warm, true
		}
		side.requests = min(side.requests, requests)
		side.tokens = min(side.tokens, tokens)
	}
	if !anyWarm ||
		f.MaxRequests > 0 && warm.requests-cold.requests > float64(f.MaxRequests) ||
		f.MaxTokens > 0 && warm.tokens-cold.tokens > float64(f.MaxTokens) {
		return
	}
	for i := range in.Candidates {
		if !f.warm(in, &in.Candidates[i]) {
			keep[i] = false
		}
	}
}

func (f AffinityGate) warm(in *scorer.Input, c *scorer.Resolved) bool {
	share := f.Share
	if share == 0 {
		share = 0.8
	}
	return float64(in.PromptTokens-in.Uncached(c)) >= share*float64(in.PromptTokens)
}
