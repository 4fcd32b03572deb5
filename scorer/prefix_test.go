package scorer_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

func TestPrefix(t *testing.T) {
	held := func(gpu, cpu, all int, v prefixindex.View) scorer.Resolved {
		return scorer.Resolved{Eligible: true, Held: prefixindex.Held{GPU: gpu, CPU: cpu, Any: all, View: v}}
	}
	const live = prefixindex.ViewLive
	for name, c := range map[string]struct {
		s      scorer.Prefix
		prompt int
		held   []scorer.Resolved
		want   []float64
	}{
		"nobody has anything":                        {prompt: 1_600, held: []scorer.Resolved{held(0, 0, 0, live), {}}, want: []float64{0, 0}},
		"one candidate":                              {prompt: 1_600, held: []scorer.Resolved{held(800, 800, 800, live)}, want: []float64{0.5}},
		"no candidate":                               {prompt: 1_600},
		"length not known":                           {prompt: 0, held: []scorer.Resolved{held(800, 800, 800, live)}, want: []float64{nan}},
		"a block of a hundred is 0.01":               {prompt: 1_600, held: []scorer.Resolved{held(16, 16, 16, live), held(0, 0, 0, live)}, want: []float64{0.01, 0}},
		"the block of the last token is computed":    {prompt: 1_600, held: []scorer.Resolved{held(1_600, 1_600, 1_600, live)}, want: []float64{0.99}},
		"a prompt of one block is computed":          {prompt: 16, held: []scorer.Resolved{held(16, 16, 16, live)}, want: []float64{0}},
		"one token more, and the block is of use":    {prompt: 17, held: []scorer.Resolved{held(16, 16, 16, live)}, want: []float64{16.0 / 17}},
		"tiers, 10 blocks on GPU and 20 more on CPU": {prompt: 1_600, held: []scorer.Resolved{held(160, 480, 480, live)}, want: []float64{0.1 + 0.8*0.2}},
		"tiers, then 10 on disk":                     {prompt: 1_600, held: []scorer.Resolved{held(160, 480, 640, live)}, want: []float64{0.1 + 0.8*0.2 + 0.5*0.1}},
		"tiers without weight":                       {s: scorer.Prefix{CPUWeight: -1, DiskWeight: -1}, prompt: 1_600, held: []scorer.Resolved{held(160, 480, 640, live)}, want: []float64{0.1}},
		"usable blocks end on CPU":                   {prompt: 1_600, held: []scorer.Resolved{held(800, 1_600, 1_600, live)}, want: []float64{0.5 + 0.8*0.49}},
		"views": {prompt: 1_600, held: []scorer.Resolved{
			held(800, 800, 800, live), held(800, 800, 800, prefixindex.ViewAssumed), held(800, 800, 800, prefixindex.ViewNever),
			held(800, 800, 800, prefixindex.ViewGap), held(800, 800, 800, prefixindex.ViewResyncing), held(800, 800, 800, prefixindex.ViewStale),
		}, want: []float64{0.5, 0.5, 0.5, 0.4, 0.4, 0.25}},
		"huge": {prompt: 1 << 30, held: []scorer.Resolved{held(math.MaxInt, math.MaxInt, math.MaxInt, live)}, want: []float64{float64(1<<30-16) / (1 << 30)}},
		"a short prompt cannot score like a long one": {s: scorer.Prefix{Floor: 2_048}, prompt: 17, held: []scorer.Resolved{held(16, 16, 16, live)}, want: []float64{16.0 / 2_048}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			got := run(c.s, scorer.Input{PromptTokens: c.prompt, BlockTokens: 16, Candidates: c.held})
			equalScores(t, c.want, got)
		})
	}
}

func TestPrefixRelative(t *testing.T) {
	held := func(gpu int) scorer.Resolved {
		return scorer.Resolved{Eligible: true, Held: prefixindex.Held{GPU: gpu, CPU: gpu, Any: gpu}}
	}
	s := scorer.Prefix{Norm: scorer.Relative}
	in := scorer.Input{PromptTokens: 16_000, BlockTokens: 16, Candidates: []scorer.Resolved{held(1_600), held(800), held(0)}}
	equalScores(t, []float64{1, 0.5, 0}, run(s, in))
	in.Candidates[0].Eligible = false
	equalScores(t, []float64{1, 1, 0}, run(s, in)) // what the ineligible one has is ignored
	in.Candidates = []scorer.Resolved{held(0), held(0)}
	equalScores(t, []float64{0, 0}, run(s, in)) // not 1 for all: nobody has anything
}

// 16 tokens cached as a whole save less than half of 16,000.
func TestPrefixByTokensSaved(t *testing.T) {
	s := scorer.Prefix{Floor: 32_000}
	score := func(held, prompt int) float64 {
		return run(s, scorer.Input{PromptTokens: prompt, BlockTokens: 16, Candidates: []scorer.Resolved{
			{Eligible: true, Held: prefixindex.Held{GPU: held, CPU: held, Any: held}}}})[0]
	}
	require.InDelta(t, 16.0/32_000, score(16, 17), 1e-12)
	require.InDelta(t, 0.25, score(8_000, 16_000), 1e-12)
}

func TestDoubtTakesCredit(t *testing.T) {
	cs := []scorer.Resolved{
		{Eligible: true, Held: prefixindex.Held{GPU: 800, CPU: 800, Any: 800}},
		{Eligible: true, Held: prefixindex.Held{GPU: 800, CPU: 800, Any: 800}, Doubt: 0.75},
		{Eligible: true, Held: prefixindex.Held{GPU: 800, CPU: 800, Any: 800}, Doubt: 9},
	}
	in := scorer.Input{PromptTokens: 1_600, BlockTokens: 16, Candidates: cs}
	equalScores(t, []float64{0.5, 0.125, 0}, run(scorer.Prefix{}, in))
	for i, want := range []int{800, 1_400, 1_600} {
		require.Equal(t, want, in.Uncached(&cs[i]))
		require.Equal(t, 800, in.Saved(&cs[i]))
	}
}
