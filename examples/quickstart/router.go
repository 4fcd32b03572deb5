package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// router is Warmroute on a fleet: an index fed by one subscriber for each engine,
// signals read from /metrics, and a picker. It is most of what a gateway needs.
type router struct {
	fleet     *fleet
	index     *prefixindex.Index
	picker    *picker.Picker
	endpoints []prefixindex.Endpoint
	feeds     []*enginetest.Subscription
	subs      []*kvevents.Subscriber
	pages     []*enginemetrics.Target // of /metrics
	calls     sync.Pool

	stop context.CancelFunc
	done sync.WaitGroup
}

func newRouter(f *fleet, seed uint64) (*router, error) {
	ix, err := prefixindex.New(prefixindex.Options{})
	if err != nil {
		return nil, err
	}
	pk, err := picker.New(picker.Options{Index: ix, Seed: seed})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &router{
		fleet: f, index: ix, picker: pk, stop: stop,
		calls: sync.Pool{New: func() any { return new(call) }},
	}
	// Once a second is enough for real engines; these live faster.
	scraper, err := enginemetrics.New(enginemetrics.Options{Interval: scrapeInterval, Client: f.client})
	if err != nil {
		r.close()
		return nil, err
	}
	for i, e := range f.engines {
		ep, err := ix.Join("engine " + f.names[i])
		if err != nil {
			r.close()
			return nil, err
		}
		feed := e.Subscribe(0) // where a gateway dials the engine's event socket
		sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
			Index: ix, Endpoint: ep, Model: model, Source: feed,
		})
		if err != nil {
			r.close()
			return nil, err
		}
		page, err := scraper.Add(enginemetrics.TargetOptions{URL: f.urls[i] + "/metrics"})
		if err != nil {
			r.close()
			return nil, err
		}
		r.endpoints = append(r.endpoints, ep)
		r.feeds = append(r.feeds, feed)
		r.subs = append(r.subs, sub)
		r.pages = append(r.pages, page)
		r.done.Go(func() {
			if err := sub.Run(ctx); err != nil && !errors.Is(err, enginetest.ErrClosed) {
				panic(err) // no error is expected here
			}
		})
	}
	r.done.Go(func() { _ = scraper.Run(ctx) }) // ends with ctx
	return r, nil
}

func (r *router) close() {
	r.stop()
	r.done.Wait()
	for _, f := range r.feeds {
		f.Close()
	}
}

// call is what one pick needs, kept for the next.
type call struct {
	picker.Call
	prompt prefixindex.Prompt
}

// pick chooses an engine for a prompt. rec may be nil.
func (r *router) pick(session string, prompt []uint32, rec *picker.Record) (picker.Decision, error) {
	c, _ := r.calls.Get().(*call) // the pool holds nothing else
	defer r.calls.Put(c)
	c.prompt.Reset(prefixindex.Scope{Model: model}, prompt)
	c.Prompt, c.Record = &c.prompt, rec
	c.Request = scorer.Request{Model: model, Session: session}
	c.Candidates = c.Candidates[:0]
	for i, ep := range r.endpoints {
		c.Candidates = append(c.Candidates, scorer.Candidate{Endpoint: ep, Signals: r.pages[i].Signals()})
	}
	return r.picker.Pick(&c.Call)
}

// serve sends one prompt where the picker says.
func (r *router) serve(ctx context.Context, session string, prompt []uint32, maxTokens int) (reply, error) {
	d, err := r.pick(session, prompt, nil)
	if err != nil {
		return reply{}, err
	}
	rep, err := r.fleet.complete(ctx, d.Index, prompt, maxTokens, d.FirstToken)
	if err != nil {
		d.Done(picker.Outcome{Result: picker.Failed})
		return reply{}, err
	}
	d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(float64(rep.cached))})
	return rep, nil
}

// settle waits until the router knows what the engines have done so far: their events are
// in the index, their signals newer than now.
func (r *router) settle() error {
	now := time.Now()
	for ; ; time.Sleep(time.Millisecond) {
		behind := false
		for i, e := range r.fleet.engines {
			behind = behind || r.subs[i].Stats().Batches < e.Stats().Batches || !r.pages[i].Signals().At.After(now)
		}
		if !behind {
			return nil
		}
		if time.Since(now) > 2*time.Second {
			return errors.New("events or signals did not arrive")
		}
	}
}
