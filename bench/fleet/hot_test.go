package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A prefix that is asked for beyond what its holder can prefill gains holders, as many as
// its rate needs, within 1, and stops being sent to them when it cools.
func TestHotPrefixGainsAndLosesHolders(t *testing.T) {
	const (
		question    = 800
		utilisation = 0.6 // share of a holder's time that goes into these prompts
		least       = 0.1 // and that makes it one
		warm, hot   = 10 * time.Second, 40 * time.Second
		end         = 70 * time.Second
	)
	c := defaults()
	c.engines, c.spread = 24, 0
	prefill := question/c.speed.prefillRate + c.speed.step.Seconds() // where the prefix is
	pds, err := choose("policy", policies(), "default", func(p *policyDef) string { return p.name })
	require.NoError(t, err)
	for _, times := range []float64{2, 5, 10} {
		rate := times / prefill
		sc := scenario{begin: func(s *sim) {
			prefix := s.text(1, 8_000)
			send := func() {
				r := s.ask(s.rnd.Uint64(), 8, prefix, s.fresh(question))
				r.kind = 1
				s.submit(r)
			}
			s.poisson(0, end, 0.5, send)
			s.poisson(warm, hot, rate, send)
		}}
		for seed := range uint64(2) {
			res, err := run(c, &sc, &pds[0], seed)
			require.NoError(t, err)
			want := math.Ceil(rate * prefill / utilisation)
			got := holders(res, hot-10*time.Second, hot, least/prefill)
			t.Logf("%v times, seed %d: %v holders, want %v", times, seed, got, want)
			require.InDelta(t, want, got, 1)
			require.LessOrEqual(t, holders(res, hot+10*time.Second, end, 0), 2, "cool again")
		}
	}
}

// holders returns how many engines were sent more requests of kind 1 than rate a second.
func holders(res *result, from, to time.Duration, rate float64) (n int) {
	for i := range res.hot[0] {
		sent := 0
		for _, b := range res.hot[from/binWidth : min(int(to/binWidth), len(res.hot))] {
			sent += b[i]
		}
		if float64(sent) > rate*(to-from).Seconds() {
			n++
		}
	}
	return n
}
