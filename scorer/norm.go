package scorer

import (
	"fmt"
	"math"
)

// Norm says against what a number is measured, fewer being better. The least and the
// largest are of eligible candidates whose number is known and, if the numbers are
// signals, not stale; of the stale ones if there are no others.
type Norm uint8

const (
	// Absolute is a fixed curve, half/(half+x): it falls from 1 at 0 to 0.5 at
	// half, and equal numbers score equally whatever the other candidates have. Past
	// a few times half it is flat: 100 and 120 are the same to it.
	Absolute Norm = iota

	// Relative is (max-x)/(max-min) over the candidates, or 1 for all if max is
	// min, as in llm-d-router's queue scorer. It cannot tell 0 against 1 from 0 against
	// 100.
	Relative

	// ToLeast is (min+half)/(x+half): 1 for the least, and 0.5 for one that has
	// twice as much and half. It is Absolute where the least is 0, and for
	// large numbers goes by their ratio, so that it never flattens out, and small
	// differences never count for much.
	ToLeast
)

// apply turns the numbers in out, NaN for unknown, into scores. ref is the range of
// those that may serve as a reference.
func (n Norm) apply(out []float64, half float64, ref span) {
	lo, hi := ref.lo, ref.hi
	switch {
	case n == Absolute:
		for i, x := range out {
			out[i] = half / (half + x)
		}
	case lo > hi: // nobody has a number
	case n == ToLeast:
		for i, x := range out {
			if x < lo { // stale or ineligible
				x = lo
			}
			out[i] = (lo + half) / (x + half)
		}
	case lo == hi:
		for i, x := range out {
			if !math.IsNaN(x) {
				out[i] = 1
			}
		}
	default:
		width := hi - lo
		for i, x := range out {
			if x < lo {
				x = lo
			} else if x > hi {
				x = hi
			}
			out[i] = (hi - x) / width
		}
	}
}

// span is the range of the numbers that it has seen; lo > hi if there were none.
type span struct{ lo, hi float64 }

func noSpan() span { return span{math.Inf(1), math.Inf(-1)} }

// see adds x, unless it is NaN.
func (r *span) see(x float64) {
	if x < r.lo {
		r.lo = x
	}
	if x > r.hi {
		r.hi = x
	}
}

// orStale is r, or the range of all eligible candidates if r has seen none: those that
// have a number are stale then.
func (r *span) orStale(in *Input, out []float64) span {
	if r.lo <= r.hi {
		return *r
	}
	for i, x := range out {
		if in.Candidates[i].Eligible {
			r.see(x)
		}
	}
	return *r
}

// validate refuses a norm or half that is out of range; name is the scorer's.
func (n Norm) validate(name string, half float64) error {
	if n > ToLeast {
		return fmt.Errorf("%w: %s.Norm is %d; it must be Absolute, Relative or ToLeast", ErrOptions, name, n)
	}
	if !(half >= 0) || math.IsInf(half, 1) {
		return fmt.Errorf("%w: %s.Half is %v; it must be finite and not negative", ErrOptions, name, half)
	}
	return nil
}

// orDefault returns x, or def where x was left zero.
func orDefault(x, def float64) float64 {
	if x == 0 {
		return def
	}
	return x
}

// count returns the number in v, not below zero, or NaN.
func count(v Value) float64 {
	x := v.orNaN()
	if x < 0 {
		return 0
	}
	return x
}
