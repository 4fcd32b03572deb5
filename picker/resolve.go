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
	longest := s.in.PromptTokens // run that may be
	if longest == 0 {
		longest = maxPromptTokens
	}
	s.matched = p.match(c)
	eligible := s.eligible
	for i := range c.Candidates {
		from, r, f := &c.Candidates[i], &s.resolved[i], &s.facts[i]
		r.Endpoint = from.Endpoint
		r.Signals = from.Signals
		r.InFlight = from.InFlight
		r.Labels = from.Labels
		if r.Eligible = !from.Skip; r.Eligible {
			eligible = append(eligible, int32(i))
		}
		r.Doubt, r.PrefillRate = 0, scorer.Value{}
		if r.Name, f.stranger = "", r.Endpoint == 0; p.index != nil && !f.stranger {
			r.Name = p.index.Name(r.Endpoint)
			f.stranger = r.Name == ""
		}
		if f.stranger && r.Eligible {
			s.counts.Strangers++
		}
		if r.Age, r.Stale = -1, false; !from.Signals.At.IsZero() {
			age := s.in.Now.Sub(from.Signals.At)
			r.Age, r.Stale = max(age, 0), stale(age, p.staleAfter)
			if r.Stale && r.Eligible {
				s.counts.Stale++
			}
			if age < -time.Minute { // clocks of machines differ, but not by that much
				s.counts.Corrected++
			}
		}
		if from.Signals.Waiting.Negative() || from.Signals.Running.Negative() ||
			from.InFlight.Requests.Negative() || from.InFlight.Tokens.Negative() {
			s.correct(r)
		}
		_, f.hostCounts = from.InFlight.Requests.Get()
		_, f.hostTokens = from.InFlight.Tokens.Get()
		h := from.Cached.Peek()
		if f.heldKnown = h != nil; f.heldKnown {
			r.Held = *h
			if h.GPU < 0 || h.CPU < h.GPU || h.Any < h.CPU || h.Any > longest {
				s.nest(&r.Held, longest)
			}
			continue
		}
		if !s.matched || f.stranger {
			r.Held = prefixindex.Held{Rank: -1}
			continue
		}
		r.Held = c.match.Of(r.Endpoint)
		f.heldKnown = r.Held.View != prefixindex.ViewNever || r.Held.Any > 0
		if !f.heldKnown && r.Eligible {
			s.counts.Blind++
		}
	}
	s.eligible = eligible
	s.home = p.home(c)
}

// home returns the hash of the longest run of the prompt that a candidate has cached, or 0
// if that is less than half of the prompt: a chat template that all prompts begin with must
// not bring them all to one place.
func (p *Picker) home(c *Call) uint64 {
	s := &c.sheet
	if !s.matched {
		return 0
	}
	longest := 0
	for _, i := range s.eligible {
		longest = max(longest, s.in.Saved(&s.resolved[i]))
	}
	if longest == 0 || 2*longest < s.in.PromptTokens {
		return 0
	}
	return uint64(p.index.Hasher().Hash(c.Prompt, longest/p.blockTokens))
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
		if c.Candidates[i].Cached.Peek() == nil {
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

// stale reports whether signals of that age are too old.
func stale(age, limit time.Duration) bool { return limit > 0 && age > limit }

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

// nest makes runs that a host gave nested, and no longer than longest.
func (s *sheet) nest(h *prefixindex.Held, longest int) {
	was := *h
	h.GPU = min(max(h.GPU, 0), longest)
	h.CPU = min(max(h.CPU, h.GPU), longest)
	h.Any = min(max(h.Any, h.CPU), longest)
	if h.GPU != was.GPU || h.CPU != was.CPU && was.CPU != 0 || h.Any != was.Any && was.Any != 0 {
		s.counts.Corrected++
	}
}
