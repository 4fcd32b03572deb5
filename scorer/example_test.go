package scorer_test

import (
	"fmt"
	"math"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/scorer"
)

// A scorer of one's own: the share of a rate limit that is left at each endpoint, against
// the queues there.
func ExampleFunc() {
	left := map[string]float64{"big": 0.9, "small": 0.1}
	names := []string{"small", "big", "new"} // by place in the candidates
	budget := scorer.Func(func(in *scorer.Input, out []float64) {
		for i := range in.Candidates {
			share, known := left[names[i]]
			if !known {
				share = math.NaN() // no opinion: the mean of the others counts
			}
			out[i] = share
		}
	})
	pk, err := picker.New(picker.Options{Scorers: []picker.Weighted{
		{Name: "queue", Weight: 1, Scorer: scorer.Queue{}},
		{Name: "budget", Weight: 1, Scorer: budget},
	}})
	if err != nil {
		panic(err)
	}
	var rec picker.Record
	d, err := pk.Pick(&picker.Call{
		Candidates: []scorer.Candidate{
			{Endpoint: 1, Signals: scorer.Signals{Waiting: scorer.Known(0)}},
			{Endpoint: 2, Signals: scorer.Signals{Waiting: scorer.Known(1)}},
			{Endpoint: 3, Signals: scorer.Signals{Waiting: scorer.Known(4)}},
		},
		Record: &rec,
	})
	if err != nil {
		panic(err)
	}
	defer d.Done(picker.Outcome{})
	fmt.Println(names[d.Index])
	for i, name := range names {
		queue, own := rec.Scores[2*i], rec.Scores[2*i+1]
		fmt.Printf("%5s: queue %.1f, budget %.1f, sum %.2f\n", name, queue.Used, own.Used, rec.Candidates[i].Sum)
	}
	// Output:
	// big
	// small: queue 1.0, budget 0.1, sum 0.55
	//   big: queue 0.8, budget 0.9, sum 0.85
	//   new: queue 0.5, budget 0.5, sum 0.50
}
