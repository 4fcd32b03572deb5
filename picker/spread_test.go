package picker_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Three equal endpoints, 300 distinct prompts that end at once: 100 each, within 30,
// which is 3.7 standard deviations of a fair draw.
func TestTiesAreFair(t *testing.T) {
	pk := newPicker(t, picker.Options{Seed: 7})
	var count [3]int
	for range 300 {
		d, err := pk.Pick(&picker.Call{Candidates: endpoints(3), Request: scorer.Request{PromptTokens: 4_000}})
		require.NoError(t, err)
		count[d.Index]++
		d.Done(picker.Outcome{})
	}
	for i, n := range count {
		require.InDelta(t, 100, n, 30, "endpoint %d of %v", i, count)
	}
	require.Equal(t, uint64(300), pk.Stats().Ties)
}

// Equal fallbacks are drawn too: 4 equal endpoints, 1,200 picks, each is the first
// fallback 300 times, within 60, which is 4 standard deviations.
func TestEqualFallbacksAreFair(t *testing.T) {
	pk := newPicker(t, picker.Options{Seed: 7, Scorers: only(0.5, 0.5, 0.5, 0.5)})
	var count [4]int
	for range 1_200 {
		d, err := pk.Pick(&picker.Call{Candidates: endpoints(4)})
		require.NoError(t, err)
		f, ok := d.Fallback(0)
		require.True(t, ok)
		require.NotEqual(t, d.Index, f.Index)
		count[f.Index]++
	}
	for i, n := range count {
		require.InDelta(t, 300, n, 60, "endpoint %d of %v", i, count)
	}
}

// Nearly equal is equal within the band, and not beyond it.
func TestBand(t *testing.T) {
	for name, c := range map[string]struct {
		band float64
		tied int
	}{"default 0.01": {0, 2}, "none": {-1, 1}, "wide": {0.3, 3}, "all": {1, 4}} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{Scorers: only(0.9, 0.893, 0.7, 0), Select: picker.Select{Band: c.band}})
			seen := map[int]bool{}
			for range 200 {
				var rec picker.Record
				d, err := pk.Pick(&picker.Call{Candidates: endpoints(4), Record: &rec})
				require.NoError(t, err)
				require.Equal(t, c.tied, rec.Tied)
				seen[d.Index] = true
			}
			require.Len(t, seen, c.tied)
		})
	}
}

func TestSeedMakesPicksRepeatable(t *testing.T) {
	sequence := func(seed uint64) (picks []int) {
		pk := newPicker(t, picker.Options{Seed: seed})
		for range 50 {
			d, err := pk.Pick(&picker.Call{Candidates: endpoints(8)})
			require.NoError(t, err)
			picks = append(picks, d.Index)
		}
		return picks
	}
	require.Equal(t, sequence(3), sequence(3))
	require.NotEqual(t, sequence(3), sequence(4))
}

// burst releases 64 goroutines at once, each with one pick among 8 endpoints whose
// signals are frozen, and returns how many each got and who was first. The picks are
// dealt to that many pickers, which share a ledger.
func burst(t *testing.T, pickers int, seed uint64, cs []scorer.Candidate, prompt int) (count [8]int, first int) {
	ledger := newLedger(t)
	pks := make([]*picker.Picker, pickers)
	for i := range pks {
		pks[i] = newPicker(t, picker.Options{Seed: seed, Ledger: ledger})
	}
	start := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range 64 {
		wg.Go(func() {
			call := picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: prompt}}
			<-start
			d, err := pks[i%pickers].Pick(&call)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			count[d.Index]++
			if d.Pick == 1 {
				first = d.Index
			}
		})
	}
	close(start)
	wg.Wait()
	return count, first
}

const rounds = 200

func atLeastFourProcs(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(before, 4))
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// Bursts see one snapshot of the metrics, and spread all the same: within 2 of the
// mean of 8, in every round.
func TestBurstSpreads(t *testing.T) {
	atLeastFourProcs(t)
	for name, c := range map[string]struct{ held, pickers int }{
		"nobody has the prefix":   {0, 1},
		"all have it":             {6_992, 1},
		"two pickers, one ledger": {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cs := endpoints(8)
			for i := range cs {
				cs[i].Cached = scorer.Holds(prefixindex.Held{GPU: c.held})
			}
			for round := range rounds {
				count, _ := burst(t, c.pickers, uint64(round+1), cs, 7_000)
				for i, n := range count {
					require.InDelta(t, 8, n, 2, "round %d, endpoint %d of %v", round, i, count)
				}
			}
		})
	}
}

// An endpoint that alone has the prefix gets the first pick of a burst, and more than its
// share of 8, but no more than twice that.
func TestBurstOverALoneHolder(t *testing.T) {
	atLeastFourProcs(t)
	cs := endpoints(8)
	cs[5].Cached = scorer.Holds(prefixindex.Held{GPU: 6_992})
	for round := range rounds {
		count, first := burst(t, 1, uint64(round+1), cs, 7_000)
		require.Equal(t, 5, first, "round %d", round)
		require.GreaterOrEqual(t, count[5], 10, "round %d: %v", round, count)
		require.LessOrEqual(t, count[5], 16, "round %d: %v", round, count)
		if round == 0 {
			t.Log(count)
		}
	}
}

// A holder with twelve requests in flight loses to idle ones.
func TestHolderOfThePrefixDoesNotGetEverything(t *testing.T) {
	pk := newPicker(t, picker.Options{})
	cs := endpoints(3)
	cs[0].Cached = scorer.Holds(prefixindex.Held{GPU: 6_992})
	alone := cs[:1]
	for range 12 {
		_, err := pk.Pick(&picker.Call{Candidates: alone, Request: scorer.Request{PromptTokens: 7_000}})
		require.NoError(t, err)
	}
	d, err := pk.Pick(&picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: 7_000}})
	require.NoError(t, err)
	require.NotEqual(t, 0, d.Index)
}

// Nothing is cached anywhere: the order follows load.
func TestNobodyCachedFollowsLoad(t *testing.T) {
	pk := newPicker(t, picker.Options{Scorers: []picker.Weighted{
		{Name: "prefix", Scorer: scorer.Prefix{}, Weight: 4},
		{Name: "load", Scorer: scorer.LoadRequests{}, Weight: 1},
	}})
	cs := endpoints(3)
	for i, n := range []float64{5, 0, 10} {
		cs[i].InFlight.Requests = scorer.Known(n)
		cs[i].Cached = scorer.Holds(prefixindex.Held{})
	}
	d, err := pk.Pick(&picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: 7_000}})
	require.NoError(t, err)
	require.Equal(t, 1, d.Index)
	f, _ := d.Fallback(0)
	require.Equal(t, 0, f.Index)
}
