package scorer_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
)

// waiting makes candidates with that many requests waiting; NaN is unknown.
func waiting(xs ...float64) []scorer.Resolved {
	cs := make([]scorer.Resolved, len(xs))
	for i, x := range xs {
		cs[i] = scorer.Resolved{Eligible: true, Signals: scorer.Signals{Waiting: known(x)}}
	}
	return cs
}

func TestQueueNorms(t *testing.T) {
	type row struct {
		name string
		s    scorer.Queue
		xs   []float64
		edit func(cs []scorer.Resolved)
		want []float64
	}
	stale := func(is ...int) func([]scorer.Resolved) {
		return func(cs []scorer.Resolved) {
			for _, i := range is {
				cs[i].Stale = true
			}
		}
	}
	skip := func(i int) func([]scorer.Resolved) {
		return func(cs []scorer.Resolved) { cs[i].Eligible = false }
	}
	abs, rel, least := scorer.Queue{}, scorer.Queue{Norm: scorer.Relative}, scorer.Queue{Norm: scorer.ToLeast}
	for _, c := range []row{
		{"absolute", abs, []float64{0, 4, 12, nan}, nil, []float64{1, 0.5, 0.25, nan}},
		{"absolute, own half", scorer.Queue{Half: 12}, []float64{12}, nil, []float64{0.5}},
		{"absolute, equal", abs, []float64{4, 4}, nil, []float64{0.5, 0.5}},
		{"absolute, huge", abs, []float64{math.MaxFloat64}, nil, []float64{0}},
		{"absolute, negative counts as none", abs, []float64{-4}, nil, []float64{1}},
		{"relative, 0 against 1", rel, []float64{0, 1}, nil, []float64{1, 0}},
		{"relative, 0 against 100", rel, []float64{0, 100}, nil, []float64{1, 0}},
		{"relative, equal is neutral", rel, []float64{7, 7, nan}, nil, []float64{1, 1, nan}},
		{"relative, one", rel, []float64{7}, nil, []float64{1}},
		{"relative, nobody known", rel, []float64{nan, nan}, nil, []float64{nan, nan}},
		{"relative, skipped is no bound", rel, []float64{0, 10, 20, 1000}, skip(3), []float64{1, 0.5, 0, 0}},
		{"relative, stale is no bound", rel, []float64{0, 10, 20}, stale(0), []float64{1, 1, 0}},
		{"relative, all stale", rel, []float64{0, 10}, stale(0, 1), []float64{1, 0}},
		{"to least, as absolute from zero", least, []float64{0, 4, 12, nan}, nil, []float64{1, 0.5, 0.25, nan}},
		{"to least, large numbers by their ratio", least, []float64{100, 204}, nil, []float64{1, 0.5}},
		{"to least, equal", least, []float64{100, 100}, nil, []float64{1, 1}},
		{"to least, stale is no bound", least, []float64{0, 4, 12}, stale(0), []float64{1, 1, 0.5}},
		{"to least, nobody known", least, []float64{nan}, nil, []float64{nan}},
		{"nobody at all", least, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			cs := waiting(c.xs...)
			if c.edit != nil {
				c.edit(cs)
			}
			equalScores(t, c.want, run(c.s, scorer.Input{Candidates: cs}))
		})
	}
}
