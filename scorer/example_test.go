package scorer_test

import (
	"fmt"
	"math"

	"github.com/warmroute/warmroute/scorer"
)

// A scorer of one's own: the share of a budget that is left, by endpoint slot.
func ExampleFunc() {
	left := map[int]float64{1: 0.9, 2: 0.1}
	budget := scorer.Func(func(in *scorer.Input, out []float64) {
		for i := range in.Candidates {
			share, ok := left[in.Candidates[i].Endpoint.Slot()]
			if !ok {
				share = math.NaN() // no opinion
			}
			out[i] = share
		}
	})
	// Give it to picker.Options.Scorers, with a weight. In a test it stands alone:
	in := scorer.Input{Candidates: []scorer.Resolved{{Endpoint: 1}, {Endpoint: 2}, {Endpoint: 3}}}
	out := make([]float64, len(in.Candidates))
	budget.Score(&in, out)
	fmt.Println(out)
	// Output: [0.9 0.1 NaN]
}
