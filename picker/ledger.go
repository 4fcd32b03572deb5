package picker

import (
	"math"
	"sync"

	"github.com/warmroute/warmroute/prefixindex"
)

// LedgerOptions configures a Ledger. There is nothing to configure yet.
type LedgerOptions struct{}

// Ledger counts what is in flight, by endpoint generation. Several pickers may
// share one if their handles are of one index. The methods are safe for concurrent
// use.
//
// A generation ends for a ledger when it meets the handle of a later one: counts
// begin at zero then, and releases for the older are counted as late.
type Ledger struct {
	mu       sync.Mutex
	accounts []account // by endpoint slot
	tickets  []ticket  // a slab; a ticket's number is its place and its use
	free     []uint32  // places in tickets that are free
	stats    LedgerStats
}

// maxSlots bounds the accounts when handles are made up and name any slot.
const maxSlots = 1 << 20

// account is the load of one endpoint in its current generation.
type account struct {
	endpoint prefixindex.Endpoint
	requests int64
	tokens   int64
}

// ticket is one reservation.
type ticket struct {
	endpoint prefixindex.Endpoint // where it counts; zero: nowhere
	tokens   int64                // prompt tokens that count; 0 after the first token
	use      uint32               // of this place in the slab; a number with another use is spent
	began    bool                 // the first token was reported
}

// NewLedger returns an empty ledger. An error names the option.
func NewLedger(o LedgerOptions) (*Ledger, error) { return &Ledger{}, nil }

// InFlight returns the requests in flight on e, and the prompt tokens that they still
// have to compute. O(1), takes the ledger's lock.
func (l *Ledger) InFlight(e prefixindex.Endpoint) (requests, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.find(e); a != nil {
		return int(a.requests), int(min(a.tokens, math.MaxInt))
	}
	return 0, 0
}

// Stats returns counts since NewLedger. O(1), takes the ledger's lock.
func (l *Ledger) Stats() LedgerStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Open = len(l.tickets) - len(l.free)
	return s
}

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

// The rest is called with mu held.

// find returns the account of e, or nil if nothing was ever counted on it or its
// generation has ended.
func (l *Ledger) find(e prefixindex.Endpoint) *account {
	if slot := e.Slot(); e != 0 && slot < len(l.accounts) && l.accounts[slot].endpoint == e {
		return &l.accounts[slot]
	}
	return nil
}

// knows reports whether load can be counted on e: not for the zero handle, nor for one
// whose generation has ended.
func (l *Ledger) knows(e prefixindex.Endpoint) bool {
	slot := e.Slot()
	return e != 0 && slot < maxSlots && (slot >= len(l.accounts) || l.accounts[slot].endpoint <= e)
}

// add counts one more request on e and reports whether it could.
func (l *Ledger) add(e prefixindex.Endpoint, tokens int64) bool {
	if !l.knows(e) {
		return false
	}
	slot := e.Slot()
	if slot >= len(l.accounts) {
		l.accounts = append(l.accounts, make([]account, slot+1-len(l.accounts))...)
	}
	a := &l.accounts[slot]
	if a.endpoint != e {
		*a = account{endpoint: e}
	}
	a.requests++
	a.tokens += tokens
	return true
}

// remove takes back what add counted for t.
func (l *Ledger) remove(t *ticket) {
	if t.endpoint == 0 {
		return
	}
	if a := l.find(t.endpoint); a != nil {
		a.requests--
		a.tokens -= t.tokens
	} else {
		l.stats.Late++
	}
	t.endpoint, t.tokens = 0, 0
}

// reserve opens a ticket, counting on e where that is possible.
func (l *Ledger) reserve(e prefixindex.Endpoint, tokens int64) uint64 {
	if len(l.free) == 0 {
		l.tickets = append(l.tickets, ticket{})
		l.free = append(l.free, uint32(len(l.tickets)-1))
	}
	place := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	t := &l.tickets[place]
	if l.add(e, tokens) {
		t.endpoint, t.tokens = e, tokens
	}
	l.stats.Reserved++
	return uint64(t.use)<<32 | uint64(place+1) // never zero
}

// open returns the ticket with that number, or nil if it was released.
func (l *Ledger) open(number uint64) *ticket {
	if t := &l.tickets[uint32(number)-1]; t.use == uint32(number>>32) {
		return t
	}
	return nil
}

func (l *Ledger) firstToken(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.open(number)
	if t == nil || t.began {
		return
	}
	t.began = true
	l.stats.FirstTokens++
	if a := l.find(t.endpoint); a != nil {
		a.tokens -= t.tokens
	}
	t.tokens = 0
}

func (l *Ledger) move(number uint64, e prefixindex.Endpoint, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.open(number)
	if t == nil || t.endpoint == e {
		return
	}
	l.remove(t)
	l.stats.Moved++
	t.began = false
	if l.add(e, tokens) {
		t.endpoint, t.tokens = e, tokens
	}
}

func (l *Ledger) release(number uint64, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.open(number)
	if t == nil {
		l.stats.DoubleRelease++
		return
	}
	l.remove(t)
	*t = ticket{use: t.use + 1}
	l.free = append(l.free, uint32(number)-1)
	l.stats.Released++
	if int(o.Result) >= len(l.stats.Results) {
		o.Result = Unsaid
	}
	l.stats.Results[o.Result]++
}
