package scorer

import (
	"fmt"
	"math"
)

// Field names one of the numbers in Signals.
type Field uint8

// The fields. Those of Signals.Own are Own, Own+1 and so on.
const (
	Waiting Field = iota
	Running
	CacheUse
	Own
)

// Of returns the number that f names. O(1).
func (f Field) Of(s *Signals) Value {
	switch {
	case f == Waiting:
		return s.Waiting
	case f == Running:
		return s.Running
	case f == CacheUse:
		return s.CacheUse
	case f < Own+MaxOwn:
		return s.Own[f-Own]
	}
	return Value{}
}

// Validate refuses what is no field. O(1).
func (f Field) Validate() error {
	if f >= Own+MaxOwn {
		return fmt.Errorf("%w: Field is %d; it must be less than %d", ErrOptions, f, Own+MaxOwn)
	}
	return nil
}

// Signal scores by any one signal, on a straight line from 0 at Worst to 1 at Best and
// flat beyond:
//
//	score = min(max((x-Worst)/(Best-Worst), 0), 1)
//
// Signal{Field: Running, Best: 0, Worst: 100} prefers endpoints that run less. Unknown: no
// opinion. It reads signals.
type Signal struct {
	Field       Field
	Best, Worst float64 // finite, and not equal
}

// Validate names a field that is out of range. O(1).
func (s Signal) Validate() error {
	if err := s.Field.Validate(); err != nil {
		return err
	}
	if width := s.Best - s.Worst; width == 0 || math.IsNaN(width) || math.IsInf(width, 0) {
		return fmt.Errorf("%w: Signal.Best is %v and Worst %v; they must be finite and differ",
			ErrOptions, s.Best, s.Worst)
	}
	return nil
}

// Score implements Scorer. O(candidates), no allocation.
func (s Signal) Score(in *Input, out []float64) {
	width := s.Best - s.Worst
	for i := range in.Candidates {
		if x, known := s.Field.Of(&in.Candidates[i].Signals).Get(); known {
			out[i] = min(max((x-s.Worst)/width, 0), 1)
		}
	}
}

// ReadsSignals implements SignalScorer.
func (s Signal) ReadsSignals() {}
