package scorer

// Queue scores by the requests waiting in the engine, fewer being better.
// Unknown: no opinion. It reads signals.
type Queue struct {
	Norm Norm
	Half float64 // of Absolute and ToLeast, in requests; zero is the default of 4
}

// Validate names a field that is out of range. O(1).
func (s Queue) Validate() error { return s.Norm.validate("Queue", s.Half) }

// Score implements Scorer. O(candidates), no allocation.
func (s Queue) Score(in *Input, out []float64) {
	for i := range in.Candidates {
		out[i] = count(in.Candidates[i].Signals.Waiting)
	}
	s.Norm.apply(in, out, orDefault(s.Half, 4), true)
}

// ReadsSignals implements SignalScorer.
func (s Queue) ReadsSignals() {}
