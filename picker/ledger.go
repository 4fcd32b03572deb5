package picker

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// LedgerOptions configures a Ledger. The zero value is a good default.
type LedgerOptions struct {
	// Lease, if positive, releases a reservation that was not renewed for so long:
	// for hosts that cannot call Done on every path. FirstToken, Moved and Renew
	// renew it. A lease shorter than the longest request loses load that is still
	// there, so there is none by default. Leases are looked after by picks and
	// reports, on the pickers' clock.
	Lease time.Duration
}

// Ledger counts what is in flight, by endpoint generation, and learns from what is
// reported of it. Several pickers may share one if their handles are of one index. The
// methods are safe for concurrent use.
//
// A generation ends for a ledger when it meets the handle of a later one: counts
// begin at zero then, and releases for the older are counted as late.
type Ledger struct {
	lease time.Duration

	mu       sync.Mutex
	accounts []account // by endpoint slot
	tickets  []ticket  // a slab; a ticket's number is its place and its use
	free     []uint32  // places in tickets that are free
	leases   leases
	stats    LedgerStats
}

// maxSlots bounds the accounts when handles are made up and name any slot.
const maxSlots = 1 << 17

// account is one endpoint in its current generation.
type account struct {
	endpoint prefixindex.Endpoint
	requests int64
	tokens   int64
	learned  learned
}

// ticket is one reservation.
type ticket struct {
	endpoint  prefixindex.Endpoint // where it counts; zero: nowhere
	tokens    int64                // prompt tokens that count; 0 after the first token
	predicted int64                // tokens that should be cached there; -1: not known
	ahead     int64                // tokens that were to be computed there, with its own, when it came
	since     time.Time            // when it came there
	picked    time.Time
	first     time.Time // first token; zero: not yet

	use uint32 // of this place in the slab; a number with another use is spent

	next, prev uint32 // in leases: places + 1
	renewed    time.Time
}

// NewLedger returns an empty ledger. An error names the option, its value and range.
func NewLedger(o LedgerOptions) (*Ledger, error) {
	if o.Lease < 0 {
		return nil, fmt.Errorf("picker: LedgerOptions.Lease is %v; it must not be negative", o.Lease)
	}
	return &Ledger{lease: o.Lease}, nil
}

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

// LedgerStats counts reservations and reports.
type LedgerStats struct {
	Open int // reservations not released; grows without end if Done is missing on some path

	Reserved      uint64
	FirstTokens   uint64
	Moved         uint64
	Released      uint64    // calls of Done that took effect
	Results       [5]uint64 // the same by Result, and those of requests that the host counts
	DoubleRelease uint64    // calls of Done after the first, or after the lease had ended
	Expired       uint64    // leases that ended
	Late          uint64    // releases for a generation that had ended

	Reported        uint64 // requests with a prediction of cached tokens and a report of them
	Unreported      uint64 // requests that ended well, with a prediction and without a report
	PredictedTokens uint64 // of the requests that were reported
	ReportedTokens  uint64
	Corrected       uint64 // absurd reports: negative tokens
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

// open returns the account of e, beginning its generation if need be, or nil if there
// can be none.
func (l *Ledger) open(e prefixindex.Endpoint) *account {
	if !l.knows(e) {
		return nil
	}
	slot := e.Slot()
	if slot >= len(l.accounts) {
		l.accounts = append(l.accounts, make([]account, slot+1-len(l.accounts))...)
	}
	a := &l.accounts[slot]
	if a.endpoint != e {
		*a = account{endpoint: e}
	}
	return a
}

// load fills in what is known of each candidate here.
func (l *Ledger) load(s *sheet) {
	nothing := scorer.Known(0)
	for i := range s.resolved {
		r, f := &s.resolved[i], &s.facts[i]
		if f.stranger {
			continue
		}
		requests, tokens := nothing, nothing
		if a := l.find(r.Endpoint); a != nil {
			if a.requests != 0 {
				requests, tokens = scorer.Known(float64(a.requests)), scorer.Known(float64(a.tokens))
			}
			r.Doubt = a.learned.doubt
			r.PrefillRate = a.learned.rate()
		} else if !l.knows(r.Endpoint) {
			continue
		}
		if !f.hostCounts {
			r.InFlight.Requests = requests
			if !f.hostTokens {
				r.InFlight.Tokens = tokens
			}
		}
	}
}

// put counts t on e, where that is possible.
func (l *Ledger) put(t *ticket, e prefixindex.Endpoint, tokens int64, now time.Time) {
	t.since, t.ahead = now, tokens
	a := l.open(e)
	if a == nil {
		return
	}
	a.requests++
	a.tokens += tokens
	t.endpoint, t.tokens, t.ahead = e, tokens, a.tokens
}

// take takes back what put counted.
func (l *Ledger) take(t *ticket) {
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

// reserve opens a ticket for a request that goes to e.
func (l *Ledger) reserve(e prefixindex.Endpoint, tokens, predicted int64, now time.Time) uint64 {
	if len(l.free) == 0 {
		l.tickets = append(l.tickets, ticket{})
		l.free = append(l.free, uint32(len(l.tickets)-1))
	}
	place := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	t := &l.tickets[place]
	t.picked, t.predicted = now, predicted
	l.put(t, e, tokens, now)
	l.renew(place, now)
	l.stats.Reserved++
	return uint64(t.use)<<32 | uint64(place+1) // never zero
}

// ticket returns the place of the ticket with that number, and the ticket, or nil if it
// was released.
func (l *Ledger) ticket(number uint64) (place uint32, t *ticket) {
	place = uint32(number) - 1
	if t = &l.tickets[place]; t.use != uint32(number>>32) {
		return place, nil
	}
	return place, t
}

// close ends a ticket and frees its place for another use.
func (l *Ledger) close(place uint32, t *ticket) {
	l.take(t)
	l.leases.remove(l.tickets, place)
	*t = ticket{use: t.use + 1}
	l.free = append(l.free, place)
}

// These take the lock.

func (l *Ledger) firstToken(number uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	place, t := l.ticket(number)
	if t == nil || !t.first.IsZero() {
		return
	}
	t.first = now
	l.stats.FirstTokens++
	if a := l.find(t.endpoint); a != nil {
		a.tokens -= t.tokens
		a.learned.firstToken(t.ahead, now.Sub(t.since))
	}
	t.tokens = 0
	l.renew(place, now)
}

func (l *Ledger) move(number uint64, e prefixindex.Endpoint, tokens, predicted int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	place, t := l.ticket(number)
	if t == nil || t.endpoint == e {
		return
	}
	l.take(t)
	t.first, t.predicted = time.Time{}, predicted
	l.put(t, e, tokens, now)
	l.stats.Moved++
	l.renew(place, now)
}

func (l *Ledger) touch(number uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	if place, t := l.ticket(number); t != nil {
		l.renew(place, now)
	}
}

// release returns what the ticket said when it ended, and false if it had ended before.
func (l *Ledger) release(number uint64, o *Outcome, now time.Time) (ticket, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	place, t := l.ticket(number)
	if t == nil {
		l.stats.DoubleRelease++
		return ticket{}, false
	}
	was := *t
	l.close(place, t)
	l.stats.Released++
	l.report(was.endpoint, was.predicted, o)
	return was, true
}

// releaseUncounted is release for a request that the host counts, and of which there is
// no ticket.
func (l *Ledger) releaseUncounted(e prefixindex.Endpoint, predicted int64, o *Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report(e, predicted, o)
}
