package scorer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
)

// The cost of two engines of different speed is a time, not a count.
func TestCost(t *testing.T) {
	base := func(edit func(c *scorer.Resolved)) scorer.Resolved {
		c := scorer.Resolved{Eligible: true}
		c.InFlight = scorer.InFlight{Requests: known(0), Tokens: known(0)}
		c.Signals.Waiting = known(0)
		c.PrefillRate = known(10_000)
		edit(&c)
		return c
	}
	for name, c := range map[string]struct {
		s    scorer.Cost
		cs   []scorer.Resolved
		want []float64 // ms
	}{
		"idle":          {scorer.Cost{}, []scorer.Resolved{base(func(*scorer.Resolved) {})}, []float64{500}},
		"cached":        {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Held.Any = 4_000 })}, []float64{100}},
		"tokens ahead":  {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.InFlight.Tokens = known(20_000) })}, []float64{2_500}},
		"a queue":       {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10) })}, []float64{1_500}},
		"both are one":  {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10); c.InFlight.Tokens = known(20_000) })}, []float64{2_500}},
		"own constants": {scorer.Cost{PrefillRate: 5_000, PerWaiting: time.Second}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(1) })}, []float64{2_000}},
		"no queue":      {scorer.Cost{PerWaiting: -1}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10) })}, []float64{500}},
		"nothing known": {scorer.Cost{}, []scorer.Resolved{{Eligible: true}}, []float64{625}},
		"unknown queue is the mean, stale no better": {scorer.Cost{}, []scorer.Resolved{
			base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10) }),
			base(func(c *scorer.Resolved) { c.Signals.Waiting = scorer.Value{} }),
			base(func(c *scorer.Resolved) { c.Stale = true }),
			base(func(c *scorer.Resolved) { c.Stale, c.Signals.Waiting = true, known(20) }),
		}, []float64{1_500, 1_500, 1_500, 2_500}},
		"unknown rate is the mean": {scorer.Cost{}, []scorer.Resolved{
			base(func(c *scorer.Resolved) { c.PrefillRate = known(20_000) }),
			base(func(c *scorer.Resolved) { c.PrefillRate = known(5_000) }),
			base(func(c *scorer.Resolved) { c.PrefillRate = scorer.Value{} }),
		}, []float64{250, 1_000, 400}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			in := scorer.Input{PromptTokens: 5_000, BlockTokens: 16, Candidates: c.cs}
			ms := make([]float64, len(c.cs))
			c.s.Estimate(&in, ms)
			equalScores(t, c.want, ms)
			for i, score := range run(c.s, in) {
				require.InDelta(t, 1-c.want[i]/10_000, score, 1e-9)
			}
			slow := c.s
			slow.Horizon = time.Millisecond
			for _, score := range run(slow, in) {
				require.Zero(t, score)
			}
		})
	}
}
