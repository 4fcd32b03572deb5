package scorer

// Queue scores by the requests waiting in the engine, fewer being better:
//
//	x     = Signals.Waiting
//	score = Half/(Half+x)             Absolute
//	        (max-x)/(max-min)         Relative
//	        (min+Half)/(x+Half)       ToLeast
//
// With Half 4 and nobody else waiting, 4 waiting score 0.5 and 12 score 0.25 under
// Absolute and ToLeast. Unknown: no opinion. It reads signals.
type Queue struct {
	Norm Norm
	Half float64 // of Absolute and ToLeast, in requests; zero is the default of 4
}

// Validate names a field that is out of range. O(1).
func (s Queue) Validate() error { return s.Norm.validate("Queue", s.Half) }

// Score implements Scorer. O(candidates), no allocation.
func (s Queue) Score(in *Input, out []float64) {
	ref := noSpan()
	for i := range in.Candidates {
		c := &in.Candidates[i]
		x := count(c.Signals.Waiting)
		out[i] = x
		if c.Eligible && !c.Stale {
			ref.see(x)
		}
	}
	s.Norm.apply(out, orDefault(s.Half, 4), ref.orStale(in, out))
}

// ReadsSignals implements SignalScorer.
func (s Queue) ReadsSignals() {}
