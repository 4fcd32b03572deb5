package picker_test

import (
	"fmt"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// A router's decision under test, with made-up candidates: no engine, no index, no
// clock.
func ExamplePicker_Pick_fakes() {
	pk, err := picker.New(picker.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	warm := scorer.Holds(prefixindex.Held{GPU: 6_992})
	for _, waiting := range []float64{0, 10} { // at the warm one
		call := picker.Call{
			Request: scorer.Request{PromptTokens: 7_000},
			Candidates: []scorer.Candidate{
				{Cached: warm, Signals: scorer.Signals{Waiting: scorer.Known(waiting)}},
				{Signals: scorer.Signals{Waiting: scorer.Known(0)}},
			},
		}
		d, err := pk.Pick(&call)
		if err != nil {
			panic(err)
		}
		defer d.Done(picker.Outcome{})
		saved, _ := d.CachedTokens.Get()
		fmt.Printf("%v waiting: candidate %d, which saves %v tokens\n", waiting, d.Index, saved)
	}
	// Output:
	// 0 waiting: candidate 0, which saves 6992 tokens
	// 10 waiting: candidate 1, which saves 0 tokens
}

// A record says why.
func ExampleRecord_Explain() {
	pk, err := picker.New(picker.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	var rec picker.Record
	call := picker.Call{
		Request: scorer.Request{PromptTokens: 7_000},
		Candidates: []scorer.Candidate{
			{Endpoint: 1, Cached: scorer.Holds(prefixindex.Held{GPU: 6_992}), Signals: scorer.Signals{
				Waiting: scorer.Known(2), CacheUse: scorer.Known(0.4)}},
			{Endpoint: 2, Signals: scorer.Signals{Waiting: scorer.Known(0), CacheUse: scorer.Known(0.1)}},
			{Endpoint: 3},
			{Endpoint: 4, Skip: true},
		},
		Record: &rec,
	}
	d, err := pk.Pick(&call)
	if err != nil {
		panic(err)
	}
	defer d.Done(picker.Outcome{})
	fmt.Print(rec.Explain())
	// Output:
	// Pick 1: candidate 0, which scored 0.94 of 1, 0.08 more than candidate 1.
	// It has 6,992 of the prompt's 7,000 tokens cached and computes 8; candidate 1 would compute 7,000.
	// For it: prefix 0.11, load-tokens 0.03. For candidate 1: queue 0.05, memory 0.01.
	//
	//                sum  prefix  queue  memory  load-requests  load-tokens  cached  to compute  waiting  in flight  tokens ahead
	// weight                0.11   0.43    0.03           0.32         0.11
	// candidate 0  0.941    1.00   0.89    0.60           1.00         1.00   6,992           8        2          0             0  winner
	// candidate 1  0.857    0.00   1.00    0.90           1.00         0.70       ?       7,000        0          0             0
	// candidate 2  0.829    0.00  ~0.94   ~0.75           1.00         0.70       ?       7,000        ?          0             0
	// candidate 3      -       -      -       -              -            -       ?       7,000        ?          0             0  skipped
	//
	// - candidate 2: nothing to go by for queue, memory.
	// - ~ marks what was used in place of a score that was missing, stale or out of range.
}
