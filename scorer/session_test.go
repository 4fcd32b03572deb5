package scorer_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

func TestSessionIsSharedByRoutersThatShareNothing(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	candidates := func(order []int) []scorer.Resolved {
		cs := make([]scorer.Resolved, len(order))
		for i, n := range order {
			// The handle is of this router alone.
			cs[i] = scorer.Resolved{Endpoint: prefixindex.Endpoint(i + 1), Name: names[n], Eligible: true}
		}
		return cs
	}
	const sessions = 4_000
	count := map[string]int{}
	for k := range sessions {
		in := scorer.Input{Request: &scorer.Request{Session: fmt.Sprint("session-", k)}}
		var first, second string
		for round, order := range [][]int{{0, 1, 2, 3}, {2, 0, 3, 1}} {
			in.Candidates = candidates(order)
			var a, b string
			for i, v := range run(scorer.Session{}, in) {
				switch v {
				case 1:
					a = in.Candidates[i].Name
				case 0.5:
					b = in.Candidates[i].Name
				default:
					require.Zero(t, v)
				}
			}
			require.NotEmpty(t, a)
			require.NotEmpty(t, b)
			if round == 1 {
				require.Equal(t, first, a)
				require.Equal(t, second, b)
			}
			first, second = a, b
		}
		count[first]++

		// Without the first, the second has it; without another, nothing changes.
		for i, c := range in.Candidates {
			in.Candidates[i].Eligible = false
			want := first
			if c.Name == first {
				want = second
			}
			for k, v := range run(scorer.Session{}, in) {
				if in.Candidates[k].Eligible {
					require.Equal(t, in.Candidates[k].Name == want, v == 1)
				}
			}
			in.Candidates[i].Eligible = true
		}
	}
	for _, name := range names { // 1,000 each, within 120: 4.4 standard deviations
		require.InDelta(t, sessions/4, count[name], 120, "%v", count)
	}
}

func TestSessionEdges(t *testing.T) {
	one := []scorer.Resolved{{Endpoint: 1, Eligible: true}}
	equalScores(t, []float64{1}, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{Session: "s"}, Candidates: one}))
	equalScores(t, []float64{1}, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{}, Candidates: one}))
	equalScores(t, []float64{1}, run(scorer.Session{}, scorer.Input{Candidates: one}))
	equalScores(t, nil, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{Session: "s"}}))
	one[0].Eligible = false
	equalScores(t, []float64{0}, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{Session: "s"}, Candidates: one}))
}
