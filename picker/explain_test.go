package picker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

func TestExplain(t *testing.T) {
	held := func(tokens int) scorer.Cached { return scorer.Holds(prefixindex.Held{GPU: tokens}) }
	for name, c := range map[string]struct {
		o          picker.Options
		candidates []scorer.Candidate
		prompt     int
		want       []string
		not        []string
	}{
		"only one": {
			candidates: endpoints(1),
			want:       []string{"candidate 0 wins with 0.969 of 1; it was the only one offered.\n", "of 0.821"},
			not:        []string{"ahead", "the rest", "For it", "cached"},
		},
		"the warm one": {
			candidates: []scorer.Candidate{{Endpoint: 1, Cached: held(64)}, {Endpoint: 2, Cached: held(16)}},
			prompt:     100, o: picker.Options{Scorers: []picker.Weighted{{"prefix", scorer.Prefix{}, 1}}},
			want: []string{
				"candidate 0 wins with 0.640 of 1, 0.480 ahead of candidate 1.\n",
				"It has 64 of the prompt's 100 tokens cached and computes 36, which saves 48 tokens against candidate 1.\n",
				"For it: prefix +0.480.\n",
			},
			not: []string{"Against", "waiting"},
		},
		"the cold one": {
			candidates: []scorer.Candidate{{Endpoint: 1, Cached: held(64)}, {Endpoint: 2, Cached: held(0)}},
			prompt:     100, o: picker.Options{Scorers: only(0, 1)},
			want: []string{"It has none of the prompt cached and computes all of its 100 tokens, 64 more than candidate 0 would.\n"},
		},
		"nothing known": {
			candidates: endpoints(2), prompt: 100, o: picker.Options{Scorers: only(1, 0)},
			want: []string{"It is not known to have any of the prompt cached and computes up to 100 tokens, as many as candidate 1 would.\n"},
			not:  []string{"cached  "},
		},
		"a tie": {
			candidates: endpoints(3), o: picker.Options{Scorers: only(1, 1, 0.5)},
			want: []string{"wins with 1.000 of 1, drawn among 2 that are within 0.01 of the best.\n"},
		},
		"temperature": {
			candidates: endpoints(3), o: picker.Options{Scorers: only(1, 1, 0.5), Select: picker.Select{Temperature: 0.5}},
			want: []string{", drawn among 3 at temperature 0.5.\n"},
		},
		"over the bound": {
			candidates: loaded(20, 0), o: picker.Options{Scorers: only(1, 0.25), Select: picker.Select{Bound: 1.2}},
			want: []string{
				"candidate 1 wins with 0.250 of 1; candidate 0 has 1.000 and was over the bound on load.\n",
				"Against it: given -0.750.\n", "over bound",
			},
		},
		"work that waits": {
			candidates: []scorer.Candidate{
				{Endpoint: 1, Cached: held(64), InFlight: scorer.InFlight{Requests: scorer.Known(1), Tokens: scorer.Known(12_000)}},
				{Endpoint: 2, InFlight: scorer.InFlight{Requests: scorer.Known(1)}},
			},
			prompt: 100, o: picker.Options{Scorers: only(1, 0)},
			want: []string{
				"tokens in flight  with this prompt",
				"          12,000            12,036  winner\n",
				"               ?                 ?\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Seed = 1
			_, rec := pickOne(t, c.o, &picker.Call{Request: scorer.Request{PromptTokens: c.prompt}, Candidates: c.candidates})
			text := rec.Explain()
			for _, want := range c.want {
				require.Contains(t, text, want)
			}
			for _, not := range c.not {
				require.NotContains(t, text, not)
			}
		})
	}
}

// The best of many candidates are shown, and how many are not.
func TestExplainOfALargeFleet(t *testing.T) {
	scores := make([]float64, 1_000)
	for i := range scores {
		scores[i] = float64(i) / 1_000
	}
	cs := endpoints(1_000)
	cs[500].Skip = true
	_, rec := pickOne(t, picker.Options{Scorers: only(scores...), Select: picker.Select{Band: -1}}, &picker.Call{Candidates: cs})
	text := rec.Explain()
	for i := range 16 {
		require.Contains(t, text, fmt.Sprintf("candidate %d ", 999-i))
	}
	require.NotContains(t, text, "candidate 983 ")
	require.Contains(t, text, "- 984 more candidates are in the record.\n")
	require.Less(t, len(text), 4_000)
}
