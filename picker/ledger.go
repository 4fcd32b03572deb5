package picker

import "github.com/warmroute/warmroute/prefixindex"

// LedgerOptions configures a Ledger. There is nothing to configure yet.
type LedgerOptions struct{}

// Ledger counts what is in flight, by endpoint generation. Several pickers may
// share one if their handles are of one index. The methods are safe for concurrent
// use.
type Ledger struct{}

// NewLedger returns an empty ledger. An error names the option.
func NewLedger(o LedgerOptions) (*Ledger, error) { return nil, errUnbuilt }

// InFlight returns the requests in flight on e, and the prompt tokens that they still
// have to compute. O(1), takes the ledger's lock.
func (l *Ledger) InFlight(e prefixindex.Endpoint) (requests, tokens int) { return 0, 0 }

// Stats returns counts since NewLedger. O(1), takes the ledger's lock.
func (l *Ledger) Stats() LedgerStats { return LedgerStats{} }

// LedgerStats counts reservations.
type LedgerStats struct {
	Open int // reservations not released; grows without end if Done is missing on some path

	Reserved      uint64
	FirstTokens   uint64
	Moved         uint64
	Released      uint64    // calls of Done that took effect
	Results       [5]uint64 // the same by Result
	DoubleRelease uint64    // calls of Done after the first
	Late          uint64    // releases for a generation that had ended
}
