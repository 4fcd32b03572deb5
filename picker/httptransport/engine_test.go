package httptransport_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
)

// Text prompts before engines with events: each turn goes where the last one was, and as
// much is cached there as was predicted.
func TestConversation(t *testing.T) {
	var urls []string
	var engines []*enginetest.Engine
	for range 3 {
		engine, err := enginetest.New(enginetest.Options{
			Model: "m", PrefillTokensPerSecond: 1e9, DecodeStep: time.Microsecond,
		})
		require.NoError(t, err)
		t.Cleanup(engine.Close)
		engines = append(engines, engine)
		urls = append(urls, backend(t, engine.ServeHTTP).URL)
	}
	client, err := openaireq.NewClient(openaireq.ClientOptions{Endpoints: func(string) []string { return urls }})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	f := newFleet(t, urls, func(o *httptransport.Options, _ *picker.Options) { o.Tokenizer = client })

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, len(engines))
	batches := func() (published, applied int) { return }
	for i, engine := range engines {
		sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
			Index: f.index, Endpoint: f.backends[i].Candidate.Endpoint, Model: "m", Source: engine.Subscribe(0),
		})
		require.NoError(t, err)
		go func() { stopped <- sub.Run(ctx) }()
		before := batches
		batches = func() (published, applied int) {
			published, applied = before()
			return published + len(engine.Published(0)), applied + int(sub.Stats().Batches)
		}
	}
	defer func() {
		cancel()
		for range engines {
			require.NoError(t, <-stopped)
		}
	}()

	text := strings.Repeat("some words of context ", 20)
	for turn := range 5 {
		stream := ""
		if turn%2 == 1 {
			stream = `,"stream":true,"stream_options":{"include_usage":true}`
		}
		_, answer := post(t, f, "http://x", fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":8%s}`, text, stream))
		f.results(t, turn+1)
		e := f.ended[turn]
		reported, known := e.Outcome.CachedTokens.Get()
		require.True(t, known, answer)
		predicted, _ := e.Decision.CachedTokens.Get()
		require.InDelta(t, predicted, reported, 0)
		require.Equal(t, turn > 0, reported > 0)
		require.Equal(t, f.ended[0].Decision.Endpoint, e.Decision.Endpoint)
		require.Equal(t, turn%2 == 1, e.FirstToken > 0, "only a stream shows it")
		require.Equal(t, picker.OK, e.Outcome.Result)
		require.Eventually(t, func() bool {
			published, applied := batches()
			return published == applied
		}, 5*time.Second, time.Millisecond)
		text += fmt.Sprintf("and then came number %d, ", turn)
	}
	require.EqualValues(t, 5, client.Stats().Calls)
	require.Positive(t, client.Stats().Spent)
	require.Zero(t, f.Stats().Untokenized)

	// Where the tokens cannot be known, load alone decides, and that is counted.
	post(t, f, "http://x", `{"model":"m","prompt":["one","two"],"max_tokens":8}`)
	require.EqualValues(t, 1, f.Stats().Untokenized)
}
