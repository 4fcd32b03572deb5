package picker

import (
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Call is one pick's input and memory. It is the caller's, serves one pick at a
// time, and is worth reusing: it holds the match and scratch space. A Decision refers
// to nothing of it, so it is free again as soon as Pick has returned.
type Call struct {
	Request    scorer.Request
	Prompt     *prefixindex.Prompt // nil: nothing is matched
	Candidates []scorer.Candidate  // read during the pick; order is kept and means nothing
	Record     *Record             // nil: nothing is recorded

	match prefixindex.Match
	sheet sheet
}

// Match returns what the last pick with this call found in the index. It means
// nothing if the pick did not ask: no index, no prompt, a single candidate with a
// single rank that was not skipped, or all said themselves what they hold. O(1).
func (c *Call) Match() *prefixindex.Match { return &c.match }

// sheet is what one pick works on.
type sheet struct {
	in       scorer.Input
	resolved []scorer.Resolved
	facts    []facts
	eligible []int32
	keep     []bool
	out      []float64
	sums     []float64
	matched  bool
	counts   Stats // of this pick
}

// facts are what the picker knows of a candidate beyond what scorers see.
type facts struct {
	hostCounts bool // the ledger neither counts nor reserves
	stranger   bool
	heldKnown  bool // Held is what somebody knows, if only that it is nothing
}

// Bounds on what a host may say: beyond, sums would overflow.
const maxPromptTokens = 1 << 30

// resolve fills the sheet with all that does not depend on other picks.
func (p *Picker) resolve(c *Call) {
	s := &c.sheet
	n := len(c.Candidates)
	s.grow(n)
	s.counts = Stats{}
	s.in = scorer.Input{
		Request:      &c.Request,
		PromptTokens: c.Request.PromptTokens,
		BlockTokens:  p.blockTokens,
		Candidates:   s.resolved,
		Now:          p.clock(),
	}
	if c.Prompt != nil {
		s.in.PromptTokens = c.Prompt.Tokens()
	}
	s.in.PromptTokens = s.clamp(s.in.PromptTokens, maxPromptTokens)
	s.matched = p.match(c)
	for i := range c.Candidates {
		p.resolveOne(s, i, &c.Candidates[i], &c.match)
	}
}

// match asks the index, where the answer can make a difference.
func (p *Picker) match(c *Call) bool {
	if p.index == nil || c.Prompt == nil {
		return false
	}
	asked, offered := 0, 0
	var last prefixindex.Endpoint
	for i := range c.Candidates {
		if c.Candidates[i].Skip {
			continue
		}
		offered++
		if _, known := c.Candidates[i].Cached.Get(); !known {
			asked++
			last = c.Candidates[i].Endpoint
		}
	}
	if asked == 0 {
		return false
	}
	if offered == 1 && p.index.View(last, 1) == prefixindex.ViewNever {
		c.sheet.counts.Alone++
		return false
	}
	p.index.Match(c.Prompt, &c.match)
	return true
}

func (p *Picker) resolveOne(s *sheet, i int, c *scorer.Candidate, m *prefixindex.Match) {
	r, f := &s.resolved[i], &s.facts[i]
	*f = facts{stranger: p.stranger(c.Endpoint)}
	r.Endpoint = c.Endpoint
	r.Signals = c.Signals
	r.Eligible = !c.Skip

	r.Age, r.Stale = age(s.in.Now, c.Signals.At, p.staleAfter)
	if r.Stale && r.Eligible {
		s.counts.Stale++
	}
	if r.Age == 0 && c.Signals.At.Sub(s.in.Now) > time.Minute {
		s.counts.Corrected++
	}
	r.Signals.Waiting = s.atLeastZero(c.Signals.Waiting)
	r.Signals.Running = s.atLeastZero(c.Signals.Running)
	r.InFlight.Requests = s.atLeastZero(c.InFlight.Requests)
	r.InFlight.Tokens = s.atLeastZero(c.InFlight.Tokens)
	_, f.hostCounts = c.InFlight.Requests.Get()

	held, known := c.Cached.Get()
	switch {
	case known:
		held = s.nested(held)
	case f.stranger:
		held = prefixindex.Held{Rank: -1}
	case s.matched:
		held = m.Of(c.Endpoint)
		known = held.View != prefixindex.ViewNever || held.Any > 0
		if !known && r.Eligible {
			s.counts.Blind++
		}
	default:
		held = prefixindex.Held{Rank: -1}
	}
	r.Held, f.heldKnown = held, known
	if f.stranger && r.Eligible {
		s.counts.Strangers++
	}
}

// age returns how old signals are, and whether that is too old. A negative age means
// that nobody said when they were measured.
func age(now, at time.Time, limit time.Duration) (time.Duration, bool) {
	if at.IsZero() {
		return -1, false
	}
	age := max(now.Sub(at), 0) // clocks differ a little between machines
	return age, limit > 0 && age > limit
}

func (s *sheet) atLeastZero(v scorer.Value) scorer.Value {
	if x, ok := v.Get(); ok && x < 0 {
		s.counts.Corrected++
		return scorer.Known(0)
	}
	return v
}

func (s *sheet) clamp(n, limit int) int {
	if n < 0 || n > limit {
		s.counts.Corrected++
		return min(max(n, 0), limit)
	}
	return n
}

// nested corrects what a host says of its cache.
func (s *sheet) nested(h prefixindex.Held) prefixindex.Held {
	limit := s.in.PromptTokens
	if limit == 0 {
		limit = maxPromptTokens
	}
	was := h
	h.GPU = min(max(h.GPU, 0), limit)
	h.CPU = min(max(h.CPU, h.GPU), limit)
	h.Any = min(max(h.Any, h.CPU), limit)
	if h.GPU != was.GPU || h.CPU != was.CPU && was.CPU != 0 || h.Any != was.Any && was.Any != 0 {
		s.counts.Corrected++
	}
	return h
}

// predicted returns what candidate i should find in its cache.
func (s *sheet) predicted(i int) scorer.Value {
	if !s.facts[i].heldKnown || s.in.PromptTokens == 0 {
		return scorer.Value{}
	}
	return scorer.Known(float64(s.in.Saved(&s.in.Candidates[i])))
}

// grow makes room for n candidates.
func (s *sheet) grow(n int) {
	if cap(s.resolved) < n {
		s.resolved = make([]scorer.Resolved, n)
		s.facts = make([]facts, n)
		s.eligible = make([]int32, 0, n)
		s.keep = make([]bool, n)
		s.out = make([]float64, n)
		s.sums = make([]float64, n)
	}
	s.resolved = s.resolved[:n]
	s.facts = s.facts[:n]
	s.eligible = s.eligible[:0]
	s.keep = s.keep[:n]
	s.out = s.out[:n]
	s.sums = s.sums[:n]
}

// load fills in what is in flight. The ledger's lock is held.
func (l *Ledger) load(s *sheet) {
	for i := range s.resolved {
		r, f := &s.resolved[i], &s.facts[i]
		if f.stranger || !l.knows(r.Endpoint) {
			continue
		}
		var a account
		if slot := r.Endpoint.Slot(); slot < len(l.accounts) && l.accounts[slot].endpoint == r.Endpoint {
			a = l.accounts[slot]
		}
		if _, known := r.InFlight.Requests.Get(); !known {
			r.InFlight.Requests = scorer.Known(float64(a.requests))
		}
		if _, known := r.InFlight.Tokens.Get(); !known && !f.hostCounts {
			r.InFlight.Tokens = scorer.Known(float64(a.tokens))
		}
	}
}
