package picker

import (
	"strconv"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// MaxFallbacks is the most fallbacks that a Decision names.
const MaxFallbacks = 3

// Decision is the answer to a pick. It is a value: copies stand for the same
// reservation. The zero Decision is inert: its methods do nothing.
type Decision struct {
	// Index is the winner's place in Call.Candidates, Endpoint its handle.
	Index    int
	Endpoint prefixindex.Endpoint

	// Rank is the data-parallel rank that holds the most of the prompt, for hosts
	// that can address one; -1 if none holds anything, and no rank is better than
	// another. Index.Insert and Index.Expect take the rank to which the request went, and
	// -1 as that of an engine with one.
	Rank int

	// CachedTokens is how much of the prompt the winner should find in its cache.
	// Unknown if the pick did not ask, or nothing was ever heard of the endpoint.
	CachedTokens scorer.Value

	// PromptTokens is the prompt's length; 0: not known.
	PromptTokens int

	// Score is the winner's sum divided by the sum of the weights, 0 to 1. Margin
	// is how far the runner-up was behind: 0 if there was none or it was drawn.
	Score, Margin float64

	// Pick is the number of the pick, from 1, in this picker.
	Pick uint64

	fallbacks  [MaxFallbacks]Fallback
	nFallbacks int
	uncached   int64
	at         time.Time
	picker     *Picker
	ticket     uint64 // zero: nothing was reserved, as the host counts
}

// Fallback is where to go if the winner fails.
type Fallback struct {
	Index        int // place in Call.Candidates
	Endpoint     prefixindex.Endpoint
	Rank         int          // as in Decision
	CachedTokens scorer.Value // as in Decision

	uncached int64
}

// Fallback returns the i-th best of the others, from 0, or false if there are not
// that many. They are distinct and in order of their sums.
//
// O(1), no allocation.
func (d Decision) Fallback(i int) (Fallback, bool) {
	if i < 0 || i >= d.nFallbacks {
		return Fallback{}, false
	}
	return d.fallbacks[i], true
}

// FirstToken says that the engine has begun to reply, so that the prompt is
// computed: its tokens leave the endpoint's load, the request stays, and the ledger
// learns how fast the endpoint is. It takes effect once, and once more after Moved.
//
// O(1), takes the ledger's lock; safe for concurrent use.
func (d Decision) FirstToken() {
	if d.ticket != 0 {
		d.picker.ledger.firstToken(d.ticket, d.picker.clock())
	}
}

// Renew begins the reservation's lease anew, if the ledger has leases.
//
// O(1), takes the ledger's lock; safe for concurrent use.
func (d Decision) Renew() {
	if d.ticket != 0 {
		d.picker.ledger.touch(d.ticket, d.picker.clock())
	}
}

// Moved says that the request went to e and not where the pick, or an earlier Moved,
// said: a proxy took a fallback, or chose for itself. The reservation moves along, and
// the outcome will be that of e. The prompt counts as not computed again, less what a
// fallback of this decision was expected to have cached. For a zero or unknown e the
// load is released and counted nowhere. To where it is already, or after Done, it does
// nothing; nor where the host counts.
//
// O(1), takes the ledger's lock; safe for concurrent use.
func (d Decision) Moved(e prefixindex.Endpoint) {
	if d.ticket == 0 {
		return
	}
	if d.picker.index != nil && d.picker.index.Name(e) == "" {
		e = 0
	}
	uncached, predicted := int64(d.PromptTokens), int64(-1)
	if e == d.Endpoint {
		uncached, predicted = d.uncached, tokensOf(d.CachedTokens)
	}
	for _, f := range d.fallbacks[:d.nFallbacks] {
		if f.Endpoint == e {
			uncached, predicted = f.uncached, tokensOf(f.CachedTokens)
		}
	}
	d.picker.ledger.move(d.ticket, e, uncached, predicted, d.picker.clock())
}

// Done says that the request has ended and releases what was reserved for it. Call
// it once for each Decision, on every path; further calls are counted in
// Ledger.Stats and change nothing. Where the host counts, there is nothing to release
// and nothing to tell a second call by: it only reports the outcome.
//
// O(1), takes the ledger's lock; safe for concurrent use.
func (d Decision) Done(o Outcome) {
	if d.picker == nil {
		return
	}
	p := d.picker
	var now time.Time // where nobody asks for it, the clock is not read
	if len(p.observers.ended) > 0 || p.ledger.lease > 0 {
		now = p.clock()
	}
	predicted := tokensOf(d.CachedTokens)
	if d.ticket == 0 {
		p.ledger.releaseUncounted(d.Endpoint, predicted, &o)
		p.observers.done(DoneEvent{Decision: d, Outcome: o, Endpoint: d.Endpoint, Total: now.Sub(d.at)})
		return
	}
	if t, ok := p.ledger.release(d.ticket, &o, now); ok && len(p.observers.ended) > 0 {
		e := DoneEvent{Decision: d, Outcome: o, Endpoint: t.endpoint, Total: now.Sub(t.picked)}
		if !t.first.IsZero() {
			e.FirstToken = t.first.Sub(t.picked)
		}
		p.observers.done(e)
	}
}

// tokensOf returns the tokens in v, or -1.
func tokensOf(v scorer.Value) int64 {
	if n, known := v.Get(); known {
		return int64(n)
	}
	return -1
}

// Result is how a request ended.
type Result uint8

// The results.
const (
	Unsaid   Result = iota // it ended
	OK                     // the endpoint answered
	Failed                 // the endpoint did not answer, or broke off
	Refused                // the endpoint turned it away, as for overload
	Canceled               // the client went away; the endpoint is not to blame
)

// String returns the name of r.
func (r Result) String() string {
	switch r {
	case Unsaid:
		return "unsaid"
	case OK:
		return "ok"
	case Failed:
		return "failed"
	case Refused:
		return "refused"
	case Canceled:
		return "canceled"
	}
	return "Result(" + strconv.Itoa(int(r)) + ")"
}

// Outcome is how a request ended. The zero Outcome says nothing but that it did.
type Outcome struct {
	Result Result

	// CachedTokens is how much of the prompt the engine reports to have had cached.
	// Leave it unknown where it says nothing: unknown is counted, and zero would be
	// believed. See Calibration.
	CachedTokens scorer.Value
}
