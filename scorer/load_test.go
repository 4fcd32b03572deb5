package scorer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

func TestLoadRequests(t *testing.T) {
	cs := make([]scorer.Resolved, 3)
	cs[0].InFlight.Requests = known(0)
	cs[1].InFlight.Requests = known(8)
	equalScores(t, []float64{1, 0.5, nan}, run(scorer.LoadRequests{}, scorer.Input{Candidates: cs}))
}

// One prompt of 100,000 tokens is more load than three of 100.
func TestLoadTokensWeighsRequestsByTheirSize(t *testing.T) {
	cs := make([]scorer.Resolved, 2)
	cs[0].InFlight = scorer.InFlight{Requests: known(1), Tokens: known(100_000)}
	cs[1].InFlight = scorer.InFlight{Requests: known(3), Tokens: known(300)}
	got := run(scorer.LoadTokens{}, scorer.Input{PromptTokens: 100, BlockTokens: 16, Candidates: cs})
	require.Less(t, got[0], got[1])
}

func TestLoadTokensCountsWhatThisPromptAdds(t *testing.T) {
	cs := make([]scorer.Resolved, 3)
	for i := range cs {
		cs[i].InFlight.Tokens = known(0)
	}
	cs[0].Held = prefixindex.Held{GPU: 16_384, CPU: 16_384, Any: 16_384}
	cs[2].InFlight.Tokens = scorer.Value{}
	in := scorer.Input{PromptTokens: 16_385, BlockTokens: 16, Candidates: cs}
	equalScores(t, []float64{16_384.0 / 16_385, 16_384.0 / 32_769, nan}, run(scorer.LoadTokens{}, in))
	in.PromptTokens = 0
	equalScores(t, []float64{1, 1, nan}, run(scorer.LoadTokens{}, in))
}
