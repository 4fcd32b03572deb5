package prefixindex

import "iter"

// Held says how much of a prompt one owner holds: leading tokens, counted in
// full blocks from the prompt's first. The three numbers are nested runs, each
// at least as long as the one before.
type Held struct {
	Rank int // the owner's rank on its endpoint; -1: of no rank in particular
	GPU  int // tokens held on GPU
	CPU  int // tokens held on GPU or CPU
	Any  int // tokens held on any tier
	View View
}

// Match is the answer to one lookup. The zero value is ready for Index.Match,
// which reuses its memory. A Match serves one goroutine at a time.
type Match struct{}

// Of returns what e holds on its best rank: the one with the largest sum of GPU,
// CPU and Any, among equals the lowest. For an endpoint that holds nothing, Rank is
// -1 and View is the least trusted of its ranks', so that "holds nothing" and "not
// known" stay apart; from the least to the most trusted: never, stale, gap,
// resyncing, assumed, live.
//
// O(ranks of e), no allocation.
func (m *Match) Of(e Endpoint) Held { return Held{} }

// Rank returns what one owner holds. O(ranks of e), no allocation.
func (m *Match) Rank(e Endpoint, rank int) Held { return Held{} }

// All yields every owner that holds at least the first block, in no order; an
// endpoint appears once for each such rank.
//
// O(owners that hold something).
func (m *Match) All() iter.Seq2[Endpoint, Held] { return nil }

// PromptTokens returns the length of the prompt that was looked up. O(1).
func (m *Match) PromptTokens() int { return 0 }
