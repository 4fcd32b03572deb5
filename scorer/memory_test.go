package scorer_test

import (
	"testing"

	"github.com/warmroute/warmroute/scorer"
)

func TestMemory(t *testing.T) {
	cs := make([]scorer.Resolved, 4)
	for i, use := range []float64{0, 0.25, 1, nan} {
		cs[i].Signals.CacheUse = known(use)
	}
	equalScores(t, []float64{1, 0.75, 0, nan}, run(scorer.Memory{}, scorer.Input{Candidates: cs}))
}
