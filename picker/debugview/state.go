package debugview

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/metrics"
	"github.com/warmroute/warmroute/prefixindex"
)

// state is what the page shows, and what state.json holds.
type state struct {
	At        time.Time
	Problems  []problem
	Index     *prefixindex.Stats `json:",omitempty"`
	Members   int                // endpoints
	Endpoints []endpoint         // a line for each of their ranks
	History   []point
	Failures  []failure
	Zero      []string // counters of failures that are at zero
	Decisions []row    // the newest first
	Passed    uint64   // picks that were not recorded
}

// endpoint is one rank of an endpoint; what is of the whole endpoint stands with its first.
type endpoint struct {
	Name  string
	Rank  int
	Ranks int // of the endpoint, with its first rank; else 0
	View  string

	Followed   bool                     // it has a stream of events
	Subscriber kvevents.SubscriberStats // of that
	Source     *zmtp.SourceStats        `json:",omitempty"`

	Scraped     bool
	ScrapeError string `json:",omitempty"`
	Stats       metrics.EndpointStats
	Calibration picker.Calibration

	now    time.Time
	served time.Time // when a request ended well there; zero: not that is known
	source error     // why the socket was last lost
}

// notices is where what may be meant so begins among the problems.
func (st *state) notices() int {
	i := slices.IndexFunc(st.Problems, func(p problem) bool { return p.Severity == notice })
	if i < 0 {
		return len(st.Problems)
	}
	return i
}

// Broken are the problems that are no mere notices.
func (st *state) Broken() []problem { return st.Problems[:st.notices()] }

// Notices are the others.
func (st *state) Notices() []problem { return st.Problems[st.notices():] }

// Trust is the class of the view's colour: "fine", or how severe the worst is that is wrong
// with the events.
func (e *endpoint) Trust() string {
	trust := "fine"
	e.eventProblems(func(s severity, _, _ string, _ ...any) { trust = max(trust, fmt.Sprintf("s%d", s)) })
	return trust
}

// Tiers says where the blocks are, if not all are on GPU.
func (e *endpoint) Tiers() string {
	b := &e.Subscriber.Applier.Blocks
	if b.HoldingsGPU == b.Holdings {
		return ""
	}
	s := count(b.HoldingsGPU) + " gpu"
	if b.HoldingsCPU > 0 {
		s += " + " + count(b.HoldingsCPU) + " cpu"
	}
	if farther := b.Holdings - b.HoldingsGPU - b.HoldingsCPU; farther > 0 {
		s += " + " + count(farther) + " farther"
	}
	return s + " ="
}

// Believed is the share of a prediction that is believed.
func (e *endpoint) Believed() float64 { return 1 - e.Calibration.Doubt }

// state gathers all that the page shows.
func (v *View) state() *state {
	src := v.o.Sources()
	st := &state{At: v.o.Clock()}
	if src.Index != nil {
		stats := src.Index.Stats()
		st.Index = &stats
	}
	st.Members = len(src.Endpoints)
	for i := range src.Endpoints {
		st.Endpoints = append(st.Endpoints, v.ranks(&src, &src.Endpoints[i], st.At)...)
	}
	for i := range st.Endpoints {
		st.Problems = append(st.Problems, st.Endpoints[i].problems()...)
	}
	slices.SortStableFunc(st.Problems, func(a, b problem) int { return int(b.Severity) - int(a.Severity) })
	st.Failures, st.Zero = failed(slices.Collect(src.All()))

	v.mu.Lock()
	st.Passed = v.passed
	last, n := v.kept.last, v.kept.n
	h := v.history
	v.mu.Unlock()
	st.History = h.points(st.At)
	for i := range n {
		v.mu.Lock() // anew for each, as picks wait for it
		if d := v.kept.get(last - uint64(i)); d != nil {
			st.Decisions = append(st.Decisions, d.row())
		}
		v.mu.Unlock()
	}
	return st
}

// ranks returns a line for each rank of an endpoint.
func (v *View) ranks(src *metrics.Sources, e *metrics.Endpoint, now time.Time) []endpoint {
	streams := e.Streams
	if len(streams) == 0 {
		streams = []metrics.Stream{{}}
	}
	v.mu.Lock()
	served := v.served.of(e.Handle)
	v.mu.Unlock()
	lines := make([]endpoint, len(streams))
	for i, s := range streams {
		line := &lines[i]
		*line = endpoint{Name: src.Name(e), Rank: s.Rank, now: now, served: served}
		if src.Index != nil {
			line.View = src.Index.View(e.Handle, s.Rank).String()
		}
		if s.Subscriber != nil {
			line.Followed, line.Subscriber = true, s.Subscriber.Stats()
		}
		if s.Source != nil {
			stats := s.Source.Stats()
			line.source, stats.LastError = stats.LastError, nil // has no form in JSON
			line.Source = &stats
		}
	}
	first := &lines[0]
	first.Ranks = len(lines)
	first.Stats = src.Stats(e)
	if src.Ledger != nil {
		first.Calibration = src.Ledger.Calibration(e.Handle)
	}
	if e.Target != nil {
		first.Scraped = true
		if err := e.Target.Err(); err != nil {
			first.ScrapeError = err.Error()
		}
	}
	return lines
}
