package scorer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
)

func TestAdapter(t *testing.T) {
	adapters := func(slots int, running, waiting []string) scorer.Adapters {
		a := scorer.NewAdapters(slots)
		for _, name := range waiting { // in any order
			a.AddWaiting(name)
		}
		for _, name := range running {
			a.AddRunning(name)
		}
		return a
	}
	many := make([]string, scorer.MaxAdapters+1)
	for i := range many {
		many[i] = fmt.Sprint("adapter-", i)
	}
	for name, c := range map[string]struct {
		have scorer.Adapters
		want float64
	}{
		"nothing known":           {scorer.Adapters{}, nan},
		"running":                 {adapters(2, []string{"x", "mine"}, []string{"y"}), 1},
		"a slot is free":          {adapters(2, []string{"x"}, nil), 0.8},
		"waiting, a slot is free": {adapters(2, []string{"x"}, []string{"mine"}), 0.8},
		"waiting":                 {adapters(1, []string{"x"}, []string{"y", "mine"}), 0.6},
		"absent":                  {adapters(1, []string{"x"}, []string{"y"}), 0},
		"slots not said":          {adapters(0, nil, nil), 0},
		"too many to tell":        {adapters(4, many, nil), nan},
		"too many, but it is one": {adapters(4, append([]string{"mine"}, many...), nil), 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := scorer.Input{Request: &scorer.Request{Adapter: "mine"}, Candidates: []scorer.Resolved{{Eligible: true}}}
			in.Candidates[0].Signals.Adapters = c.have
			equalScores(t, []float64{c.want}, run(scorer.Adapter{}, in))
			in.Request.Adapter = ""
			equalScores(t, []float64{1}, run(scorer.Adapter{}, in))
		})
	}
	full := adapters(1, many[:scorer.MaxAdapters], nil)
	require.False(t, full.AddWaiting("z"))
	require.False(t, full.AddRunning("z"))
}

func TestAdaptersSurviveJSON(t *testing.T) {
	some := scorer.NewAdapters(3)
	some.AddWaiting("a")
	some.AddRunning("b")
	cut := scorer.Adapters{}
	for i := range scorer.MaxAdapters + 1 {
		cut.AddRunning(fmt.Sprint(i))
	}
	for _, a := range []scorer.Adapters{{}, scorer.NewAdapters(0), some, cut} {
		text, err := json.Marshal(a)
		require.NoError(t, err)
		back := some
		require.NoError(t, json.Unmarshal(text, &back), "%s", text)
		require.Equal(t, a, back, "%s", text)
	}
	var back scorer.Adapters
	require.ErrorContains(t, json.Unmarshal([]byte(`{"Slots": 256}`), &back), "scorer: invalid JSON: adapters")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"Running": [1,2,3,4,5,6,7,8,9,10,11,12]}`), &back), "12 adapters; there is room for 11")
}
