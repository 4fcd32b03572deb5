package picker

import (
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
	// that can address one; 0 if none holds anything.
	Rank int

	// CachedTokens is how much of the prompt the winner should find in its cache;
	// PromptTokens is the prompt's length. 0: none, or not known.
	CachedTokens, PromptTokens int

	// Score is the winner's sum divided by the sum of the weights, 0 to 1. Margin
	// is how far the runner-up was behind: 0 if there was none or a tie was drawn.
	Score, Margin float64

	// Pick is the number of the pick, from 1, in this picker.
	Pick uint64

	fallbacks  [MaxFallbacks]int32
	nFallbacks int32
	ledger     *Ledger
	ticket     uint64
}

// Fallbacks returns the places in Call.Candidates of the next best, in order,
// without the winner: where to go if it fails. The slice aliases d.
//
// O(1), no allocation beyond that of d.
func (d *Decision) Fallbacks() []int32 { return d.fallbacks[:d.nFallbacks] }

// FirstToken says that the engine has begun to reply, so that the prompt is
// computed: its tokens leave the endpoint's load, the request stays.
//
// O(1), takes the ledger's lock; safe for concurrent use. Effective once.
func (d Decision) FirstToken() {}

// Moved says that the request went to e and not where the pick said: a fallback, a
// retry, a proxy that chose for itself. The reservation moves along.
//
// O(1), takes the ledger's lock; safe for concurrent use.
func (d Decision) Moved(e prefixindex.Endpoint) {}

// Done says that the request has ended and releases what was reserved for it. Call
// it once for each Decision, on every path; further calls are counted in
// Ledger.Stats and change nothing.
//
// O(1), takes the ledger's lock; safe for concurrent use.
func (d Decision) Done(o Outcome) {}

// Outcome is how a request ended. The zero Outcome says nothing but that it did.
type Outcome struct {
	// Failed says that the endpoint did not answer as it should have.
	Failed bool

	// CachedTokens is how much of the prompt the engine reports to have had cached.
	CachedTokens scorer.Value
}
