package main

import (
	"iter"
	"net/http"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/metrics"
)

// adminHandler is for operators: it is served on loopback unless told otherwise.
func (g *gateway) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", g.view))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		sources := g.sources()
		_ = metrics.Write(w, sources.All()) // whoever asked is gone
	})
	g.health(mux)
	return mux
}

// health answers probes: /healthz while the process lives, /readyz while it can serve.
func (g *gateway) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case g.draining.Load():
			http.Error(w, "draining", http.StatusServiceUnavailable)
		case g.fleet.up() == 0:
			http.Error(w, "no engine is up", http.StatusServiceUnavailable)
		}
	})
}

// sources are all that count.
func (g *gateway) sources() metrics.Sources {
	s := metrics.Sources{
		Index: g.index, Ledger: g.ledger, Scraper: g.fleet.scraper,
		Pickers: map[string]*picker.Picker{"main": g.picker},
		More:    []iter.Seq[metrics.Metric]{metrics.Of(g.transport.Stats()), metrics.Of(g.fleet.tokens.Stats()), g.own},
	}
	for _, e := range *g.fleet.engines.Load() {
		at := metrics.Endpoint{Name: e.spec.URL}
		if l := e.live.Load(); l != nil {
			at.Handle, at.Target = l.endpoint, l.page
			for i, sub := range l.subs {
				at.Streams = append(at.Streams, metrics.Stream{
					Rank: l.sockets[i].Rank, Subscriber: sub, Source: l.sources[i],
				})
			}
		}
		s.Endpoints = append(s.Endpoints, at)
	}
	return s
}

// own yields what the gateway itself knows.
func (g *gateway) own(yield func(metrics.Metric) bool) {
	for _, e := range *g.fleet.engines.Load() {
		up := metrics.Metric{
			Name: "gateway_engine_up", Help: "1 if requests may be sent there", Kind: metrics.Gauge,
			Labels: []metrics.Label{{Name: "endpoint", Value: e.spec.URL}},
		}
		if l := e.live.Load(); l != nil && l.up {
			up.Value = 1
		}
		if !yield(up) {
			return
		}
	}
	if g.followed != nil {
		_ = yield(metrics.Metric{
			Name: "gateway_endpoints_file_loads_total", Help: "times that the endpoints file was taken",
			Value: float64(g.followed.reads.Load()),
		}) && yield(metrics.Metric{
			Name: "gateway_endpoints_file_refused_total", Help: "times that it could not be read or had a mistake",
			Value: float64(g.followed.bad.Load()),
		})
	}
}
