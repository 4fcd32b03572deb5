package picker_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// anyCandidates draws candidates of all kinds, the absurd among them.
func anyCandidates(t *rapid.T, now time.Time) []scorer.Candidate {
	number := rapid.OneOf(rapid.Just(math.NaN()), rapid.Float64Range(0, 30), rapid.Float64Range(-5, 1e9))
	value := func(name string) scorer.Value { return scorer.Known(number.Draw(t, name)) }
	cs := make([]scorer.Candidate, rapid.IntRange(0, 6).Draw(t, "candidates"))
	for i := range cs {
		cs[i] = scorer.Candidate{
			Endpoint: prefixindex.Endpoint(rapid.IntRange(0, 8).Draw(t, "endpoint")),
			Signals: scorer.Signals{
				Waiting: value("waiting"), Running: value("running"),
				CacheUse: scorer.Known(rapid.Float64Range(-0.1, 1.1).Draw(t, "cache use")),
			},
			Skip: rapid.IntRange(0, 4).Draw(t, "skip") == 0,
		}
		if rapid.Bool().Draw(t, "timed") {
			cs[i].Signals.At = now.Add(-time.Duration(rapid.IntRange(-1, 20).Draw(t, "age")) * time.Second)
		}
		if rapid.Bool().Draw(t, "cached") {
			cs[i].Cached = scorer.Holds(prefixindex.Held{GPU: rapid.IntRange(-16, 8_000).Draw(t, "gpu")})
		}
		if rapid.IntRange(0, 4).Draw(t, "host counts") == 0 {
			cs[i].InFlight.Requests = value("requests")
		}
	}
	return cs
}

func TestReplayRecomputesTheWinner(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_000, 0)
		pk := newPicker(t, picker.Options{
			Seed:  rapid.Uint64Min(1).Draw(rt, "seed"),
			Clock: func() time.Time { return now },
			Caps:  []picker.Named{{Name: "cap", Filter: picker.MaxInFlight(3)}},
		})
		var call picker.Call
		var rec picker.Record
		call.Record = &rec
		for range rapid.IntRange(1, 12).Draw(rt, "picks") {
			call.Candidates = anyCandidates(rt, now)
			call.Request.PromptTokens = rapid.IntRange(-1, 9_000).Draw(rt, "prompt")
			d, err := pk.Pick(&call)
			winner, again := pk.Replay(&rec)
			if err != nil {
				require.Equal(rt, err, again)
				require.Equal(rt, -1, winner)
			} else {
				require.NoError(rt, again)
				require.Equal(rt, d.Index, winner)
				require.Equal(rt, d.Index, rec.Winner)
			}
			require.NotEmpty(rt, rec.Explain())
		}
	})
}

// A change of one signal changes the recomputed winner as it would have changed the
// pick.
func TestReplayOfAChangedRecord(t *testing.T) {
	now := time.Unix(1_000, 0)
	pk := newPicker(t, picker.Options{Clock: func() time.Time { return now }})
	var rec picker.Record
	cs := endpoints(2)
	for i := range cs {
		cs[i].Signals.At = now
		cs[i].Cached = scorer.Holds(prefixindex.Held{})
	}
	cs[0].Cached = scorer.Holds(prefixindex.Held{GPU: 6_992})
	d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 7_000}, Candidates: cs, Record: &rec})
	require.NoError(t, err)
	require.Equal(t, 0, d.Index)

	for name, edit := range map[string]func(c []picker.CandidateRecord){
		"its queue is long":       func(c []picker.CandidateRecord) { c[0].Resolved.Signals.Waiting = scorer.Known(20) },
		"it has twenty in flight": func(c []picker.CandidateRecord) { c[0].Resolved.InFlight.Requests = scorer.Known(20) },
		"it holds nothing, and the other one does": func(c []picker.CandidateRecord) {
			c[0].Resolved.Held, c[1].Resolved.Held = c[1].Resolved.Held, c[0].Resolved.Held
		},
		"it was skipped": func(c []picker.CandidateRecord) { c[0].Verdict = "skipped" },
		"its queue is long, and stale": func(c []picker.CandidateRecord) {
			c[0].Resolved.Signals.Waiting = scorer.Known(20)
			c[0].Resolved.Signals.At = now.Add(-time.Minute)
		},
	} {
		changed := rec
		changed.Candidates = append([]picker.CandidateRecord(nil), rec.Candidates...)
		edit(changed.Candidates)
		winner, err := pk.Replay(&changed)
		require.NoError(t, err)
		require.Equal(t, 1, winner, name)
	}
	winner, err := pk.Replay(&rec)
	require.NoError(t, err)
	require.Zero(t, winner)

	weights := rec
	weights.Scorers = append([]picker.ScorerRecord(nil), rec.Scorers...)
	weights.Candidates = append([]picker.CandidateRecord(nil), rec.Candidates...)
	weights.Candidates[0].Resolved.Signals.Waiting = scorer.Known(20)
	for j := range weights.Scorers {
		if weights.Scorers[j].Name == "cost" {
			weights.Scorers[j].Weight = 0
		}
	}
	winner, err = pk.Replay(&weights)
	require.NoError(t, err)
	require.Zero(t, winner, "weights are those of the record")
}

func TestReplayRefusesWhatItCannotRecompute(t *testing.T) {
	pk := newPicker(t, picker.Options{})
	var good picker.Record
	_, err := pk.Pick(&picker.Call{Candidates: endpoints(2), Record: &good})
	require.NoError(t, err)
	for name, edit := range map[string]func(r *picker.Record){
		"unknown scorer": func(r *picker.Record) { r.Scorers[0].Name = "other" },
		"unknown filter": func(r *picker.Record) { r.Filters = []picker.FilterRecord{{Name: "other"}} },
		"no scorers":     func(r *picker.Record) { r.Scorers = nil },
		"NaN weight":     func(r *picker.Record) { r.Scorers[0].Weight = math.NaN() },
		"band of 3":      func(r *picker.Record) { r.Select.Band = 3 },
	} {
		bad := good
		bad.Scorers = append([]picker.ScorerRecord(nil), good.Scorers...)
		edit(&bad)
		winner, err := pk.Replay(&bad)
		require.ErrorIs(t, err, picker.ErrReplay, name)
		require.Equal(t, -1, winner)
		require.NotPanics(t, func() { _ = bad.Explain() })
	}
	var empty picker.Record
	require.NotPanics(t, func() { _ = empty.Explain() })
}
