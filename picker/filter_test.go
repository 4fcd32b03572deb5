package picker_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// kept returns what a filter keeps of eligible candidates.
func kept(f picker.Filter, in scorer.Input) []bool {
	keep := make([]bool, len(in.Candidates))
	for i := range keep {
		keep[i] = in.Candidates[i].Eligible
	}
	f.Filter(&in, keep)
	return keep
}

func TestLabel(t *testing.T) {
	const prefill, decode, gold, drained = 1, 2, 4, 8
	cs := []scorer.Resolved{
		{Eligible: true},
		{Eligible: true, Labels: prefill},
		{Eligible: true, Labels: decode | gold},
		{Eligible: true, Labels: prefill | decode | drained},
	}
	for name, c := range map[string]struct {
		f    picker.Label
		want []bool
	}{
		"all":          {picker.Label{All: decode | gold}, []bool{false, false, true, false}},
		"any":          {picker.Label{Any: prefill | gold}, []bool{false, true, true, true}},
		"none":         {picker.Label{None: drained | gold}, []bool{true, true, false, false}},
		"all together": {picker.Label{All: decode, Any: prefill | gold, None: drained}, []bool{false, false, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.f.Validate())
			require.Equal(t, c.want, kept(c.f, scorer.Input{Candidates: cs}))
		})
	}
	for _, f := range []picker.Label{{}, {All: 3, None: 2}, {Any: 2, None: 3}} {
		require.Error(t, f.Validate())
	}
}

func TestMaxSignal(t *testing.T) {
	f := picker.MaxSignal{Field: scorer.CacheUse, Max: 0.95}
	require.NoError(t, f.Validate())
	cs := make([]scorer.Resolved, 5)
	for i, use := range []float64{0, 0.94, 0.95, math.NaN(), 1} {
		cs[i].Eligible = true
		cs[i].Signals.CacheUse = scorer.Known(use)
	}
	cs[4].Stale = true
	require.Equal(t, []bool{true, true, false, true, true}, kept(f, scorer.Input{Candidates: cs}))
	require.ErrorContains(t, picker.MaxSignal{Max: math.NaN()}.Validate(), "MaxSignal.Max is NaN")
	require.ErrorContains(t, picker.MaxSignal{Field: 100}.Validate(), "Field is 100")
}

func TestAffinityGate(t *testing.T) {
	type candidate struct{ held, requests, tokens int }
	for name, c := range map[string]struct {
		f      picker.AffinityGate
		prompt int
		cs     []candidate
		want   []bool
	}{
		"only the warm":            {picker.AffinityGate{MaxTokens: 20_000}, 1_000, []candidate{{900, 0, 0}, {100, 0, 0}}, []bool{true, false}},
		"nobody is warm":           {picker.AffinityGate{MaxTokens: 20_000}, 1_000, []candidate{{700, 0, 0}, {100, 0, 0}}, []bool{true, true}},
		"all are warm":             {picker.AffinityGate{MaxTokens: 20_000}, 1_000, []candidate{{900, 0, 90_000}, {960, 0, 0}}, []bool{true, true}},
		"within the limit":         {picker.AffinityGate{MaxTokens: 20_000}, 1_000, []candidate{{900, 0, 20_000}, {100, 0, 0}}, []bool{true, false}},
		"too many tokens":          {picker.AffinityGate{MaxTokens: 20_000}, 1_000, []candidate{{900, 0, 20_001}, {100, 0, 0}}, []bool{true, true}},
		"the least loaded decides": {picker.AffinityGate{MaxTokens: 20_000}, 1_000, []candidate{{900, 0, 90_000}, {900, 0, 9_000}, {0, 0, 0}}, []bool{true, true, false}},
		"too many requests":        {picker.AffinityGate{MaxRequests: 8}, 1_000, []candidate{{900, 9, 0}, {100, 0, 0}, {0, 20, 0}}, []bool{true, true, true}},
		"a share of one's own":     {picker.AffinityGate{Share: 0.5, MaxRequests: 8}, 1_000, []candidate{{512, 0, 0}, {496, 0, 0}}, []bool{true, false}},
		"length not known":         {picker.AffinityGate{MaxRequests: 8}, 0, []candidate{{500, 0, 0}, {0, 0, 0}}, []bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.f.Validate())
			cs := make([]scorer.Resolved, len(c.cs))
			for i, x := range c.cs {
				cs[i] = scorer.Resolved{Eligible: true, Held: prefixindex.Held{GPU: x.held, CPU: x.held, Any: x.held},
					InFlight: scorer.InFlight{Requests: scorer.Known(float64(x.requests)), Tokens: scorer.Known(float64(x.tokens))}}
			}
			require.Equal(t, c.want, kept(c.f, scorer.Input{PromptTokens: c.prompt, BlockTokens: 16, Candidates: cs}))
		})
	}
	for want, f := range map[string]picker.AffinityGate{
		"Share is 1":        {Share: 1, MaxRequests: 1},
		"Share is NaN":      {Share: math.NaN(), MaxRequests: 1},
		"MaxTokens is -1":   {MaxTokens: -1},
		"MaxRequests is -1": {MaxRequests: -1},
		"neither MaxTokens": {},
	} {
		require.ErrorContains(t, f.Validate(), want)
	}
}

// Skipped and doubted candidates do not hold the gate shut.
func TestAffinityGateLooksAtWhoCanWin(t *testing.T) {
	f := picker.AffinityGate{MaxRequests: 8}
	warm := prefixindex.Held{GPU: 960, CPU: 960, Any: 960}
	cs := []scorer.Resolved{{Held: warm}, {Eligible: true}, {Eligible: true, Held: warm, Doubt: 0.5}}
	require.Equal(t, []bool{false, true, true}, kept(f, scorer.Input{PromptTokens: 1_000, BlockTokens: 16, Candidates: cs}))
}

// A policy of conditions, caps and scores, all through a pick.
func TestFiltersInAPick(t *testing.T) {
	now := time.Unix(1_000, 0)
	pk := newPicker(t, picker.Options{
		Clock:   func() time.Time { return now },
		Filters: []picker.Named{{Name: "role", Filter: picker.Label{All: 2}}},
		Caps: []picker.Named{
			{Name: "queue", Filter: picker.MaxSignal{Field: scorer.Waiting, Max: 20}},
			{Name: "in flight", Filter: picker.MaxInFlight(64)},
		},
	})
	cs := endpoints(4)
	for i := range cs[1:] {
		cs[i+1].Labels = 2
	}
	cs[1].Signals.Waiting = scorer.Known(20)
	cs[2].InFlight.Requests = scorer.Known(64)
	var rec picker.Record
	d, err := pk.Pick(&picker.Call{Candidates: cs, Record: &rec})
	require.NoError(t, err)
	require.Equal(t, 3, d.Index)
	for i, want := range []string{"role", "queue", "in flight", ""} {
		require.Equal(t, want, rec.Candidates[i].Verdict)
	}
	require.Contains(t, rec.Explain(), "removed by queue")
	require.Contains(t, rec.Explain(), "the only one left of 4")
	winner, err := pk.Replay(&rec)
	require.NoError(t, err)
	require.Equal(t, 3, winner)
	cs[3].Signals.Waiting = scorer.Known(99)
	_, err = pk.Pick(&picker.Call{Candidates: cs})
	require.ErrorIs(t, err, picker.ErrOverloaded)
}
