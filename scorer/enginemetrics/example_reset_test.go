package enginemetrics_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// An engine restarts, and its events do not say so: its page does, and what the index
// knew of its cache is void.
func ExampleTargetOptions() {
	engine, err := enginetest.New(enginetest.Options{Model: "llama"})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()
	ix, err := prefixindex.New(prefixindex.Options{})
	if err != nil {
		panic(err)
	}
	endpoint, err := ix.Join("engine-0")
	if err != nil {
		panic(err)
	}
	subscriber, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: endpoint, Model: "llama", Source: engine.Subscribe(0),
	})
	if err != nil {
		panic(err)
	}
	scraper, err := enginemetrics.New(enginemetrics.Options{Interval: 10 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	target, err := scraper.Add(enginemetrics.TargetOptions{
		URL: server.URL + "/metrics",
		OnReset: func(why enginemetrics.Reset) {
			if err := subscriber.Reset(); err != nil {
				panic(err)
			}
			fmt.Println("reset:", why)
		},
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 2)
	go func() { stopped <- subscriber.Run(ctx) }()
	go func() { stopped <- scraper.Run(ctx) }()

	prompt := make([]uint32, 64)
	if _, err := engine.Generate(ctx, enginetest.Request{Prompt: prompt, MaxTokens: 1}); err != nil {
		panic(err)
	}
	for ix.Stats().Blocks < 4 || target.Report() == nil {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("blocks:", ix.Stats().Blocks)
	if err := engine.Restart(); err != nil {
		panic(err)
	}
	for ix.Stats().Blocks > 0 || scraper.Stats().Restarts == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("blocks:", ix.Stats().Blocks)

	stop()
	for range 2 {
		if err := <-stopped; err != nil {
			panic(err)
		}
	}
	// Output:
	// blocks: 4
	// reset: restarted
	// blocks: 0
}
