package scorer

// LoadRequests scores by the requests in flight, fewer being better:
//
//	x     = InFlight.Requests, without this one
//	score = Half/(Half+x)             Absolute
//	        (max-x)/(max-min)         Relative
//	        (min+Half)/(x+Half)       ToLeast
//
// Unknown: no opinion, which happens only to candidates that nobody counts.
type LoadRequests struct {
	Norm Norm
	Half float64 // of Absolute and ToLeast, in requests; zero is the default of 8
}

// Validate names a field that is out of range. O(1).
func (s LoadRequests) Validate() error { return s.Norm.validate("LoadRequests", s.Half) }

// Score implements Scorer. O(candidates), no allocation.
func (s LoadRequests) Score(in *Input, out []float64) {
	ref := noSpan()
	for i := range in.Candidates {
		c := &in.Candidates[i]
		x := count(c.InFlight.Requests)
		out[i] = x
		if c.Eligible {
			ref.see(x)
		}
	}
	s.Norm.apply(out, orDefault(s.Half, 8), ref)
}

// LoadTokens scores by the prompt tokens that would be to compute there with this
// prompt, fewer being better:
//
//	x     = InFlight.Tokens + Input.Uncached
//	score = Half/(Half+x)             Absolute
//	        (max-x)/(max-min)         Relative
//	        (min+Half)/(x+Half)       ToLeast
//
// So a prompt of 100,000 tokens weighs more than three of 100, and an idle candidate
// that has the prompt cached scores better than one that is as idle and has not. (The sum
// is that of llm-d-router's token-load scorer, which divides it by 4,194,304.) A prompt of
// unknown length counts as empty; unknown load: no opinion.
type LoadTokens struct {
	Norm Norm
	Half float64 // of Absolute and ToLeast, in tokens; zero is the default of 16,384
}

// Validate names a field that is out of range. O(1).
func (s LoadTokens) Validate() error { return s.Norm.validate("LoadTokens", s.Half) }

// Score implements Scorer. O(candidates), no allocation.
func (s LoadTokens) Score(in *Input, out []float64) {
	ref := noSpan()
	for i := range in.Candidates {
		c := &in.Candidates[i]
		x := count(c.InFlight.Tokens) + float64(in.Uncached(c))
		out[i] = x
		if c.Eligible {
			ref.see(x)
		}
	}
	s.Norm.apply(out, orDefault(s.Half, 16_384), ref)
}
