package picker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// An endpoint that reports none of what was predicted loses 80 % of its affinity within
// 20 requests, and regains it within 50 honest ones.
func TestDisprovedPredictionsLoseAffinity(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l, Scorers: []picker.Weighted{{Name: "prefix", Weight: 1, Scorer: scorer.Prefix{}}}})
	var rec picker.Record
	affinity := func(reported float64) float64 {
		d, err := pk.Pick(&picker.Call{
			Request:    scorer.Request{PromptTokens: 7_000},
			Candidates: []scorer.Candidate{{Endpoint: 1, Cached: scorer.Holds(prefixindex.Held{GPU: 6_992})}},
			Record:     &rec,
		})
		require.NoError(t, err)
		cached, _ := d.CachedTokens.Get()
		require.Equal(t, 6_992.0, cached, "predictions go on as before, or nothing could be regained")
		d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(reported)})
		return rec.Candidates[0].Sum
	}
	full := affinity(6_992)
	for range 20 {
		affinity(0)
	}
	require.Less(t, affinity(0), 0.2*full)
	for range 50 {
		affinity(6_992)
	}
	require.Greater(t, affinity(6_992), 0.98*full)

	c := l.Calibration(1)
	require.Equal(t, uint64(73), c.Reported)
	require.Equal(t, uint64(73*6_992), c.PredictedTokens)
	require.Equal(t, uint64(52*6_992), c.ReportedTokens)
	require.Zero(t, c.Unreported)
	require.Contains(t, rec.Explain(), "candidate 0")
}

func TestCalibrationEdges(t *testing.T) {
	value := scorer.Known
	for name, c := range map[string]struct {
		held             scorer.Cached
		outcome          picker.Outcome
		want             picker.Calibration
		corrected, blame uint64
	}{
		"absent usage": {scorer.Holds(prefixindex.Held{GPU: 640}), picker.Outcome{Result: picker.OK},
			picker.Calibration{Unreported: 1}, 0, 0},
		"absent after a failure is to be expected": {scorer.Holds(prefixindex.Held{GPU: 640}), picker.Outcome{Result: picker.Failed},
			picker.Calibration{}, 0, 0},
		"more than predicted is no lie": {scorer.Holds(prefixindex.Held{GPU: 640}), picker.Outcome{CachedTokens: value(960)},
			picker.Calibration{Reported: 1, PredictedTokens: 640, ReportedTokens: 960}, 0, 0},
		"half of it": {scorer.Holds(prefixindex.Held{GPU: 640}), picker.Outcome{CachedTokens: value(320)},
			picker.Calibration{Reported: 1, PredictedTokens: 640, ReportedTokens: 320, Doubt: 0.05}, 0, 0},
		"negative": {scorer.Holds(prefixindex.Held{GPU: 640}), picker.Outcome{CachedTokens: value(-5)},
			picker.Calibration{Reported: 1, PredictedTokens: 640, Doubt: 0.1}, 1, 0},
		"nothing predicted": {scorer.Holds(prefixindex.Held{}), picker.Outcome{CachedTokens: value(320)},
			picker.Calibration{Reported: 1, ReportedTokens: 320}, 0, 0},
		"no prediction": {scorer.Cached{}, picker.Outcome{CachedTokens: value(320)},
			picker.Calibration{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, host := range []bool{false, true} { // who counts makes no difference
				l := newLedger(t)
				pk := newPicker(t, picker.Options{Ledger: l})
				one := scorer.Candidate{Endpoint: 1, Cached: c.held}
				if host {
					one.InFlight.Requests = scorer.Known(3)
				}
				d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 1_000}, Candidates: []scorer.Candidate{one}})
				require.NoError(t, err)
				d.Done(c.outcome)
				require.Equal(t, c.want, l.Calibration(1))
				s := l.Stats()
				require.Equal(t, c.corrected, s.Corrected)
				require.Equal(t, c.want.Reported, s.Reported)
				require.Equal(t, c.want.Unreported, s.Unreported)
			}
		})
	}
}

// What was learned of a generation ends with it.
func TestDoubtEndsWithTheGeneration(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	lie := func(e prefixindex.Endpoint) picker.Decision {
		d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 1_000},
			Candidates: []scorer.Candidate{{Endpoint: e, Cached: scorer.Holds(prefixindex.Held{GPU: 640})}}})
		require.NoError(t, err)
		return d
	}
	nothing := picker.Outcome{CachedTokens: scorer.Known(0)}
	lie(handle(1, 1)).Done(nothing)
	require.Positive(t, l.Calibration(handle(1, 1)).Doubt)
	late := lie(handle(1, 1))
	send(t, pk, handle(1, 2), 10)
	late.Done(nothing)
	require.Zero(t, l.Calibration(handle(1, 2)))
	require.Zero(t, l.Calibration(handle(1, 1)))
	require.Equal(t, uint64(2), l.Stats().Reported)
}

// A fallback is judged by what was predicted of it, not of the winner.
func TestMovedRequestTeachesOfWhereItWent(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 1_000}, Candidates: []scorer.Candidate{
		{Endpoint: 1, Cached: scorer.Holds(prefixindex.Held{GPU: 960})},
		{Endpoint: 2, Cached: scorer.Holds(prefixindex.Held{GPU: 320})},
	}})
	require.NoError(t, err)
	require.Equal(t, prefixindex.Endpoint(1), d.Endpoint)
	d.Moved(2)
	d.Done(picker.Outcome{CachedTokens: scorer.Known(320)})
	require.Zero(t, l.Calibration(1))
	require.Equal(t, picker.Calibration{Reported: 1, PredictedTokens: 320, ReportedTokens: 320}, l.Calibration(2))
}

// The prefill rate is learned from first tokens, and Cost goes by it.
func TestPrefillRateIsLearned(t *testing.T) {
	l, c := newLedger(t), newClock()
	pk := newPicker(t, picker.Options{Ledger: l, Clock: c.time, Scorers: []picker.Weighted{{Name: "cost", Weight: 1, Scorer: scorer.Cost{}}}})
	for e, rate := range map[prefixindex.Endpoint]int{1: 4_000, 2: 16_000} {
		for range 5 {
			d := send(t, pk, e, 8_000)
			c.forward(8_000 * time.Second / time.Duration(rate))
			d.FirstToken()
			d.Done(picker.Outcome{})
		}
		got, known := l.Calibration(e).PrefillRate.Get()
		require.True(t, known)
		require.InDelta(t, rate, got, 1)
	}
	short := send(t, pk, 3, 100)
	c.forward(time.Hour)
	short.FirstToken()
	short.Done(picker.Outcome{})
	require.Zero(t, l.Calibration(3))

	var rec picker.Record
	d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 8_000}, Candidates: endpoints(2), Record: &rec})
	require.NoError(t, err)
	require.Equal(t, 1, d.Index)
	require.InDelta(t, 2_000, rec.Scores[0].Millis, 1)
	require.InDelta(t, 500, rec.Scores[1].Millis, 1)
	require.Regexp(t, `cost ms\n.* 500  winner\n.* 2,000\n`, rec.Explain())
}
