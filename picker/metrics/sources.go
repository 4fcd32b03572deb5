package metrics

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// Sources are the parts of a router that count. What it does not have is left out.
type Sources struct {
	Index     *prefixindex.Index
	Ledger    *picker.Ledger
	Pickers   map[string]*picker.Picker // by the value of the label "picker"
	Scraper   *enginemetrics.Scraper
	Endpoints []Endpoint

	More []iter.Seq[Metric] // what else the host counts, as of Of
}

// Endpoint is one endpoint and what follows it.
type Endpoint struct {
	Name    string               // the value of the label "endpoint"; "": as in the index
	Handle  prefixindex.Endpoint // zero: it is no member of the index now
	Target  *enginemetrics.Target
	Streams []Stream
}

// Stream is what follows the events of one rank.
type Stream struct {
	Rank       int // the value of the label "rank"
	Subscriber *kvevents.Subscriber
	Source     *zmtp.Source // where its frames come from, if that is what it is
}

// EndpointStats is the state of one endpoint: what the router sent there, and what the
// engine says of itself.
type EndpointStats struct {
	InFlight       int // requests sent there and not done
	InFlightTokens int // prompt tokens that they still have to compute

	SignalsAt time.Time    // when the engine's metrics were last read; zero: never
	Waiting   scorer.Value // requests queued in the engine
	Running   scorer.Value // requests that the engine works on
	CacheUse  scorer.Value // share of its KV cache in use, 0 to 1
}

// Stats returns the endpoint's state. O(1), takes the ledger's lock.
func (s *Sources) Stats(e *Endpoint) (st EndpointStats) {
	if s.Ledger != nil {
		st.InFlight, st.InFlightTokens = s.Ledger.InFlight(e.Handle)
	}
	if e.Target != nil {
		signals := e.Target.Signals()
		st.SignalsAt, st.Waiting = signals.At, signals.Waiting
		st.Running, st.CacheUse = signals.Running, signals.CacheUse
	}
	return st
}

// All yields every number of every source, and for each rank of each endpoint how far
// the picture of its cache can be trusted, as warmroute_endpoint_view.
//
// O(metrics) with reflection, and it allocates; takes the locks that the Stats methods
// take, one after the other, so that the numbers are not of one instant. Safe for
// concurrent use if s is not changed.
func (s *Sources) All() iter.Seq[Metric] {
	return func(yield func(Metric) bool) {
		for _, seq := range s.sequences() {
			for m := range seq {
				if !yield(m) {
					return
				}
			}
		}
	}
}

func (s *Sources) sequences() (all []iter.Seq[Metric]) {
	if s.Index != nil {
		all = append(all, Of(s.Index.Stats()))
	}
	if s.Ledger != nil {
		all = append(all, Of(s.Ledger.Stats()))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Pickers)) {
		all = append(all, Of(s.Pickers[name].Stats(), Label{"picker", name}))
	}
	if s.Scraper != nil {
		all = append(all, Of(s.Scraper.Stats()))
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		label := Label{"endpoint", s.Name(e)}
		all = append(all, Of(s.Stats(e), label))
		if s.Ledger != nil {
			all = append(all, Of(s.Ledger.Calibration(e.Handle), label))
		}
		for _, stream := range e.Streams {
			rank := Label{"rank", strconv.Itoa(stream.Rank)}
			all = append(all, s.view(e, stream.Rank, label, rank))
			if stream.Subscriber != nil {
				all = append(all, Of(stream.Subscriber.Stats(), label, rank))
			}
			if stream.Source != nil {
				all = append(all, Of(stream.Source.Stats(), label, rank))
			}
		}
		if len(e.Streams) == 0 {
			all = append(all, s.view(e, 0, label, Label{"rank", "0"}))
		}
	}
	return append(all, s.More...)
}

// Name returns the endpoint's name. O(1).
func (s *Sources) Name(e *Endpoint) string {
	if e.Name == "" && s.Index != nil {
		return s.Index.Name(e.Handle)
	}
	return e.Name
}

// view yields how far the picture of a rank's cache can be trusted.
func (s *Sources) view(e *Endpoint, rank int, labels ...Label) iter.Seq[Metric] {
	return func(yield func(Metric) bool) {
		if s.Index == nil {
			return
		}
		w := walk{labels: labels, yield: yield}
		oneOf(&w, Metric{
			Name: "warmroute_endpoint_view",
			Help: "how far the picture of its cache can be trusted",
		}, "view", s.Index.View(e.Handle, rank), prefixindex.ViewStale)
	}
}
