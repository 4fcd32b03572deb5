package picker

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Errors of a pick say by what they are what to answer, and that of New what to mend.
var (
	// ErrOptions means that an option is out of its range, or contradicts another. The
	// message names the field, its value and range.
	ErrOptions = errors.New("picker: invalid option")

	// ErrNoCandidates means that none was offered, or that all were skipped or failed
	// a condition: HTTP 503.
	ErrNoCandidates = errors.New("picker: no candidate")

	// ErrOverloaded means that there were candidates, and caps removed them all:
	// HTTP 429.
	ErrOverloaded = errors.New("picker: all candidates are over a cap")
)

// Weighted is a scorer and its share in the sum.
type Weighted struct {
	Name   string // for records; unique among a picker's scorers
	Scorer scorer.Scorer
	Weight float64 // 0 or more, finite, not all 0; only ratios between weights matter
}

// Options configures a Picker. Options{Index: ix} is a good policy.
type Options struct {
	// Index answers what is cached. Nil: nothing is, unless candidates say so.
	Index *prefixindex.Index

	// Ledger counts what is in flight. Nil: one of the picker's own. Pickers that
	// send to the same endpoints share one; it takes handles of one index only.
	Ledger *Ledger

	// Scorers make the sum. Nil: DefaultScorers, and with them DefaultSelect unless Select
	// says otherwise.
	Scorers []Weighted

	// Filters are conditions: they remove candidates, in order, and none left is
	// ErrNoCandidates. Caps come after them: none left is ErrOverloaded.
	Filters, Caps []Named

	// Select chooses among the sums.
	Select Select

	// StaleAfter is the age past which signals are stale. Zero is the default of 5
	// seconds; a negative age is never.
	StaleAfter time.Duration

	// MinPromptTokens is the length below which a prompt is not matched: too short to be
	// worth a lookup. Zero: all are.
	MinPromptTokens int

	// Observers are told of picks and what became of them.
	Observers []Observer

	// Seed makes the choices repeatable. Zero draws a random one.
	Seed uint64

	// Clock tells the time, to many goroutines at once; by default time.Now.
	Clock func() time.Time
}

// Picker picks endpoints. Its methods are safe for concurrent use.
type Picker struct {
	index           *prefixindex.Index
	ledger          *Ledger
	policy          policy
	staleAfter      time.Duration
	minPromptTokens int
	blockTokens     int
	clock           func() time.Time
	seed            uint64
	observers       observers

	// Guarded by the ledger's lock, which every pick takes anyway.
	picks uint64
	stats Stats
}

// New returns a picker. The error is ErrOptions.
func New(o Options) (*Picker, error) {
	policy, err := newPolicy(&o)
	if err != nil {
		return nil, err
	}
	p := &Picker{
		index:           o.Index,
		ledger:          o.Ledger,
		policy:          policy,
		staleAfter:      o.StaleAfter,
		minPromptTokens: o.MinPromptTokens,
		blockTokens:     16,
		clock:           o.Clock,
		seed:            o.Seed,
	}
	if p.observers, err = newObservers(o.Observers); err != nil {
		return nil, err
	}
	if p.index != nil {
		p.blockTokens = p.index.Hasher().BlockTokens()
	}
	if p.ledger == nil {
		if p.ledger, err = NewLedger(LedgerOptions{}); err != nil {
			return nil, err
		}
	}
	if p.staleAfter == 0 {
		p.staleAfter = 5 * time.Second
	}
	if p.clock == nil {
		p.clock = time.Now
	}
	for p.seed == 0 {
		p.seed = rand.Uint64()
	}
	return p, nil
}

// Pick chooses one of c.Candidates for the request and counts it in flight there.
// Errors are ErrNoCandidates and ErrOverloaded; nothing is counted then.
//
// The match runs without a lock; filtering, scoring and choosing run under the
// ledger's, O(candidates * scorers). No I/O, no allocation once c has grown. Safe for
// concurrent use with different calls.
func (p *Picker) Pick(c *Call) (d Decision, err error) {
	p.resolve(c)
	if c.Record != nil {
		p.begin(c.Record, &c.sheet)
	}
	if p.observers.none() {
		err = p.settle(c, &d)
	} else {
		err = p.observed(c, &d)
	}
	return d, err
}

// settle is the part of a pick that is ordered against all others.
func (p *Picker) settle(c *Call, d *Decision) error {
	s := &c.sheet
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock() // also when a scorer panics
	p.picks++
	p.ledger.expire(s.in.Now)
	p.ledger.load(s)
	ch, err := p.policy.decide(s, draw(p.seed, p.picks), c.Record)
	p.stats.add(&s.counts)
	if c.Record != nil {
		c.Record.finish(p.picks, s, ch, err)
	}
	if err == nil {
		p.fill(d, s, &ch)
	}
	return err
}

// fill makes d the decision for ch, and reserves load on the winner.
func (p *Picker) fill(d *Decision, s *sheet, ch *choice) {
	w := &s.resolved[ch.winner]
	d.Index = ch.winner
	d.Endpoint = w.Endpoint
	d.Rank = w.Held.Rank
	d.CachedTokens = s.predicted(ch.winner)
	d.PromptTokens = s.in.PromptTokens
	d.Score = s.sums[ch.winner]
	d.Margin = ch.margin(s)
	d.Pick = p.picks
	d.nFallbacks = ch.n
	d.uncached = int64(s.in.Uncached(w))
	d.at = s.in.Now
	d.picker = p
	for k, i := range ch.fallbacks[:ch.n] {
		c := &s.resolved[i]
		d.fallbacks[k] = Fallback{
			Index: i, Endpoint: c.Endpoint, Rank: c.Held.Rank,
			CachedTokens: s.predicted(i), uncached: int64(s.in.Uncached(c)),
		}
	}
	if f := &s.facts[ch.winner]; !f.hostCounts {
		e := w.Endpoint
		if f.stranger {
			e = 0
		}
		d.ticket = p.ledger.reserve(e, d.uncached, tokensOf(d.CachedTokens), s.in.Now)
	}
}

// Stats returns counts since New. O(1), takes the ledger's lock; safe for concurrent
// use.
func (p *Picker) Stats() Stats {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	return p.stats
}

// Stats counts what a picker did.
type Stats struct {
	Picks        uint64 // decisions made
	NoCandidates uint64 // ErrNoCandidates
	Overloaded   uint64 // ErrOverloaded
	Ties         uint64 // picks decided at random among nearly equal candidates
	Homes        uint64 // picks among nearly equal candidates decided by the order of what is cached of the prompt
	Bounded      uint64 // picks in which Select.Bound kept candidates from winning
	Alone        uint64 // picks made without a match, as all but one were skipped; its load is that of a cold prompt
	Short        uint64 // picks made without a match, as the prompt was below MinPromptTokens

	Unknown   uint64 // opinions that were missing, a candidate and scorer each
	Stale     uint64 // candidates whose signals were stale
	AllStale  uint64 // picks in which those of all candidates were
	Clipped   uint64 // scores outside 0 to 1
	Blind     uint64 // candidates of which the index never heard anything
	Corrected uint64 // absurd input: negative numbers, runs not nested or beyond the prompt, times to come
	Strangers uint64 // candidates with a zero endpoint, or one that is no member of the index
}

func (s *Stats) add(o *Stats) {
	s.Picks += o.Picks
	s.NoCandidates += o.NoCandidates
	s.Overloaded += o.Overloaded
	s.Ties += o.Ties
	s.Homes += o.Homes
	s.Bounded += o.Bounded
	s.Alone += o.Alone
	s.Short += o.Short
	s.Unknown += o.Unknown
	s.Stale += o.Stale
	s.AllStale += o.AllStale
	s.Clipped += o.Clipped
	s.Blind += o.Blind
	s.Corrected += o.Corrected
	s.Strangers += o.Strangers
}
