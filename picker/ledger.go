package picker

import (
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Ledger counts what is in flight, by endpoint generation. Several pickers may
// share one. The methods are safe for concurrent use.
type Ledger struct{}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return nil }

// InFlight returns what is in flight on e. O(1), takes the ledger's lock.
func (l *Ledger) InFlight(e prefixindex.Endpoint) scorer.InFlight { return scorer.InFlight{} }

// Stats returns counts since NewLedger. O(1), takes the ledger's lock.
func (l *Ledger) Stats() LedgerStats { return LedgerStats{} }

// LedgerStats counts reservations.
type LedgerStats struct {
	Open int // reservations not released; grows without end if Done is missing on some path

	Reserved      uint64
	Released      uint64
	FirstTokens   uint64
	Moved         uint64
	Failed        uint64 // released with Outcome.Failed
	DoubleRelease uint64 // calls of Done after the first
	Late          uint64 // releases for a generation that had ended
}
