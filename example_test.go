package warmroute_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// The whole library around one request, with fake engines in place of real ones.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ix, _ := prefixindex.New(prefixindex.Options{}) // errors: see examples/quickstart
	pk, _ := picker.New(picker.Options{Index: ix})

	// For each engine: join, and follow its events.
	engines := []*enginetest.Engine{newEngine(), newEngine()}
	var candidates []scorer.Candidate
	var subs []*kvevents.Subscriber
	for i, e := range engines {
		ep, _ := ix.Join(fmt.Sprintf("engine %d", i))
		sub, _ := kvevents.NewSubscriber(kvevents.SubscriberOptions{
			Index: ix, Endpoint: ep, Model: "llama", Source: e.Subscribe(0),
		})
		go sub.Run(ctx)                                                 //nolint:errcheck // nil when ctx ends
		candidates = append(candidates, scorer.Candidate{Endpoint: ep}) // and Signals, from /metrics
		subs = append(subs, sub)
	}
	prompt := slices.Repeat([]uint32{7}, 4_000) // token ids, as the engine counts them
	_, _ = engines[1].Generate(ctx, enginetest.Request{Prompt: prompt, MaxTokens: 1})
	for subs[1].Stats().Batches == 0 {
		time.Sleep(time.Millisecond)
	}

	// For each request: pick, forward, report.
	var p prefixindex.Prompt
	p.Reset(prefixindex.Scope{Model: "llama"}, append(prompt, 1, 2, 3))
	d, err := pk.Pick(&picker.Call{Prompt: &p, Candidates: candidates})
	if err != nil { // ErrNoCandidates: 503; ErrOverloaded: 429
		return
	}
	defer d.Done(picker.Outcome{Result: picker.OK})
	cached, _ := d.CachedTokens.Get()
	fmt.Printf("engine %d has %v of %d tokens\n", d.Index, cached, d.PromptTokens)
	d.FirstToken() // when the reply begins
	// Output:
	// engine 1 has 4000 of 4003 tokens
}

func newEngine() *enginetest.Engine {
	e, err := enginetest.New(enginetest.Options{Model: "llama", PrefillTokensPerSecond: 1e6})
	if err != nil {
		panic(err)
	}
	return e
}
