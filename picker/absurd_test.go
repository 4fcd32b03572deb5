package picker_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// anything draws numbers, mostly from the ends of their range.
func anything(t *rapid.T, name string) float64 {
	return rapid.OneOf(
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 1, -1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1),
			math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300, 1e300,
		}),
		rapid.Float64(),
	).Draw(t, name)
}

func anyInt(t *rapid.T, name string) int {
	return rapid.OneOf(
		rapid.SampledFrom([]int{math.MinInt, -1, 0, 1, 16, math.MaxInt32, math.MaxInt}), rapid.Int(), rapid.IntRange(0, 9_000),
	).Draw(t, name)
}

func anyTime(t *rapid.T, now time.Time) time.Time {
	return rapid.OneOf(
		rapid.SampledFrom([]time.Time{{}, now, now.Add(time.Hour), time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0)}),
		rapid.Map(rapid.IntRange(0, 20), func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }),
	).Draw(t, "at")
}

// anyOptions draws options, of which many are refused.
func anyOptions(t *rapid.T) picker.Options {
	o := picker.Options{
		Seed:            rapid.Uint64().Draw(t, "seed"),
		StaleAfter:      time.Duration(rapid.Int64().Draw(t, "stale after")),
		MinPromptTokens: rapid.IntRange(0, 5_000).Draw(t, "min prompt"),
	}
	for _, field := range []*float64{&o.Select.Band, &o.Select.Temperature, &o.Select.MaxRatio, &o.Select.Bound} {
		if rapid.IntRange(0, 3).Draw(t, "set") == 0 {
			*field = anything(t, "selection")
		}
	}
	norm := scorer.Norm(rapid.IntRange(0, 2).Draw(t, "norm"))
	kinds := []scorer.Scorer{
		scorer.Prefix{CPUWeight: anything(t, "cpu weight"), Floor: rapid.Int().Draw(t, "floor"), Norm: norm},
		scorer.Queue{Norm: norm, Half: anything(t, "half")}, scorer.Memory{},
		scorer.LoadRequests{Norm: norm}, scorer.LoadTokens{Norm: norm, Half: anything(t, "half")},
		scorer.Cost{Horizon: time.Duration(rapid.Int64().Draw(t, "horizon")), PrefillRate: anything(t, "rate")},
		scorer.Session{}, scorer.Adapter{},
		scorer.Signal{Field: scorer.Running, Best: anything(t, "best"), Worst: anything(t, "worst")},
		scorer.Func(func(_ *scorer.Input, out []float64) {
			for i := range out {
				out[i] = anything(t, "score")
			}
		}),
	}
	for i, s := range kinds {
		if v, ok := s.(scorer.Validator); ok && v.Validate() != nil {
			continue
		}
		if rapid.Bool().Draw(t, "use") {
			weight := rapid.OneOf(rapid.Just(1.0), rapid.Map(rapid.Float64(), math.Abs)).Draw(t, "weight")
			o.Scorers = append(o.Scorers, picker.Weighted{Name: string(rune('a' + i)), Scorer: s, Weight: weight})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "gate") == 0 {
		o.Filters = []picker.Named{{Name: "gate", Filter: picker.AffinityGate{Share: anything(t, "share"), MaxTokens: anyInt(t, "max tokens")}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "caps") == 0 {
		o.Caps = []picker.Named{
			{Name: "cap", Filter: picker.MaxInFlight(anyInt(t, "cap"))},
			{Name: "max", Filter: picker.MaxSignal{Field: scorer.Waiting, Max: anything(t, "max")}},
		}
	}
	return o
}

// Whatever New accepts and whatever is offered: a pick ends in a candidate that could
// win or in one of its two errors, with a score from 0 to 1, distinct fallbacks, and no
// count below zero.
func TestNothingBreaksAPick(t *testing.T) {
	now := time.Unix(1_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		l := newTestLedger(t)
		var pickers []*picker.Picker
		for range 2 {
			o := anyOptions(t)
			o.Ledger, o.Clock = l, func() time.Time { return now }
			pk, err := picker.New(o)
			if err != nil {
				require.ErrorIs(t, err, picker.ErrOptions)
				continue
			}
			pickers = append(pickers, pk)
		}
		value := func(name string) scorer.Value { return scorer.Known(anything(t, name)) }
		var call picker.Call
		var rec picker.Record
		var open []picker.Decision
		seen := map[prefixindex.Endpoint]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "picks") {
			if len(pickers) == 0 {
				return
			}
			call.Candidates = call.Candidates[:0]
			for range rapid.IntRange(0, 5).Draw(t, "candidates") {
				e := rapid.OneOf(
					rapid.Map(rapid.IntRange(0, 4), func(i int) prefixindex.Endpoint { return prefixindex.Endpoint(i) }),
					rapid.Map(rapid.IntRange(1, 3), func(g int) prefixindex.Endpoint { return handle(2, g) }),
					rapid.Just(prefixindex.Endpoint(math.MaxUint64)),
				).Draw(t, "endpoint")
				seen[e] = true
				c := scorer.Candidate{
					Endpoint: e,
					Signals: scorer.Signals{
						Waiting: value("waiting"), Running: value("running"), CacheUse: value("use"), At: anyTime(t, now),
					},
					Skip: rapid.IntRange(0, 5).Draw(t, "skip") == 0,
				}
				if rapid.Bool().Draw(t, "host counts") {
					c.InFlight = scorer.InFlight{Requests: value("requests"), Tokens: value("tokens")}
				}
				if rapid.Bool().Draw(t, "cached") {
					c.Cached = scorer.Holds(prefixindex.Held{
						Rank: anyInt(t, "rank"), GPU: anyInt(t, "gpu"), CPU: anyInt(t, "cpu"), Any: anyInt(t, "any"),
						View: prefixindex.View(rapid.Uint8().Draw(t, "view")),
					})
				}
				call.Candidates = append(call.Candidates, c)
			}
			call.Request = scorer.Request{PromptTokens: anyInt(t, "prompt"), Session: "s", Adapter: "a"}
			call.Record = nil
			recorded := rapid.Bool().Draw(t, "record")
			if recorded {
				call.Record = &rec
			}
			pk := rapid.SampledFrom(pickers).Draw(t, "picker")
			d, err := pk.Pick(&call)
			if recorded {
				require.NotEmpty(t, rec.Explain())
			}
			if err != nil {
				require.True(t, errors.Is(err, picker.ErrNoCandidates) || errors.Is(err, picker.ErrOverloaded))
				continue
			}
			require.False(t, call.Candidates[d.Index].Skip)
			require.True(t, d.Score >= 0 && d.Score <= 1+1e-9, "score %v", d.Score)
			require.True(t, d.Margin >= 0 && d.Margin <= 1+1e-9, "margin %v", d.Margin)
			places := map[int]bool{d.Index: true}
			for i := range picker.MaxFallbacks {
				if f, ok := d.Fallback(i); ok {
					require.False(t, places[f.Index] || call.Candidates[f.Index].Skip)
					places[f.Index] = true
				}
			}
			open = append(open, d)
			switch d := rapid.SampledFrom(open).Draw(t, "report on"); rapid.IntRange(0, 3).Draw(t, "report") {
			case 0:
				d.FirstToken()
			case 1:
				d.Moved(call.Candidates[0].Endpoint)
			case 2:
				d.Done(picker.Outcome{Result: picker.Result(rapid.Uint8().Draw(t, "result")), CachedTokens: value("reported")})
			}
			for e := range seen {
				requests, tokens := l.InFlight(e)
				require.True(t, requests >= 0 && tokens >= 0, "%d requests, %d tokens", requests, tokens)
			}
		}
		for _, d := range open {
			d.Done(picker.Outcome{})
		}
		for e := range seen {
			requests, tokens := l.InFlight(e)
			require.True(t, requests == 0 && tokens == 0, "%d requests, %d tokens", requests, tokens)
		}
		require.Zero(t, l.Stats().Open)
	})
}

func newTestLedger(t *rapid.T) *picker.Ledger {
	l, err := picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	return l
}
