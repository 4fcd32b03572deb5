package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// fleet is the engines that are listed now. It is most of what a gateway has to do for
// the library: let endpoints join and leave, and offer them as candidates.
type fleet struct {
	index   *prefixindex.Index
	scraper *enginemetrics.Scraper
	replays *zmtp.Limiter
	client  *http.Client      // to ask engines what they are
	tokens  *openaireq.Client // to ask them for the tokens of prompts
	log     *slog.Logger

	running sync.WaitGroup
	engines atomic.Pointer[[]*engine]
}

// newFleet returns a fleet without engines, that ends with ctx.
func newFleet(ctx context.Context, ix *prefixindex.Index, render bool, log *slog.Logger) (*fleet, error) {
	direct := &http.Transport{IdleConnTimeout: 4 * time.Second} // no proxy; uvicorn closes connections after 5 s
	f := &fleet{index: ix, log: log, client: &http.Client{Transport: direct}}
	f.engines.Store(new([]*engine))
	var err error
	f.tokens, err = openaireq.NewClient(openaireq.ClientOptions{Endpoints: f.tokenizers, Render: render})
	if err != nil {
		return nil, err
	}
	if f.replays, err = zmtp.NewLimiter(4); err != nil {
		return nil, err
	}
	if f.scraper, err = enginemetrics.New(enginemetrics.Options{Logger: log}); err != nil {
		return nil, err
	}
	f.running.Go(func() { _ = f.scraper.Run(ctx) }) // fails only if it ran already
	return f, nil
}

// set makes specs the list, until ctx ends. Engines that are not in it get no further
// requests; those under way there end as they would have. One caller at a time.
func (f *fleet) set(ctx context.Context, specs []spec) {
	old := make(map[string]*engine)
	for _, e := range *f.engines.Load() {
		old[e.spec.URL] = e
	}
	engines := make([]*engine, len(specs))
	for i, s := range specs {
		if e := old[s.URL]; e != nil && slices.Equal(e.spec.Events, s.Events) {
			engines[i] = e
			delete(old, s.URL)
		}
	}
	for _, e := range old {
		e.log.Info("engine is not listed any more")
		e.stop()
	}
	for _, e := range old {
		<-e.gone // before another of its name joins
	}
	for i, s := range specs {
		if engines[i] == nil {
			engines[i] = f.start(ctx, s)
		}
	}
	f.engines.Store(&engines)
}

// start begins to follow an engine.
func (f *fleet) start(ctx context.Context, s spec) *engine {
	u, _ := url.Parse(s.URL) // was checked
	ctx, stop := context.WithCancel(ctx)
	e := &engine{
		spec: s, url: u, fleet: f, log: f.log.With("engine", s.URL), stop: stop, gone: make(chan struct{}),
	}
	f.running.Go(func() {
		defer close(e.gone)
		e.run(ctx)
	})
	return e
}

// backends are the engines that serve the model a body asks for, healthy or not. If
// nobody serves it they are all: an engine says best what is wrong with a name. A request
// without a body, as for /v1/models, asks for none.
func (f *fleet) backends(_ *http.Request, b *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
	model, adapter := b.Scope.Model, b.Scope.Adapter
	for _, anyway := range []bool{model == "", true} {
		for _, e := range *f.engines.Load() {
			if l := e.live.Load(); l != nil && (anyway || l.serves(model, adapter)) {
				list = append(list, httptransport.Backend{URL: e.url, Candidate: scorer.Candidate{
					Endpoint: l.endpoint, Signals: l.page.Signals(), Skip: !l.up,
				}})
			}
		}
		if len(list) > 0 {
			break
		}
	}
	return list
}

// resolve says for a name in a request which model it is of, and which adapter.
func (f *fleet) resolve(name string) (model, adapter string) {
	for _, e := range *f.engines.Load() {
		if l := e.live.Load(); l != nil {
			if adapter, ok := l.adapters[name]; ok {
				return l.model, adapter
			}
		}
	}
	return name, ""
}

// tokenizers are the engines that can be asked for the tokens of a model's prompt.
func (f *fleet) tokenizers(model string) (urls []string) {
	for _, e := range *f.engines.Load() {
		if l := e.live.Load(); l != nil && l.up && l.model == model {
			urls = append(urls, e.spec.URL)
		}
	}
	return urls
}

// up is how many engines requests can be sent to.
func (f *fleet) up() (n int) {
	for _, e := range *f.engines.Load() {
		if l := e.live.Load(); l != nil && l.up {
			n++
		}
	}
	return n
}
