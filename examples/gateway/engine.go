package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

const (
	lookEvery   = 200 * time.Millisecond // at an engine's health, as known from its scrapes
	askEvery    = 10 * time.Second       // for its models and sockets, which may change
	downAfter   = 10 * time.Second       // without a good scrape
	catchUpTime = 10 * time.Second       // for the first replay, before it gets requests
)

// engine is one entry of the list, from when it is listed to when it is not.
type engine struct {
	spec  spec
	url   *url.URL
	fleet *fleet
	log   *slog.Logger
	stop  context.CancelFunc
	gone  chan struct{}        // closed when it has left
	live  atomic.Pointer[live] // nil: not reached yet
}

// live is what is known of an engine that was reached.
type live struct {
	endpoint prefixindex.Endpoint
	model    string            // scope of its prompts: its first name, if it has several
	adapters map[string]string // each name it serves -> the LoRA adapter, "" for the model itself
	sockets  []zmtp.RankAddresses
	page     *enginemetrics.Target
	sources  []*zmtp.Source
	subs     []*kvevents.Subscriber
	up       bool
}

// run follows the engine until ctx ends, from anew whenever it has become another one.
func (e *engine) run(ctx context.Context) {
	for said := ""; ; {
		err := e.follow(ctx)
		if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			e.log.Warn("engine is not followed; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

var errChanged = errors.New("it serves another model, or publishes elsewhere, than before")

// follow joins the engine to the index, keeps up with its events and metrics, and leaves
// when ctx ends or something fails.
func (e *engine) follow(ctx context.Context) error {
	l := new(live)
	if err := e.ask(ctx, l); err != nil {
		return err
	}
	var err error
	if l.endpoint, err = e.fleet.index.Join(e.spec.URL); err != nil {
		return err
	}
	defer e.fleet.index.Leave(l.endpoint)

	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	defer func() {
		for _, source := range l.sources {
			_ = source.Close() // never fails
		}
	}()
	for _, at := range l.sockets {
		source, err := zmtp.NewSource(zmtp.SourceOptions{
			Address: at.Address, ReplayAddress: at.ReplayAddress, Topic: at.Topic,
			Replays: e.fleet.replays, Logger: e.log,
		})
		if err != nil {
			return err
		}
		l.sources = append(l.sources, source)
		sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
			Index: e.fleet.index, Endpoint: l.endpoint, Rank: at.Rank, Model: l.model,
			Source: source, Logger: e.fleet.log, // names the endpoint by itself
		})
		if err != nil {
			return err
		}
		l.subs = append(l.subs, sub)
		running.Go(func() {
			if err := sub.Run(ctx); err != nil {
				cancel(fmt.Errorf("events of rank %d: %w", at.Rank, err))
			}
		})
	}
	l.page, err = e.fleet.scraper.Add(enginemetrics.TargetOptions{
		URL: e.url.JoinPath("metrics").String(),
		OnReset: func(why enginemetrics.Reset) { // its cache is empty, whatever its events say
			for _, sub := range l.subs {
				_ = sub.Reset() // fails only if the endpoint has left
			}
			if why == enginemetrics.Restarted {
				e.fleet.tokens.Purge() // its chat template may be another
			}
		},
	})
	if err != nil {
		return err
	}
	defer l.page.Remove()
	return e.watch(ctx, l)
}

// watch publishes what is known of the engine, and again whenever that changes. What was
// published is not changed any more.
func (e *engine) watch(ctx context.Context, l *live) error {
	look, ask := time.NewTicker(lookEvery), time.NewTicker(askEvery)
	defer look.Stop()
	defer ask.Stop()
	e.live.Store(l)
	defer e.live.Store(nil) // before it leaves
	for caughtUp, since := false, time.Now(); ; {
		next := *l
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
			caughtUp = caughtUp || l.caughtUp() || time.Since(since) > catchUpTime
			next.up = caughtUp && l.healthy()
		case <-ask.C:
			if e.ask(ctx, &next) != nil {
				continue // its health says what there is to say
			}
			if next.model != l.model || !slices.Equal(next.sockets, l.sockets) {
				return errChanged
			}
		}
		switch {
		case next.up && !l.up:
			e.log.Info("engine is up", "model", l.model, "ranks", len(l.sockets))
		case !next.up && l.up:
			e.log.Warn("engine is down", "last_scrape", l.page.Err())
		}
		if next.up != l.up || !maps.Equal(next.adapters, l.adapters) {
			l = &next
			e.live.Store(l)
		}
	}
}

// serves says whether requests for a model, and an adapter of it or "", can be answered.
func (l *live) serves(model, adapter string) bool {
	if adapter == "" {
		return l.model == model
	}
	_, ok := l.adapters[adapter]
	return ok && l.model == model
}

// healthy goes by the scrapes of /metrics. A report that is newer than a restart was read
// after OnReset was called, so that what an engine held before it went down is forgotten
// before it is up again. A refused connection is believed at once, and other failures
// after a while: busy engines are slow to answer.
func (l *live) healthy() bool {
	r := l.page.Report()
	if r == nil || time.Since(r.Signals.At) > downAfter || r.Ranks > 0 && r.Asleep == r.Ranks {
		return false
	}
	var op *net.OpError
	return !errors.As(l.page.Err(), &op) || op.Op != "dial"
}

// caughtUp says whether what the engine holds is known, as far as replays can tell.
func (l *live) caughtUp() bool {
	for i, source := range l.sources {
		if l.sockets[i].ReplayAddress != "" &&
			(source.Stats().Replays.Completed == 0 || l.subs[i].View() == prefixindex.ViewResyncing) {
			return false
		}
	}
	return true
}

// ask asks the engine for its models, and for its event sockets unless they are given.
func (e *engine) ask(ctx context.Context, l *live) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url.JoinPath("v1/models").String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := e.fleet.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var models struct {
		Data []struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"` // of adapters
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /v1/models: %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&models); err != nil {
		return fmt.Errorf("GET /v1/models: %w", err)
	}
	l.model, l.adapters = "", make(map[string]string)
	for _, m := range models.Data {
		if m.Parent != nil {
			l.adapters[m.ID] = m.ID
			continue
		}
		l.adapters[m.ID] = ""
		if l.model == "" {
			l.model = m.ID
		}
	}
	if l.model == "" {
		return errors.New("GET /v1/models: no model")
	}

	if e.spec.Events != nil {
		l.sockets = nil
		for rank, s := range e.spec.Events {
			l.sockets = append(l.sockets, zmtp.RankAddresses{
				Rank: rank, Address: s.Address, ReplayAddress: s.Replay, Topic: s.Topic,
			})
		}
		return nil
	}
	sockets, err := zmtp.Discover(ctx, e.fleet.client, e.spec.URL)
	if err != nil { // what is known of them stays; if nothing is, the engine is served by load alone
		if l.page == nil {
			e.log.Warn("engine does not say where it publishes; without that, what it holds is not known", "err", err)
		}
		return nil
	}
	l.sockets = sockets
	return nil
}
