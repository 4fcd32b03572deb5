package picker

import (
	"errors"
	"fmt"
	"math"

	"github.com/warmroute/warmroute/scorer"
)

// ErrReplay means that a record cannot be read, or contradicts itself or the picker that is
// to replay it.
var ErrReplay = errors.New("picker: record cannot be replayed")

// Replay recomputes the choice that r records, with this picker's scorers, and
// returns the index of the winner, or -1 with the error of the pick. A record that
// was changed, such as in one signal, gives what the pick would have chosen then: ages
// follow from the times of the signals and of the pick. The picker needs scorers,
// filters and caps of the names that the record has, and the rest is the record's;
// otherwise the error is ErrReplay.
//
// O(candidates * scorers); it allocates. Nothing is counted, and no lock is taken.
func (p *Picker) Replay(r *Record) (winner int, err error) {
	policy, err := p.policy.as(r)
	if err != nil {
		return -1, err
	}
	s := sheet{home: r.Home}
	s.grow(len(r.Candidates))
	s.in = scorer.Input{
		Request:      &r.Request,
		PromptTokens: r.PromptTokens,
		BlockTokens:  r.BlockTokens,
		Candidates:   s.resolved,
		Now:          r.At,
	}
	for i := range r.Candidates {
		c := &s.resolved[i]
		*c = r.Candidates[i].Resolved
		if c.Eligible = r.Candidates[i].Verdict != skipped; c.Eligible {
			s.eligible = append(s.eligible, int32(i))
		}
		if c.Age, c.Stale = -1, false; !c.Signals.At.IsZero() {
			c.Age = max(r.At.Sub(c.Signals.At), 0)
			c.Stale = stale(c.Age, r.StaleAfter)
		}
		if c.Stale {
			s.counts.Stale++
		}
	}
	ch, err := policy.decide(&s, draw(r.Seed, r.Pick), nil)
	return ch.winner, err
}

// as returns p with the weights and the selection of r.
func (p *policy) as(r *Record) (policy, error) {
	q := policy{sel: r.Select}
	if err := r.Select.validate(); err != nil {
		return policy{}, fmt.Errorf("%w: %w", ErrReplay, err)
	}
	for _, want := range r.Scorers {
		found := false
		for _, t := range p.terms {
			if t.Name == want.Name {
				t.Weight, found = want.Weight, true
				q.terms = append(q.terms, t)
			}
		}
		if !found {
			return policy{}, fmt.Errorf("%w: the picker has no scorer %q", ErrReplay, want.Name)
		}
		if !(want.Weight >= 0) || math.IsInf(want.Weight, 1) {
			return policy{}, fmt.Errorf("%w: the weight of %q is %v", ErrReplay, want.Name, want.Weight)
		}
	}
	if err := share(q.terms); err != nil {
		return policy{}, fmt.Errorf("%w: %w", ErrReplay, err)
	}
	for _, want := range r.Filters {
		found := false
		for _, f := range p.filters {
			if f.Name == want.Name {
				found = true
				q.filters = append(q.filters, f)
			}
		}
		if !found {
			return policy{}, fmt.Errorf("%w: the picker has no filter or cap %q", ErrReplay, want.Name)
		}
		if !want.Cap {
			q.caps = len(q.filters)
		}
	}
	return q, nil
}
