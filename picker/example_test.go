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
	for _, waiting := range []float64{0, 20} { // at the warm one
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
		d.Done(picker.Outcome{})
		saved, _ := d.CachedTokens.Get()
		fmt.Printf("%v waiting: candidate %d, which saves %v tokens\n", waiting, d.Index, saved)
	}
	// Output:
	// 0 waiting: candidate 0, which saves 6992 tokens
	// 20 waiting: candidate 1, which saves 0 tokens
}

// The life of a request, on an engine that sends no events: what was routed to it stands
// for what it caches.
func ExampleDecision() {
	ix, err := prefixindex.New(prefixindex.Options{})
	if err != nil {
		panic(err)
	}
	engine, err := ix.Join("10.0.0.7:8000")
	if err != nil {
		panic(err)
	}
	other, err := ix.Join("10.0.0.8:8000")
	if err != nil {
		panic(err)
	}
	ledger, err := picker.NewLedger(picker.LedgerOptions{})
	if err != nil {
		panic(err)
	}
	pk, err := picker.New(picker.Options{Index: ix, Ledger: ledger})
	if err != nil {
		panic(err)
	}
	say := func(when string) {
		requests, tokens := ledger.InFlight(engine)
		fmt.Printf("%s: %d in flight, %d tokens to compute\n", when, requests, tokens)
	}

	var prompt prefixindex.Prompt
	prompt.Reset(prefixindex.Scope{Model: "llama"}, make([]uint32, 4_000))
	call := picker.Call{Prompt: &prompt, Candidates: []scorer.Candidate{
		{Endpoint: engine, Signals: scorer.Signals{Waiting: scorer.Known(0)}},
		{Endpoint: other, Signals: scorer.Signals{Waiting: scorer.Known(9)}},
	}}
	d, err := pk.Pick(&call)
	if err != nil { // nothing is in flight
		panic(err)
	}
	say("picked")
	d.FirstToken() // the reply has begun, so the prompt is computed
	say("first token")
	if err := ix.Insert(d.Endpoint, d.Rank, &prompt, -1); err != nil {
		panic(err)
	}
	d.Done(picker.Outcome{Result: picker.OK}) // in a defer, so that it comes on every path
	d.Done(picker.Outcome{Result: picker.OK}) // counted, and changes nothing
	say("done")
	fmt.Println("released", ledger.Stats().Released, "and again", ledger.Stats().DoubleRelease)

	// The next turn of the conversation.
	prompt.Extend(make([]uint32, 4_200))
	d, err = pk.Pick(&call)
	if err != nil {
		panic(err)
	}
	say("next turn")
	reported := scorer.Known(3_984) // from the engine's usage, if it tells
	d.Done(picker.Outcome{Result: picker.OK, CachedTokens: reported})
	c := ledger.Calibration(engine)
	fmt.Println("predicted", c.PredictedTokens, "cached tokens, reported", c.ReportedTokens)
	// Output:
	// picked: 1 in flight, 4000 tokens to compute
	// first token: 1 in flight, 0 tokens to compute
	// done: 0 in flight, 0 tokens to compute
	// released 1 and again 1
	// next turn: 1 in flight, 200 tokens to compute
	// predicted 4000 cached tokens, reported 3984
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
	// candidate 0 wins with 0.973 of 1, 0.099 ahead of candidate 1.
	// It has 6,992 of the prompt's 7,000 tokens cached and computes 8, which saves 6,992 tokens against candidate 1.
	// For it: cost +0.055, prefix +0.051. Against it: memory -0.008.
	//
	//              cached  to compute  waiting  cache use  in flight  cost ms
	// candidate 0   6,992           8        2       40 %          0      201  winner
	// candidate 1       ?       7,000        0       10 %          0      875
	// candidate 2       ?       7,000        ?          ?          0      975
	// candidate 3       ?       7,000        ?          ?          0        ?  skipped
	//
	//                sum    prefix    memory  load-requests      cost
	//               of 1  of 0.051  of 0.026       of 0.103  of 0.821
	// candidate 0  0.973     0.051     0.015          0.103     0.804
	// candidate 1  0.874     0.000     0.023          0.103     0.749
	// candidate 2  0.862     0.000    ~0.019          0.103     0.741
	//
	// - candidate 2: nothing to go by for memory.
	// - ~ marks what was used in place of a score that was missing, stale or out of range.
}
