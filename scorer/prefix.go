package scorer

// Prefix scores by the share of the prompt that need not be computed:
//
//	usable(h) = min(h, floor((prompt-1)/block) * block)
//	credit    = usable(GPU) + CPUWeight*(usable(CPU)-usable(GPU))
//	            + DiskWeight*(usable(Any)-usable(CPU))
//	score     = weight(view) * credit / prompt
//
// An engine computes at least a prompt's last token, and caches whole blocks, so
// usable leaves out the block that holds that token. The share is absolute: one
// block of a hundred is 0.01 even if nobody else has one, and when nobody has
// anything all scores are 0, which changes no order. A prompt of unknown length:
// no opinion. An owner that was never heard of, or whose events are gone astray,
// is credited with no more than what is known of it: that is 0, not unknown, since
// the mean of the others would draw prompts away from where they are warm.
//
// Weights are 0 to 1. A zero weight is the default given with it, a negative one
// is zero.
type Prefix struct {
	CPUWeight   float64 // a token held in host memory only, against 1 on GPU; 0.8, as in llm-d-router
	DiskWeight  float64 // a token held further away; 0.5
	GapWeight   float64 // view ViewGap or ViewResyncing; 0.8
	StaleWeight float64 // view ViewStale; 0.5
}

// Validate names a field that is out of range. O(1).
func (s Prefix) Validate() error { return nil }

// Score implements Scorer. O(candidates), no allocation.
func (s Prefix) Score(in *Input, out []float64) {}
