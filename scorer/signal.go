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
	switch f {
	case Waiting:
		return s.Waiting
	case Running:
		return s.Running
	case CacheUse:
		return s.CacheUse
	}
	if i := f - Own; i < MaxOwn {
		return s.Own[i]
	}
	return Value{}
}

// Validate refuses what is no field. O(1).
func (f Field) Validate() error {
	if f >= Own+MaxOwn {
		return fmt.Errorf("scorer: Field is %d; it must be less than %d", f, Own+MaxOwn)
	}
	return nil
}

// Signal scores by any one signal, on a straight line from 0 at Worst to 1 at Best and
// flat beyond: Signal{Field: Running, Best: 0, Worst: 100} prefers endpoints that run
// less. Unknown: no opinion. It reads signals.
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
		return fmt.Errorf("scorer: Signal.Best is %v and Worst %v; they must be finite and differ", s.Best, s.Worst)
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
