package scorer

import (
	"fmt"
	"math"

	"github.com/warmroute/warmroute/prefixindex"
)

// Prefix scores by the share of the prompt that need not be computed:
//
//	usable(h) = min(h, floor((prompt-1)/block) * block)
//	credit    = usable(GPU) + CPUWeight*(usable(CPU)-usable(GPU))
//	            + DiskWeight*(usable(Any)-usable(CPU))
//	score     = weight(view) * (1-doubt) * credit / max(prompt, Floor)
//
// An engine computes at least a prompt's last token, and caches whole blocks, so
// usable leaves out the block that holds that token. The share is absolute: one
// block of a hundred is 0.01 even if nobody else has one, and when nobody has
// anything all scores are 0, which changes no order. A prompt of unknown length:
// no opinion. An owner that was never heard of, or whose events are gone astray,
// is credited with no more than what is known of it: that is 0, not unknown, since
// the mean of the others would draw prompts away from where they are warm.
//
// Doubt is the candidate's: an endpoint that does not report as cached what was
// predicted loses its credit, and regains it when it does.
//
// With Norm Relative the largest credit scores 1, and nobody's changes nothing. It
// cannot tell one block from a hundred. ToLeast means nothing here.
//
// Floor makes prompts that are shorter than it count as that long: what a hit saves is
// time, and a prompt of 16 tokens saves none worth a queue. With a floor as long as
// the longest prompts the score is the number of tokens saved.
//
// Weights are 0 to 1. A zero weight is the default given with it, a negative one
// is zero.
type Prefix struct {
	CPUWeight   float64 // a token held in host memory only, against 1 on GPU; 0.8, as in llm-d-router
	DiskWeight  float64 // a token held further away; 0.5
	GapWeight   float64 // view ViewGap or ViewResyncing; 0.8
	StaleWeight float64 // view ViewStale; 0.5

	Floor int // tokens; zero: none
	Norm  Norm
}

// Validate names a field that is out of range. O(1).
func (s Prefix) Validate() error {
	for _, w := range []struct {
		name  string
		value float64
	}{
		{"CPUWeight", s.CPUWeight}, {"DiskWeight", s.DiskWeight},
		{"GapWeight", s.GapWeight}, {"StaleWeight", s.StaleWeight},
	} {
		if !(w.value <= 1) || math.IsInf(w.value, -1) {
			return fmt.Errorf("scorer: Prefix.%s is %v; it must be at most 1, and finite", w.name, w.value)
		}
	}
	if s.Norm > Relative {
		return fmt.Errorf("scorer: Prefix.Norm is %d; it must be Absolute or Relative", s.Norm)
	}
	if s.Floor < 0 {
		return fmt.Errorf("scorer: Prefix.Floor is %d; it must not be negative", s.Floor)
	}
	return nil
}

// Score implements Scorer. O(candidates), no allocation.
func (s Prefix) Score(in *Input, out []float64) {
	if in.PromptTokens <= 0 {
		return // out holds NaN
	}
	cpu := max(orDefault(s.CPUWeight, 0.8), 0)
	disk := max(orDefault(s.DiskWeight, 0.5), 0)
	gap := max(orDefault(s.GapWeight, 0.8), 0)
	stale := max(orDefault(s.StaleWeight, 0.5), 0)
	usable := in.usable()
	perToken := 1 / float64(max(in.PromptTokens, s.Floor))
	for i := range in.Candidates {
		h := &in.Candidates[i].Held
		gpuRun := min(h.GPU, usable)
		credit := float64(gpuRun)
		if h.Any > h.GPU {
			cpuRun := min(h.CPU, usable)
			credit += cpu*float64(cpuRun-gpuRun) + disk*float64(min(h.Any, usable)-cpuRun)
		}
		switch h.View {
		case prefixindex.ViewGap, prefixindex.ViewResyncing:
			credit *= gap
		case prefixindex.ViewStale:
			credit *= stale
		}
		if d := in.Candidates[i].Doubt; d > 0 {
			credit *= 1 - min(d, 1)
		}
		out[i] = credit * perToken
	}
	if s.Norm == Relative {
		ref := noSpan().orStale(in, out)
		for i := range out {
			if ref.hi > 0 {
				out[i] = min(out[i]/ref.hi, 1)
			}
		}
	}
}
