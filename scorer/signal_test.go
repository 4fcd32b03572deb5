package scorer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
)

func TestSignal(t *testing.T) {
	xs := []float64{0, 25, 100, 250, -10, nan}
	for name, c := range map[string]struct {
		s    scorer.Signal
		want []float64
	}{
		"lower is better":  {scorer.Signal{Field: scorer.Running, Best: 0, Worst: 100}, []float64{1, 0.75, 0, 0, 1, nan}},
		"higher is better": {scorer.Signal{Field: scorer.Running, Best: 100, Worst: 0}, []float64{0, 0.25, 1, 1, 0, nan}},
		"another field":    {scorer.Signal{Field: scorer.Own + 1, Best: 100}, []float64{nan, nan, nan, nan, nan, nan}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			cs := make([]scorer.Resolved, len(xs))
			for i, x := range xs {
				cs[i].Signals.Running = known(x)
			}
			equalScores(t, c.want, run(c.s, scorer.Input{Candidates: cs}))
		})
	}
	s := scorer.Signals{Waiting: known(1), Running: known(2), CacheUse: known(3), Own: [4]scorer.Value{known(4), known(5), known(6), known(7)}}
	for f := range scorer.Own + scorer.MaxOwn {
		x, ok := f.Of(&s).Get()
		require.True(t, ok)
		require.Equal(t, float64(f+1), x)
	}
	_, ok := scorer.Field(200).Of(&s).Get()
	require.False(t, ok)
}
