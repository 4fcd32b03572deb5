package scorer_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

var nan = math.NaN()

func known(x float64) scorer.Value { return scorer.Known(x) }

// run scores the candidates, all of them eligible unless said otherwise.
func run(s scorer.Scorer, in scorer.Input) []float64 {
	out := make([]float64, len(in.Candidates))
	for i := range out {
		out[i] = nan
	}
	s.Score(&in, out)
	return out
}

func equalScores(t *testing.T, want, got []float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if math.IsNaN(want[i]) {
			require.True(t, math.IsNaN(got[i]), "candidate %d: %v, not NaN", i, got[i])
			continue
		}
		require.InDelta(t, want[i], got[i], 1e-9, "candidate %d", i)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for want, v := range map[string]scorer.Validator{
		"Queue.Half":         scorer.Queue{Half: -1},
		"Queue.Norm":         scorer.Queue{Norm: 9},
		"LoadRequests.Half":  scorer.LoadRequests{Half: nan},
		"LoadTokens.Half":    scorer.LoadTokens{Half: math.Inf(1)},
		"Prefix.CPUWeight":   scorer.Prefix{CPUWeight: 1.5},
		"Prefix.DiskWeight":  scorer.Prefix{DiskWeight: nan},
		"Prefix.StaleWeight": scorer.Prefix{StaleWeight: math.Inf(-1)},
		"Prefix.Floor":       scorer.Prefix{Floor: -1},
		"Prefix.Norm":        scorer.Prefix{Norm: scorer.ToLeast},
		"Signal.Best":        scorer.Signal{},
		"Field is 200":       scorer.Signal{Field: 200, Best: 1},
		"Cost.Horizon":       scorer.Cost{Horizon: -1},
		"Cost.PrefillRate":   scorer.Cost{PrefillRate: nan},
	} {
		require.ErrorContains(t, v.Validate(), want)
	}
}

// Every scorer gives a number between 0 and 1, or no opinion, for any candidates.
func TestScoresAreInRange(t *testing.T) {
	scorers := []scorer.Scorer{
		scorer.Prefix{}, scorer.Prefix{Floor: 4_096},
		scorer.Queue{}, scorer.Queue{Norm: scorer.Relative}, scorer.Queue{Norm: scorer.ToLeast},
		scorer.LoadRequests{}, scorer.LoadTokens{}, scorer.LoadTokens{Norm: scorer.Relative},
		scorer.LoadTokens{Norm: scorer.ToLeast},
		scorer.Prefix{Norm: scorer.Relative}, scorer.Cost{}, scorer.Cost{PerWaiting: -1}, scorer.Session{}, scorer.Adapter{},
		scorer.Signal{Field: scorer.Waiting, Best: 0, Worst: 100},
	}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Just(nan), rapid.Just(0.0), rapid.Float64Range(0, 200), rapid.Float64())
		cs := make([]scorer.Resolved, rapid.IntRange(0, 6).Draw(t, "n"))
		for i := range cs {
			gpu := rapid.IntRange(0, 5_000).Draw(t, "gpu")
			cpu := gpu + rapid.IntRange(0, 5_000).Draw(t, "cpu")
			cs[i] = scorer.Resolved{
				Signals:  scorer.Signals{Waiting: known(number.Draw(t, "waiting"))},
				InFlight: scorer.InFlight{Requests: known(number.Draw(t, "requests")), Tokens: known(number.Draw(t, "tokens"))},
				Held:     prefixindex.Held{GPU: gpu, CPU: cpu, Any: cpu, View: prefixindex.View(rapid.IntRange(0, 5).Draw(t, "view"))},
				Doubt:    rapid.Float64Range(0, 1).Draw(t, "doubt"),
				Stale:    rapid.Bool().Draw(t, "stale"),
				Eligible: rapid.Bool().Draw(t, "eligible"),
			}
		}
		in := scorer.Input{Request: &scorer.Request{Session: "s"}, PromptTokens: rapid.IntRange(0, 9_000).Draw(t, "prompt"), BlockTokens: 16, Candidates: cs}
		for _, s := range scorers {
			for i, v := range run(s, in) {
				if cs[i].Eligible && !math.IsNaN(v) && !(v >= 0 && v <= 1) {
					t.Fatalf("%#v gives candidate %d a score of %v", s, i, v)
				}
			}
		}
	})
}
