package main

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/picker/metrics"
)

// adminHandler is for operators: it is served on loopback unless told otherwise.
func (g *gateway) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", g.serveMetrics)
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

// serveMetrics writes all that the library counts in the text format of Prometheus.
func (g *gateway) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	p := page{families: make(map[string]*strings.Builder)}
	p.add(metrics.Of(g.index.Stats()))
	p.add(metrics.Of(g.picker.Stats()))
	p.add(metrics.Of(g.ledger.Stats()))
	for _, e := range *g.fleet.engines.Load() {
		label := metrics.Label{Name: "engine", Value: e.spec.URL}
		up := 0.0
		l := e.live.Load()
		if l != nil {
			if l.up {
				up = 1
			}
			p.add(metrics.Of(g.ledger.Calibration(l.endpoint), label))
			for i, sub := range l.subs {
				rank := metrics.Label{Name: "rank", Value: strconv.Itoa(l.sockets[i].Rank)}
				p.add(metrics.Of(sub.Stats(), label, rank))
			}
		}
		p.one(metrics.Metric{
			Name: "gateway_engine_up", Help: "1 if requests may be sent there", Kind: metrics.Gauge,
			Labels: []metrics.Label{label}, Value: up,
		})
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, name := range p.order {
		fmt.Fprint(w, p.families[name])
	}
}

// page collects metrics by family, as the format wants them.
type page struct {
	order    []string
	families map[string]*strings.Builder
}

func (p *page) add(all iter.Seq[metrics.Metric]) {
	for m := range all {
		p.one(m)
	}
}

func (p *page) one(m metrics.Metric) {
	b := p.families[m.Name]
	if b == nil {
		b = new(strings.Builder)
		p.families[m.Name] = b
		p.order = append(p.order, m.Name)
		kind := "counter"
		if m.Kind == metrics.Gauge {
			kind = "gauge"
		}
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, kind)
	}
	fmt.Fprintln(b, m)
}
