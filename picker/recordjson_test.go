package picker_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// A record is kept where decisions are logged, and asked later: would the request have
// gone elsewhere if the queue had been shorter?
func ExamplePicker_Replay() {
	pk, err := picker.New(picker.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	warm := scorer.Holds(prefixindex.Held{GPU: 6_992})
	var rec picker.Record
	d, err := pk.Pick(&picker.Call{
		Request: scorer.Request{PromptTokens: 7_000},
		Candidates: []scorer.Candidate{
			{Endpoint: 1, Cached: warm, Signals: scorer.Signals{Waiting: scorer.Known(20)}},
			{Endpoint: 2, Signals: scorer.Signals{Waiting: scorer.Known(0)}},
		},
		Record: &rec,
	})
	if err != nil {
		panic(err)
	}
	d.Done(picker.Outcome{})
	fmt.Println("went to", d.Index)
	text, err := json.Marshal(rec)
	if err != nil {
		panic(err)
	}

	var read picker.Record
	if err := json.Unmarshal(text, &read); err != nil {
		panic(err)
	}
	winner, err := pk.Replay(&read) // a picker with scorers of the same names
	fmt.Println("replayed:", winner, err)
	read.Candidates[0].Resolved.Signals.Waiting = scorer.Known(2)
	winner, err = pk.Replay(&read)
	fmt.Println("with 2 waiting:", winner, err)
	// Output:
	// went to 1
	// replayed: 1 <nil>
	// with 2 waiting: 0 <nil>
}

// A record that was written and read says and replays what the one in memory does.
func TestRecordSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_000, 123)
		scores := map[int]float64{}
		pk := newPicker(t, picker.Options{
			Clock: func() time.Time { return now },
			Scorers: append(picker.DefaultScorers(),
				picker.Weighted{Name: "queue", Weight: 1, Scorer: scorer.Queue{}},
				picker.Weighted{Name: "adapter", Weight: 1, Scorer: scorer.Adapter{}},
				picker.Weighted{Name: "any", Weight: 1, Scorer: scorer.Func(func(_ *scorer.Input, out []float64) {
					for i := range out {
						if _, drawn := scores[i]; !drawn {
							scores[i] = anything(rt, "score")
						}
						out[i] = scores[i]
					}
				})},
			),
			Filters: []picker.Named{{Name: "odd", Filter: picker.Label{None: 1 << 63}}},
			Caps:    []picker.Named{{Name: "cap", Filter: picker.MaxInFlight(20)}},
		})
		var rec picker.Record
		call := picker.Call{Record: &rec, Request: scorer.Request{
			PromptTokens: rapid.IntRange(-1, 9_000).Draw(rt, "prompt"), Session: "s", Adapter: "a",
		}}
		call.Candidates = anyCandidates(rt, now)
		for i := range call.Candidates {
			c := &call.Candidates[i]
			c.Labels = rapid.Uint64().Draw(rt, "labels")
			c.Signals.At = anyTime(rt, now)
			for range rapid.IntRange(0, scorer.MaxAdapters+1).Draw(rt, "adapters") {
				c.Signals.Adapters.AddRunning(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "adapter"))
				c.Signals.Adapters.AddWaiting("c")
			}
		}
		_, err := pk.Pick(&call)

		text, failed := json.Marshal(rec)
		require.NoError(rt, failed)
		read := picker.Record{Winner: 7, Scorers: make([]picker.ScorerRecord, 9)} // used before
		require.NoError(rt, json.Unmarshal(text, &read))
		again, failed := json.Marshal(&read)
		require.NoError(rt, failed)
		require.Equal(rt, string(text), string(again))
		require.Equal(rt, rec.Explain(), read.Explain())
		require.Equal(rt, err, read.Err)
		winner, err := pk.Replay(&read)
		require.Equal(rt, rec.Winner, winner)
		require.Equal(rt, rec.Err, err)
	})
}

func TestRecordJSONIsReadable(t *testing.T) {
	text, err := json.Marshal(picker.Record{
		Err:    picker.ErrOverloaded,
		Scores: []picker.ScoreRecord{{Raw: math.Inf(1), Used: 1, Millis: math.NaN()}},
		Candidates: []picker.CandidateRecord{{Resolved: scorer.Resolved{
			InFlight: scorer.InFlight{Requests: scorer.Known(3)},
		}}},
	})
	require.NoError(t, err)
	require.Contains(t, string(text), `"Err":"picker: all candidates are over a cap"`)
	require.Contains(t, string(text), `"Scores":[{"Raw":"+Inf","Used":1,"Millis":null}]`)
	require.Contains(t, string(text), `"InFlight":{"Requests":3,"Tokens":null}`)

	var read picker.Record
	for _, bad := range []string{`[]`, `{"Scores": [{"Raw": "x"}]}`, `{"Pick": -1}`, `{"Err": "other"}`} {
		require.ErrorIs(t, json.Unmarshal([]byte(bad), &read), picker.ErrReplay, bad)
	}
}

// Whatever was changed in a record: it is refused, or explained and replayed without harm.
func TestReplayOfAnyRecord(t *testing.T) {
	pk := newPicker(t, picker.Options{
		Scorers: append(picker.DefaultScorers(), picker.Weighted{Name: "queue", Weight: 1, Scorer: scorer.Queue{}}),
		Caps:    []picker.Named{{Name: "cap", Filter: picker.MaxInFlight(30)}},
		Filters: []picker.Named{{Name: "gate", Filter: picker.AffinityGate{MaxTokens: 1_000}}},
		Select:  picker.Select{Bound: 1.5},
	})
	var rec picker.Record
	cs := loaded(1, 2, 9, 40)
	cs[0].Cached = scorer.Holds(prefixindex.Held{GPU: 64})
	cs[3].Skip = true
	_, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 100}, Candidates: cs, Record: &rec})
	require.NoError(t, err)
	text, err := json.Marshal(rec)
	require.NoError(t, err)

	rapid.Check(t, func(rt *rapid.T) {
		var tree any
		require.NoError(rt, json.Unmarshal(text, &tree))
		for range rapid.IntRange(1, 12).Draw(rt, "changes") {
			vandalise(rt, tree)
		}
		changed, err := json.Marshal(tree)
		require.NoError(rt, err)
		var r picker.Record
		if json.Unmarshal(changed, &r) != nil {
			return
		}
		require.NotEmpty(rt, r.Explain())
		winner, err := pk.Replay(&r)
		require.True(rt, winner >= 0 && winner < len(r.Candidates) || winner == -1 && err != nil, "%d, %v", winner, err)
	})
}

// vandalise changes one value somewhere in a tree of JSON.
func vandalise(t *rapid.T, tree any) {
	for {
		var next any
		var put func(x any)
		switch v := tree.(type) {
		case map[string]any:
			key := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "key")
			next, put = v[key], func(x any) { v[key] = x }
		case []any:
			if len(v) == 0 {
				return
			}
			i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
			next, put = v[i], func(x any) { v[i] = x }
		}
		switch was := next.(type) {
		case map[string]any:
			tree = next
			continue
		case []any:
			n := rapid.IntRange(-1, len(was)).Draw(t, "items")
			if n < 0 {
				tree = next
				continue
			}
			put(was[:n])
		case string:
			put(rapid.SampledFrom([]string{"", "skipped", "over bound", "cap", "queue", "+Inf", "1970-01-01T00:00:00Z"}).Draw(t, "text"))
		case bool:
			put(!was)
		default:
			put(rapid.SampledFrom([]any{
				nil, 0, 1, -1, 3, 255, -1e300, 1e300, 0.5, 1e-320, int64(math.MaxInt64), int64(math.MinInt64), "+Inf",
			}).Draw(t, "number"))
		}
		return
	}
}
