package picker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// The situations that a router of LLM requests must get right, each with made-up
// candidates.

func idle() scorer.Signals {
	return scorer.Signals{Waiting: scorer.Known(0), Running: scorer.Known(0), CacheUse: scorer.Known(0.2)}
}

func pickOne(t *testing.T, o picker.Options, c *picker.Call) (picker.Decision, *picker.Record) {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	pk, err := picker.New(o)
	require.NoError(t, err)
	c.Record = new(picker.Record)
	d, err := pk.Pick(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		d.Done(picker.Outcome{})
		if t.Failed() {
			t.Log(c.Record.Explain())
		}
	})
	return d, c.Record
}

func TestWarmAgentPrefixWins(t *testing.T) {
	d, _ := pickOne(t, picker.Options{}, &picker.Call{
		Request: scorer.Request{PromptTokens: 7_050},
		Candidates: []scorer.Candidate{
			{Endpoint: 1, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{GPU: 7_000})},
			{Endpoint: 2, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{})},
		},
	})
	require.Equal(t, 0, d.Index)
	saved, ok := d.CachedTokens.Get()
	require.True(t, ok)
	require.Equal(t, 7_000.0, saved)
}

func TestLongQueueAtTheWarmOneLoses(t *testing.T) {
	for waiting, want := range map[float64]int{0: 0, 2: 0, 6: 0, 20: 1, 40: 1} {
		busy := idle()
		busy.Waiting = scorer.Known(waiting)
		d, _ := pickOne(t, picker.Options{}, &picker.Call{
			Request: scorer.Request{PromptTokens: 7_050},
			Candidates: []scorer.Candidate{
				{Endpoint: 1, Signals: busy, Cached: scorer.Holds(prefixindex.Held{GPU: 7_000})},
				{Endpoint: 2, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{})},
			},
		})
		require.Equal(t, want, d.Index, "%v waiting", waiting)
	}
}

// A new session of a user who was last on A shares its system prompt with sessions on B.
func TestSharedSystemPromptWins(t *testing.T) {
	d, _ := pickOne(t, picker.Options{}, &picker.Call{
		Request: scorer.Request{PromptTokens: 5_400, Session: "user-7"},
		Candidates: []scorer.Candidate{
			{Endpoint: 1, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{GPU: 48})},
			{Endpoint: 2, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{GPU: 4_992})},
		},
	})
	require.Equal(t, 1, d.Index)
}

// Nothing is cached on an engine that has restarted, however much it had: the other one
// has a little, and wins.
func TestRestartedEngineIsNotCredited(t *testing.T) {
	prompt := scorer.Request{PromptTokens: 7_050}
	before := []scorer.Candidate{
		{Endpoint: 1, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{GPU: 7_000, View: prefixindex.ViewLive})},
		{Endpoint: 2, Signals: idle(), Cached: scorer.Holds(prefixindex.Held{GPU: 1_024, View: prefixindex.ViewLive})},
	}
	d, _ := pickOne(t, picker.Options{}, &picker.Call{Request: prompt, Candidates: before})
	require.Equal(t, 0, d.Index)

	after := append([]scorer.Candidate(nil), before...)
	after[0].Cached = scorer.Holds(prefixindex.Held{Rank: -1, View: prefixindex.ViewLive})
	d, rec := pickOne(t, picker.Options{}, &picker.Call{Request: prompt, Candidates: after})
	require.Equal(t, 1, d.Index)
	require.Equal(t, 1, rec.Tied, "not by chance")
}

// Signals whose age is past the limit do not make an endpoint look idle.
func TestStaleIdleEndpointIsNotPreferred(t *testing.T) {
	now := time.Unix(1_000, 0)
	stale, fresh := idle(), idle()
	stale.At, fresh.At = now.Add(-30*time.Second), now
	fresh.Waiting = scorer.Known(2)
	_, rec := pickOne(t, picker.Options{Clock: func() time.Time { return now }}, &picker.Call{
		Candidates: []scorer.Candidate{{Endpoint: 1, Signals: stale}, {Endpoint: 2, Signals: fresh}},
	})
	require.Equal(t, rec.Candidates[0].Sum, rec.Candidates[1].Sum)
}
