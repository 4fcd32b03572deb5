package picker

import (
	"errors"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Errors of a pick. Which one it is says what to answer.
var (
	// ErrNoCandidates means that none was offered, or that all were skipped or failed
	// a condition: HTTP 503.
	ErrNoCandidates = errors.New("picker: no candidate")

	// ErrOverloaded means that there were candidates, and caps removed them all:
	// HTTP 429.
	ErrOverloaded = errors.New("picker: all candidates are over a cap")
)

var errUnbuilt = errors.New("picker: not built")

// Weighted is a scorer and its share in the sum.
type Weighted struct {
	Name   string // for records and statistics; unique in a picker
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

	// Scorers make the sum. Nil: DefaultScorers.
	Scorers []Weighted

	// Filters are conditions: they remove candidates, in order, and none left is
	// ErrNoCandidates. Caps come after them: none left is ErrOverloaded.
	Filters, Caps []Named

	// Select chooses among the sums.
	Select Select

	// StaleAfter is the age past which signals are stale. Zero is the default of 5
	// seconds; a negative age is never.
	StaleAfter time.Duration

	// Seed makes the choices repeatable. Zero draws a random one.
	Seed uint64

	// Clock tells the time; by default time.Now.
	Clock func() time.Time
}

// DefaultScorers returns the policy of a Picker whose Options.Scorers is nil: a
// new slice, to start one's own from.
func DefaultScorers() []Weighted { return nil }

// Picker picks endpoints. Its methods are safe for concurrent use.
type Picker struct{}

// New returns a picker. An error names the option, its value and range.
func New(o Options) (*Picker, error) { return nil, errUnbuilt }

// Call is one pick's input and memory. It is the caller's, serves one pick at a
// time, and is worth reusing: it holds the match and scratch space. A Decision refers
// to nothing of it, so it is free again as soon as Pick has returned.
type Call struct {
	Request    scorer.Request
	Prompt     *prefixindex.Prompt // nil: nothing is matched
	Candidates []scorer.Candidate  // read during the pick; order is kept and means nothing
	Record     *Record             // nil: nothing is recorded

	match prefixindex.Match
}

// Match returns what the last pick with this call found in the index. It is
// empty if the pick did not ask: no index, no prompt, a single candidate with a
// single rank that was not skipped, or all said themselves what they hold. O(1).
func (c *Call) Match() *prefixindex.Match { return &c.match }

// Pick chooses one of c.Candidates for the request and counts it in flight there.
// Errors are ErrNoCandidates and ErrOverloaded; nothing is counted then.
//
// The match runs without a lock; resolving, filtering, scoring and choosing run
// under the ledger's, O(candidates * scorers). No I/O, no allocation once c has
// grown. Safe for concurrent use with different calls.
func (p *Picker) Pick(c *Call) (Decision, error) { return Decision{}, errUnbuilt }

// Replay recomputes the choice that r records, with this picker's scorers, and
// returns the index of the winner, or -1 with the error of the pick. A record that
// was changed, such as in one signal, gives what the pick would have chosen then. The
// picker needs the scorers, filters and caps of the same names that made the record;
// weights, seed and pick number are the record's.
//
// O(candidates * scorers). Nothing is counted in flight.
func (p *Picker) Replay(r *Record) (winner int, err error) { return 0, errUnbuilt }

// Stats returns counts since New. O(1), safe for concurrent use.
func (p *Picker) Stats() Stats { return Stats{} }

// Stats counts what a picker did.
type Stats struct {
	Picks        uint64 // decisions made
	NoCandidates uint64 // ErrNoCandidates
	Overloaded   uint64 // ErrOverloaded
	Ties         uint64 // picks decided at random among nearly equal candidates
	Alone        uint64 // picks made without a match, as only one candidate was not skipped

	Unknown   uint64 // opinions that were missing, a candidate and scorer each
	Stale     uint64 // candidates whose signals were stale
	AllStale  uint64 // picks in which those of all candidates were
	Clipped   uint64 // scores outside 0 to 1
	Blind     uint64 // candidates of which the index never heard anything
	Corrected uint64 // absurd input from the host: negative loads, runs not nested
	Strangers uint64 // candidates with a zero endpoint, or one that is no member of the index
}
