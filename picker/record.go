package picker

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/scorer"
)

// Record is all that one pick looked at and computed. The caller owns it; a pick
// overwrites it and reuses its slices. It holds no reference to the pick's input
// and no prompt text or tokens. It can be written as JSON, read elsewhere, and replayed.
type Record struct { //nolint:recvcheck // values and pointers are written as JSON
	Pick uint64 // number of the pick
	Seed uint64 // of the picker
	At   time.Time
	Err  error // ErrNoCandidates or ErrOverloaded; nil if there is a winner

	Request      scorer.Request
	PromptTokens int
	BlockTokens  int
	Matched      bool   // the index was asked
	Home         uint64 // hash of what is cached of the prompt, by which near ties are ordered; 0: by chance
	StaleAfter   time.Duration
	Select       Select

	Scorers    []ScorerRecord
	Filters    []FilterRecord    // in the order in which they were asked
	Candidates []CandidateRecord // as offered
	Scores     []ScoreRecord     // of candidate i by scorer j at [i*len(Scorers)+j]

	Winner   int // place in Candidates; -1 if there is none
	RunnerUp int // the best of the others; -1 if there is none
	Tied     int // candidates among which the winner was drawn; 1 if it was not
}

// FilterRecord names a filter or cap.
type FilterRecord struct {
	Name string
	Cap  bool
}

// ScorerRecord names a scorer and its weight.
type ScorerRecord struct {
	Name   string
	Weight float64
}

// CandidateRecord is one candidate of a pick.
type CandidateRecord struct {
	Resolved scorer.Resolved // Eligible as the filters left it
	Verdict  string          // why it could not win: "skipped", or the name of a filter; "" if it could
	Sum      float64         // of the scores used, each times its share of the weights; 0 to 1

	HostCounts bool // InFlight is the host's, and the pick reserved nothing
	HeldKnown  bool // somebody knows what is held, if only that it is nothing
}

// ScoreRecord is one scorer's opinion of one candidate.
type ScoreRecord struct {
	Raw    float64 // as the scorer gave it; NaN for no opinion
	Used   float64 // as it entered the sum, after the rules for unknown and stale
	Millis float64 // the time that it stands for, of scorers that estimate one; NaN of others
}

// begin writes what is known before a pick takes the lock.
func (p *Picker) begin(r *Record, s *sheet) {
	*r = Record{
		Seed:         p.seed,
		At:           s.in.Now,
		Request:      *s.in.Request,
		PromptTokens: s.in.PromptTokens,
		BlockTokens:  s.in.BlockTokens,
		Matched:      s.matched,
		Home:         s.home,
		StaleAfter:   p.staleAfter,
		Select:       p.policy.sel,
		Scorers:      r.Scorers[:0],
		Filters:      r.Filters[:0],
		Candidates:   resize(r.Candidates, len(s.resolved)),
		Scores:       resize(r.Scores, len(s.resolved)*len(p.policy.terms)),
		Winner:       -1,
		RunnerUp:     -1,
	}
	for j := range p.policy.terms {
		r.Scorers = append(r.Scorers, ScorerRecord{Name: p.policy.terms[j].Name, Weight: p.policy.terms[j].Weight})
	}
	for j, f := range p.policy.filters {
		r.Filters = append(r.Filters, FilterRecord{Name: f.Name, Cap: j >= p.policy.caps})
	}
	for i := range r.Scores {
		r.Scores[i] = ScoreRecord{Raw: math.NaN(), Used: math.NaN(), Millis: math.NaN()}
	}
	for i := range s.resolved {
		c := &r.Candidates[i]
		*c = CandidateRecord{HostCounts: s.facts[i].hostCounts, HeldKnown: s.facts[i].heldKnown}
		if !s.resolved[i].Eligible {
			c.Verdict = skipped
		}
	}
}

// finish writes the rest, under the lock.
func (r *Record) finish(pick uint64, s *sheet, ch choice, err error) {
	r.Pick, r.Err = pick, err
	for i := range r.Candidates {
		r.Candidates[i].Resolved = s.resolved[i]
	}
	if err != nil {
		return
	}
	for _, i := range s.eligible {
		r.Candidates[i].Sum = s.sums[i]
	}
	r.Winner, r.Tied = ch.winner, ch.tied
	if ch.n > 0 {
		r.RunnerUp = ch.fallbacks[0]
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
