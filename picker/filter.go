package picker

import (
	"fmt"

	"github.com/warmroute/warmroute/scorer"
)

// Filter removes candidates from a pick.
type Filter interface {
	// Filter sets keep[i] to false for each candidate that must not win. keep has
	// the length of in.Candidates and comes as true for eligible ones. It runs under
	// the ledger's lock, like a scorer.
	Filter(in *scorer.Input, keep []bool)
}

// Named is a filter with a name.
type Named struct {
	Name   string // for records and statistics; unique among a picker's scorers, filters and caps
	Filter Filter
}

// FilterFunc is a Filter made of a function.
type FilterFunc func(in *scorer.Input, keep []bool)

// Filter calls f.
func (f FilterFunc) Filter(in *scorer.Input, keep []bool) { f(in, keep) }

// MaxInFlight is a cap: it removes candidates with that many requests in flight or
// more. It must be at least 1. Candidates that nobody counts pass.
type MaxInFlight int

// Validate refuses a cap that lets nothing through. O(1).
func (f MaxInFlight) Validate() error {
	if f < 1 {
		return fmt.Errorf("picker: MaxInFlight is %d; it must be at least 1", int(f))
	}
	return nil
}

// Filter implements Filter. O(candidates), no allocation.
func (f MaxInFlight) Filter(in *scorer.Input, keep []bool) {
	for i := range in.Candidates {
		if n, ok := in.Candidates[i].InFlight.Requests.Get(); ok && n >= float64(f) {
			keep[i] = false
		}
	}
}
