package warmprom

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/metrics"
)

// ErrOptions means that an option is missing. The message names it.
var ErrOptions = errors.New("warmprom: invalid option")

// Options configures a Collector.
type Options struct {
	// Sources returns what is counted; required. It is called for each collection, by many
	// goroutines at once.
	Sources func() metrics.Sources
}

// Collector is a prometheus.Collector for one registry. It is unchecked, in Prometheus'
// words: what it collects depends on the endpoints that there are. Its methods are safe
// for concurrent use.
type Collector struct {
	sources func() metrics.Sources

	pick, firstToken, request *prometheus.HistogramVec
	predicted, reported       *prometheus.HistogramVec
}

// New returns a collector that is not registered anywhere. The error is ErrOptions.
func New(o Options) (*Collector, error) {
	if o.Sources == nil {
		return nil, fmt.Errorf("%w: Sources is nil", ErrOptions)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "warmroute_" + name, Help: help, Buckets: buckets,
		}, append([]string{"picker"}, labels...))
	}
	tenths := prometheus.LinearBuckets(0, 0.1, 11)
	return &Collector{
		sources: o.Sources,
		pick: histogram("pick_seconds", "time that a pick took",
			prometheus.ExponentialBuckets(1e-6, 2, 14), "stage"), // 1 µs to 8 ms
		firstToken: histogram("first_token_seconds", "from the pick to the first token",
			prometheus.ExponentialBuckets(0.01, 2, 14)), // 10 ms to 82 s
		request: histogram("request_seconds", "from the pick to the end of the request",
			prometheus.ExponentialBuckets(0.05, 2, 14), "result"), // 50 ms to 7 min
		predicted: histogram("predicted_cached_ratio", "share of the prompt that was predicted to be cached", tenths),
		reported:  histogram("reported_cached_ratio", "share of the prompt that the engine found in its cache", tenths),
	}, nil
}

// Describe implements prometheus.Collector, and describes nothing.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Metrics of one name have the same labels, as
// long as the host's own in Sources.More do.
//
// O(metrics); it allocates.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	src := c.sources()
	for m := range src.All() {
		names, values := make([]string, len(m.Labels)), make([]string, len(m.Labels))
		for i, l := range m.Labels {
			names[i], values[i] = l.Name, l.Value
		}
		kind := prometheus.CounterValue
		if m.Kind == metrics.Gauge {
			kind = prometheus.GaugeValue
		}
		desc := prometheus.NewDesc(m.Name, m.Help, names, nil)
		one, err := prometheus.NewConstMetric(desc, kind, m.Value, values...)
		if err != nil { // a host's own that has no proper name; the scrape says so
			one = prometheus.NewInvalidMetric(desc, err)
		}
		out <- one
	}
	for _, h := range []*prometheus.HistogramVec{c.pick, c.firstToken, c.request, c.predicted, c.reported} {
		h.Collect(out)
	}
}

// Observer returns what the picker of that name is to be given in its Options.Observers,
// for the histograms.
//
// O(1). What it adds to a pick and its end takes no lock and allocates nothing.
func (c *Collector) Observer(name string) picker.Observer {
	o := &observer{
		prepare:    c.pick.WithLabelValues(name, "prepare"),
		decide:     c.pick.WithLabelValues(name, "decide"),
		firstToken: c.firstToken.WithLabelValues(name),
		predicted:  c.predicted.WithLabelValues(name),
		reported:   c.reported.WithLabelValues(name),
	}
	for r := range o.request {
		o.request[r] = c.request.WithLabelValues(name, picker.Result(r).String())
	}
	return o
}

// observer watches one picker.
type observer struct {
	prepare, decide, firstToken, predicted, reported prometheus.Observer

	request [picker.Canceled + 1]prometheus.Observer // by result
}

// OnPick implements picker.PickObserver.
func (o *observer) OnPick(e picker.PickEvent) {
	o.prepare.Observe(e.Prepare.Seconds())
	o.decide.Observe(e.Decide.Seconds())
	if cached, known := e.Decision.CachedTokens.Get(); known && e.Decision.PromptTokens > 0 {
		o.predicted.Observe(cached / float64(e.Decision.PromptTokens))
	}
}

// OnDone implements picker.DoneObserver.
func (o *observer) OnDone(e picker.DoneEvent) {
	if e.FirstToken > 0 {
		o.firstToken.Observe(e.FirstToken.Seconds())
	}
	if r := e.Outcome.Result; int(r) < len(o.request) {
		o.request[r].Observe(e.Total.Seconds())
	}
	if cached, known := e.Outcome.CachedTokens.Get(); known && e.Decision.PromptTokens > 0 {
		o.reported.Observe(cached / float64(e.Decision.PromptTokens))
	}
}
