package picker

import (
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Calibration compares what was predicted of an endpoint with what it reported, in its
// current generation.
type Calibration struct {
	Reported   uint64 // requests with a prediction and a report
	Unreported uint64 // requests that ended well, with a prediction and without a report

	PredictedTokens uint64 // tokens that should have been cached, of the reported requests
	ReportedTokens  uint64 // tokens that were

	// Doubt is the share of a prediction that is not believed any more: 0 to 1. Each
	// report of less than was predicted moves it a tenth of the way to the share that
	// was missing: an endpoint that reports nothing loses 88 % of its credit in 20
	// requests, and has 99 % of it again after 50 honest ones.
	Doubt float64

	// PrefillRate is how many prompt tokens it computes in a second: tokens in flight
	// there, the request's own included, against the time to its first token. Each
	// first token fades the ones before by 2 %. Prompts with fewer than 256 tokens to
	// wait for teach nothing.
	PrefillRate scorer.Value
}

// Calibration returns what was learned of e; the zero one if nothing was, or its
// generation has ended. O(1), takes the ledger's lock.
func (l *Ledger) Calibration(e prefixindex.Endpoint) Calibration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.find(e)
	if a == nil {
		return Calibration{}
	}
	n := &a.learned
	return Calibration{
		Reported: n.reported, Unreported: n.unreported,
		PredictedTokens: n.predictedTokens, ReportedTokens: n.reportedTokens,
		Doubt: n.doubt, PrefillRate: n.rate(),
	}
}

// learned is what reports have taught of one endpoint.
type learned struct {
	reported, unreported            uint64
	predictedTokens, reportedTokens uint64
	doubt                           float64
	prefillTokens, prefillSeconds   float64 // faded sums
}

const (
	doubtStep      = 0.1
	rateFade       = 0.98
	teachingTokens = 256
)

func (n *learned) rate() scorer.Value {
	if n.prefillSeconds == 0 {
		return scorer.Value{}
	}
	return scorer.Known(n.prefillTokens / n.prefillSeconds)
}

// firstToken learns from a request that waited for that many tokens to be computed.
func (n *learned) firstToken(tokens int64, took time.Duration) {
	if tokens < teachingTokens || took <= 0 {
		return
	}
	n.prefillTokens = n.prefillTokens*rateFade + float64(tokens)
	n.prefillSeconds = n.prefillSeconds*rateFade + took.Seconds()
}

// report counts how a request ended and learns from what the engine said of its cache.
// The ledger's lock is held.
func (l *Ledger) report(e prefixindex.Endpoint, predicted int64, o *Outcome) {
	if int(o.Result) >= len(l.stats.Results) {
		o.Result = Unsaid
	}
	l.stats.Results[o.Result]++
	reported, known := o.CachedTokens.Get()
	if reported < 0 {
		reported = 0
		l.stats.Corrected++
	}
	if predicted < 0 {
		return
	}
	var gone account // an endpoint that left learns nothing, and the totals do
	a := l.open(e)
	if a == nil {
		a = &gone
	}
	if !known {
		if o.Result == OK || o.Result == Unsaid {
			l.stats.Unreported++
			a.learned.unreported++
		}
		return
	}
	tokens := uint64(min(reported, maxPromptTokens))
	l.stats.Reported++
	l.stats.PredictedTokens += uint64(predicted)
	l.stats.ReportedTokens += tokens
	a.learned.reported++
	a.learned.predictedTokens += uint64(predicted)
	a.learned.reportedTokens += tokens
	if predicted > 0 {
		missing := 1 - min(reported/float64(predicted), 1)
		a.learned.doubt += doubtStep * (missing - a.learned.doubt)
	}
}
