package browser_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/debugview"
	"github.com/warmroute/warmroute/picker/metrics"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// fleet is a router over four fake engines with real sockets, and the page that shows it.
type fleet struct {
	t          *testing.T
	index      *prefixindex.Index
	ledger     *picker.Ledger
	picker     *picker.Picker
	scraper    *enginemetrics.Scraper
	engines    []*enginetest.Engine
	publishers []*enginetest.Publisher
	servers    []*httptest.Server
	endpoints  []metrics.Endpoint
	page       *httptest.Server
}

func startFleet(t *testing.T) *fleet {
	f := &fleet{t: t}
	var err error
	f.index, err = prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	f.ledger, err = picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	f.scraper, err = enginemetrics.New(enginemetrics.Options{Interval: 200 * time.Millisecond})
	require.NoError(t, err)
	view, err := debugview.New(debugview.Options{Sources: f.sources})
	require.NoError(t, err)
	f.picker, err = picker.New(picker.Options{
		Index: f.index, Ledger: f.ledger, Seed: 1, Observers: []picker.Observer{view.Observer("main")},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	running.Go(func() { _ = f.scraper.Run(ctx) })
	for i := range 4 {
		f.start(ctx, &running, i)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", view))
	f.page = httptest.NewServer(mux)
	t.Cleanup(f.page.Close)
	return f
}

// start starts an engine and follows it. The third has no socket for replays.
func (f *fleet) start(ctx context.Context, running *sync.WaitGroup, i int) {
	engine, err := enginetest.New(enginetest.Options{
		Model: "demo", PrefillTokensPerSecond: 100_000, DecodeStep: 2 * time.Millisecond, Blocks: 4096,
	})
	require.NoError(f.t, err)
	f.t.Cleanup(engine.Close)
	o := enginetest.PublishOptions{}
	if i != 2 {
		o.ReplayAddress = "tcp://127.0.0.1:0"
	}
	events, err := engine.Publish(o) //nolint:contextcheck // lives until Close
	require.NoError(f.t, err)
	f.t.Cleanup(events.Close)
	server := httptest.NewServer(engine)
	f.t.Cleanup(server.Close)
	endpoint, err := f.index.Join("engine-" + string(rune('a'+i)))
	require.NoError(f.t, err)
	source, err := zmtp.NewSource(zmtp.SourceOptions{ //nolint:contextcheck // lives until Close
		Address: events.Address(), ReplayAddress: events.ReplayAddress(),
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = source.Close() })
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: f.index, Endpoint: endpoint, Model: "demo", Source: source,
		Stream: kvevents.StreamOptions{StaleAfter: 2 * time.Second},
	})
	require.NoError(f.t, err)
	running.Go(func() { _ = sub.Run(ctx) })
	target, err := f.scraper.Add(enginemetrics.TargetOptions{URL: server.URL + "/metrics"})
	require.NoError(f.t, err)
	f.engines = append(f.engines, engine)
	f.publishers = append(f.publishers, events)
	f.servers = append(f.servers, server)
	f.endpoints = append(f.endpoints, metrics.Endpoint{
		Handle: endpoint, Target: target, Streams: []metrics.Stream{{Subscriber: sub, Source: source}},
	})
}

func (f *fleet) sources() metrics.Sources {
	return metrics.Sources{
		Index: f.index, Ledger: f.ledger, Scraper: f.scraper, Endpoints: f.endpoints,
		Pickers: map[string]*picker.Picker{"main": f.picker},
	}
}

// anywhere lets the picker choose.
const anywhere = -1

// serve sends one prompt where the picker says, which is the engine at if that is given.
func (f *fleet) serve(ctx context.Context, session string, prompt []uint32, at int) {
	var p prefixindex.Prompt
	p.Reset(prefixindex.Scope{Model: "demo"}, prompt)
	call := picker.Call{Prompt: &p, Request: scorer.Request{Model: "demo", Session: session}}
	for i := range f.endpoints {
		call.Candidates = append(call.Candidates, scorer.Candidate{
			Endpoint: f.endpoints[i].Handle, Signals: f.endpoints[i].Target.Signals(),
			Skip: at != anywhere && at != i,
		})
	}
	d, err := f.picker.Pick(&call)
	if err != nil {
		return
	}
	first := false
	result, err := f.engines[d.Index].Generate(ctx, enginetest.Request{Prompt: prompt, MaxTokens: 8, OnToken: func(uint32) {
		if !first {
			first = true
			d.FirstToken()
		}
	}})
	if err != nil {
		d.Done(picker.Outcome{Result: picker.Failed})
		return
	}
	d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(float64(result.CachedTokens))})
}

// play sends conversations for a while, several at a time.
func (f *fleet) play(ctx context.Context, sessions, turns int, pause time.Duration) {
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			prompt := make([]uint32, 2_000)
			for k := range prompt {
				prompt[k] = uint32(i%3*10_000 + k) // three system prompts
			}
			for range turns {
				for range 100 + rnd.IntN(300) {
					prompt = append(prompt, rnd.Uint32N(100_000))
				}
				f.serve(ctx, fmt.Sprintf("user-%d", i), prompt, anywhere)
				select {
				case <-ctx.Done():
					return
				case <-time.After(pause/2 + time.Duration(rnd.Int64N(int64(pause)))):
				}
			}
		})
	}
	wg.Wait()
}
