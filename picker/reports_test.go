package picker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// What users of other routers have reported, each as the smallest case that shows it.

// share sends n requests that do not end, and returns how many each candidate got.
func share(t *testing.T, o picker.Options, cs []scorer.Candidate, prompt, n int) []int {
	pk := newPicker(t, o)
	count := make([]int, len(cs))
	call := picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: prompt}}
	for range n {
		d, err := pk.Pick(&call)
		require.NoError(t, err)
		count[d.Index]++
	}
	return count
}

// Everyone has the prefix, and all scores are equal: one of eight served all.
// (llm-d/llm-d-router #2515) 100 each, within 8.
func TestEqualHoldersShareTheLoad(t *testing.T) {
	cs := endpoints(8)
	for i := range cs {
		cs[i].Cached = scorer.Holds(prefixindex.Held{GPU: 6_992})
	}
	count := share(t, picker.Options{}, cs, 7_000, 800)
	for i, n := range count {
		require.InDelta(t, 100, n, 8, "endpoint %d of %v", i, count)
	}
}

// One shared prefix, eight replicas, no queue anywhere: only two were ever used.
// (llm-d/llm-d-router #355) All are, and the holder has no more than four times its share.
func TestSharedPrefixReachesAllReplicas(t *testing.T) {
	cs := endpoints(8)
	cs[2].Cached = scorer.Holds(prefixindex.Held{GPU: 6_992})
	count := share(t, picker.Options{}, cs, 7_000, 4_096)
	for i, n := range count {
		require.Greater(t, n, 4_096/8/4, "endpoint %d of %v", i, count)
		require.Less(t, n, 4*4_096/8, "endpoint %d of %v", i, count)
	}
}

// Load was counted when the reply began, so that all had none and the first one won.
// (sgl-project/sglang #27547) Four workers, forty prompts of 32,000 tokens: ten each.
func TestLoadIsCountedBeforeTheReplyBegins(t *testing.T) {
	require.Equal(t, []int{10, 10, 10, 10}, share(t, picker.Options{}, endpoints(4), 32_000, 40))
}

// An endpoint that was never scraped had zeros, and ranked best. (llm-d/llm-d-router
// #2822) It is neither best nor worst, and a measured zero is best.
func TestNeverScrapedIsNeitherBestNorWorst(t *testing.T) {
	cs := endpoints(4)
	for i, queue := range []float64{0, 3, 9} {
		cs[i].Signals = scorer.Signals{Waiting: scorer.Known(queue), CacheUse: scorer.Known(0.4)}
	}
	cs[3].Signals = scorer.Signals{}
	var rec picker.Record
	_, err := newPicker(t, picker.Options{}).Pick(&picker.Call{Candidates: cs, Record: &rec})
	require.NoError(t, err)
	sum := func(i int) float64 { return rec.Candidates[i].Sum }
	require.Greater(t, sum(0), sum(3))
	require.Greater(t, sum(3), sum(2))
}

// A tier-weighted score was taken for a number of blocks, and the request went to remote
// prefill. (llm-d/llm-d #1466) Tokens and score are two answers.
func TestTokensAndScoreAreTwoAnswers(t *testing.T) {
	pk := newPicker(t, picker.Options{Scorers: []picker.Weighted{{Name: "prefix", Weight: 1, Scorer: scorer.Prefix{}}}})
	d, err := pk.Pick(&picker.Call{
		Request:    scorer.Request{PromptTokens: 1_760},
		Candidates: []scorer.Candidate{{Endpoint: 1, Cached: scorer.Holds(prefixindex.Held{GPU: 0, CPU: 1_600})}},
	})
	require.NoError(t, err)
	require.Equal(t, scorer.Known(1_600), d.CachedTokens)
	require.InDelta(t, 0.73, d.Score, 0.005)
}

// An unmatched prompt went to the owner of the smallest cache, however loaded.
// (sgl-project/sglang #14532)
func TestUnmatchedPromptGoesByLoad(t *testing.T) {
	cs := loaded(40, 0)
	for i := range cs {
		cs[i].Cached = scorer.Holds(prefixindex.Held{})
	}
	cs[1].Signals.CacheUse = scorer.Known(0.9) // the big cache
	d, err := newPicker(t, picker.Options{}).Pick(&picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: 4_000}})
	require.NoError(t, err)
	require.Equal(t, 1, d.Index)
}

// Hard limits on load differences dropped all affinity, or none of it.
// (vllm-project/aibrix #842) Beyond the gate's limit the scores decide.
func TestBeyondTheGateScoresDecide(t *testing.T) {
	o := picker.Options{Filters: []picker.Named{{Name: "gate", Filter: picker.AffinityGate{MaxRequests: 8}}}}
	for load, want := range map[float64]int{1: 0, 9: 0, 10: 1, 200: 1} {
		cs := loaded(load, 1, 1)
		cs[0].Cached = scorer.Holds(prefixindex.Held{GPU: 960})
		cs[1].Cached = scorer.Holds(prefixindex.Held{GPU: 320})
		d, err := newPicker(t, o).Pick(&picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: 1_000}})
		require.NoError(t, err)
		if want == 0 {
			require.Equal(t, 0, d.Index, "load %v", load)
		} else {
			require.NotEqual(t, 0, d.Index, "load %v", load)
		}
	}
}

// Missing calls of Done are to be seen. (vllm-project/router #179: a path that never
// counted load sent 480 of 480 requests to one engine)
func TestForgottenReleasesShow(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	for range 100 {
		send(t, pk, 1, 10)
	}
	require.Equal(t, 100, l.Stats().Open)
}

// Sessions pinned by hashing stayed with a saturated engine. (PrimeIntellect-ai/prime-rl
// #3255) Three routers that share nothing agree on where a session goes, and a bound
// breaks the pin; there is no state to lose.
func TestBoundBreaksTheSessionsPin(t *testing.T) {
	f := newFleet(t, "a", "b", "c", "d")
	o := picker.Options{
		Index:   f.ix,
		Scorers: []picker.Weighted{{Name: "session", Weight: 1, Scorer: scorer.Session{}}},
		Select:  picker.Select{Bound: 1.25},
	}
	home := func(cs []scorer.Candidate) int {
		first := -1
		for router := range 3 {
			o.Seed = uint64(router + 1)
			d, err := newPicker(t, o).Pick(&picker.Call{Candidates: cs, Request: scorer.Request{Session: "s-17"}})
			require.NoError(t, err)
			require.True(t, first < 0 || first == d.Index, "routers agree")
			first = d.Index
		}
		return first
	}
	cs := f.candidates("a", "b", "c", "d")
	for i := range cs {
		cs[i].InFlight.Requests = scorer.Known(3)
	}
	pinned := home(cs)
	cs[pinned].InFlight.Requests = scorer.Known(60)
	second := home(cs)
	require.NotEqual(t, pinned, second)

	// A session whose endpoint goes has its second, and its first again once that is back.
	cs[pinned].InFlight.Requests = scorer.Known(3)
	cs[pinned].Skip = true
	require.Equal(t, second, home(cs))
	cs[pinned].Skip = false
	require.Equal(t, pinned, home(cs))
}

// Two routers with the same view of the fleet come to the same decision, as long as it
// is no tie.
func TestRoutersWithTheSameViewAgree(t *testing.T) {
	cs := endpoints(4)
	for i := range cs {
		cs[i].Cached = scorer.Holds(prefixindex.Held{GPU: 160 * i})
		cs[i].Signals.Waiting = scorer.Known(float64(i))
	}
	call := picker.Call{Candidates: cs, Request: scorer.Request{PromptTokens: 1_000}}
	a, err := newPicker(t, picker.Options{Seed: 1}).Pick(&call)
	require.NoError(t, err)
	b, err := newPicker(t, picker.Options{Seed: 2}).Pick(&call)
	require.NoError(t, err)
	require.Equal(t, a.Index, b.Index)
	require.Equal(t, a.Score, b.Score)
}

// New prefixes are to be spread: the name of their group as the session does it, in every
// router the same way. (llm-d/llm-d-router #346) 64 groups over 4 endpoints, 16 each
// within 9.
func TestNewGroupsSpread(t *testing.T) {
	f := newFleet(t, "a", "b", "c", "d")
	pk := newPicker(t, picker.Options{Index: f.ix, Scorers: append(picker.DefaultScorers(),
		picker.Weighted{Name: "session", Weight: 0.5, Scorer: scorer.Session{}})})
	count := make([]int, 4)
	for group := range 64 {
		d, err := pk.Pick(&picker.Call{Prompt: &f.prompt, Candidates: f.candidates("a", "b", "c", "d"),
			Request: scorer.Request{Session: fmt.Sprint("group-", group)}})
		require.NoError(t, err)
		d.Done(picker.Outcome{})
		count[d.Index]++
	}
	for i, n := range count {
		require.InDelta(t, 16, n, 9, "endpoint %d of %v", i, count)
	}
}
