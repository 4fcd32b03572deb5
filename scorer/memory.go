package scorer

// Memory scores by the share of the engine's KV cache that no running request uses:
//
//	score = 1 - Signals.CacheUse
//
// It is llm-d-router's formula. vLLM counts blocks that are only cached as free. Unknown: no opinion. It reads signals.
type Memory struct{}

// Score implements Scorer. O(candidates), no allocation.
func (s Memory) Score(in *Input, out []float64) {
	for i := range in.Candidates {
		out[i] = 1 - in.Candidates[i].Signals.CacheUse.orNaN()
	}
}

// ReadsSignals implements SignalScorer.
func (s Memory) ReadsSignals() {}
