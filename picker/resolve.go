package picker

import (
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// maxPromptTokens bounds what a host may say of a prompt: beyond, sums could overflow.
const maxPromptTokens = 1 << 30

// resolve fills the sheet with all that does not depend on other picks.
func (p *Picker) resolve(c *Call) {
	s := &c.sheet
	s.grow(len(c.Candidates))
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
	if n := s.in.PromptTokens; n < 0 || n > maxPromptTokens {
		s.counts.Corrected++
		s.in.PromptTokens = min(max(n, 0), maxPromptTokens)
	}
	s.matched = p.match(c)
	for i := range c.Candidates {
		from, r, f := &c.Candidates[i], &s.resolved[i], &s.facts[i]
		r.Endpoint = from.Endpoint
		r.Signals = from.Signals
		r.InFlight = from.InFlight
		r.Labels = from.Labels
		r.Eligible = !from.Skip
		r.Doubt, r.PrefillRate = 0, scorer.Value{}
		if f.stranger = p.name(r); f.stranger && r.Eligible {
			s.counts.Strangers++
		}
		p.age(s, r)
		if r.Signals.Waiting.Negative() || r.Signals.Running.Negative() ||
			r.InFlight.Requests.Negative() || r.InFlight.Tokens.Negative() {
			s.correct(r)
		}
		_, f.hostCounts = r.InFlight.Requests.Get()
		_, f.hostTokens = r.InFlight.Tokens.Get()
		if r.Held, f.heldKnown = from.Cached.Get(); f.heldKnown {
			s.nest(&r.Held)
			continue
		}
		r.Held = prefixindex.Held{Rank: -1}
		if s.matched && !f.stranger {
			r.Held = c.match.Of(r.Endpoint)
			f.heldKnown = r.Held.View != prefixindex.ViewNever || r.Held.Any > 0
			if !f.heldKnown && r.Eligible {
				s.counts.Blind++
			}
		}
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
	switch counts := &c.sheet.counts; {
	case asked == 0:
		return false
	case c.sheet.in.PromptTokens < p.minPromptTokens:
		counts.Short++
		return false
	case offered == 1 && p.index.View(last, 1) == prefixindex.ViewNever:
		counts.Alone++
		return false
	}
	p.index.Match(c.Prompt, &c.match)
	return true
}

// name fills in the endpoint's name and reports whether nothing can be counted there.
func (p *Picker) name(r *scorer.Resolved) (stranger bool) {
	r.Name = ""
	if r.Endpoint == 0 || p.index == nil {
		return r.Endpoint == 0
	}
	r.Name = p.index.Name(r.Endpoint)
	return r.Name == ""
}

// age fills in how old the signals are, and whether that is too old.
func (p *Picker) age(s *sheet, r *scorer.Resolved) {
	r.Age, r.Stale = age(s.in.Now, r.Signals.At, p.staleAfter)
	if r.Stale && r.Eligible {
		s.counts.Stale++
	}
	if r.Age == 0 && r.Signals.At.Sub(s.in.Now) > time.Minute {
		s.counts.Corrected++
	}
}

// age is negative if nobody said when the signals were measured.
func age(now, at time.Time, limit time.Duration) (time.Duration, bool) {
	if at.IsZero() {
		return -1, false
	}
	age := max(now.Sub(at), 0) // clocks differ a little between machines
	return age, limit > 0 && age > limit
}

// correct takes negative counts as zero.
func (s *sheet) correct(r *scorer.Resolved) {
	for _, v := range []*scorer.Value{
		&r.Signals.Waiting, &r.Signals.Running, &r.InFlight.Requests, &r.InFlight.Tokens,
	} {
		if v.Negative() {
			*v = scorer.Known(0)
			s.counts.Corrected++
		}
	}
}

// nest makes runs that a host gave nested, and no longer than the prompt.
func (s *sheet) nest(h *prefixindex.Held) {
	limit := s.in.PromptTokens
	if limit == 0 {
		limit = maxPromptTokens
	}
	if h.GPU >= 0 && h.CPU >= h.GPU && h.Any >= h.CPU && h.Any <= limit {
		return
	}
	was := *h
	h.GPU = min(max(h.GPU, 0), limit)
	h.CPU = min(max(h.CPU, h.GPU), limit)
	h.Any = min(max(h.Any, h.CPU), limit)
	if h.GPU != was.GPU || h.CPU != was.CPU && was.CPU != 0 || h.Any != was.Any && was.Any != 0 {
		s.counts.Corrected++
	}
}
