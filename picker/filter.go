package picker

import (
	"fmt"
	"math"

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
	Name   string // for records; unique among a picker's filters and caps
	Filter Filter
}

// FilterFunc is a Filter made of a function.
type FilterFunc func(in *scorer.Input, keep []bool)

// Filter calls f.
func (f FilterFunc) Filter(in *scorer.Input, keep []bool) { f(in, keep) }

// Label is a condition: it removes candidates by the bits of their labels.
type Label struct {
	All  uint64 // bits that must all be set
	Any  uint64 // bits of which one must be set; zero: none need be
	None uint64 // bits of which none may be set
}

// Validate refuses a condition that nobody can meet, and one that says nothing. O(1).
func (f Label) Validate() error {
	switch {
	case f == Label{}:
		return fmt.Errorf("picker: Label is empty; one of All, Any and None must be set")
	case f.All&f.None != 0, f.Any != 0 && f.Any&^f.None == 0:
		return fmt.Errorf("picker: Label asks for bits %#x and %#x, and for none of %#x; nobody can have both", f.All, f.Any, f.None)
	}
	return nil
}

// Filter implements Filter. O(candidates), no allocation.
func (f Label) Filter(in *scorer.Input, keep []bool) {
	for i := range in.Candidates {
		l := in.Candidates[i].Labels
		if l&f.All != f.All || f.Any != 0 && l&f.Any == 0 || l&f.None != 0 {
			keep[i] = false
		}
	}
}

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

// MaxSignal is a cap: it removes candidates whose signal is Max or more, such as 20
// waiting, or 0.95 of the cache in use. Unknown and stale signals pass: a limit needs a
// number that holds now.
type MaxSignal struct {
	Field scorer.Field
	Max   float64
}

// Validate names a field that is out of range. O(1).
func (f MaxSignal) Validate() error {
	if err := f.Field.Validate(); err != nil {
		return err
	}
	if math.IsNaN(f.Max) || math.IsInf(f.Max, 0) {
		return fmt.Errorf("picker: MaxSignal.Max is %v; it must be finite", f.Max)
	}
	return nil
}

// Filter implements Filter. O(candidates), no allocation.
func (f MaxSignal) Filter(in *scorer.Input, keep []bool) {
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if x, ok := f.Field.Of(&c.Signals).Get(); ok && !c.Stale && x >= f.Max {
			keep[i] = false
		}
	}
}
