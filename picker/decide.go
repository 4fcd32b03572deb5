package picker

import (
	"math"

	"github.com/warmroute/warmroute/scorer"
)

// decide filters, scores and selects: all of a pick that depends on the policy. It is
// a function of the sheet's input, the policy and the random number, so that a record
// can be replayed. rec may be nil. The ledger's lock is held in a pick.
func (p *policy) decide(s *sheet, random uint64, rec *Record) (choice, error) {
	if err := p.filter(s, rec); err != nil {
		return choice{winner: -1}, err
	}
	p.score(s, rec)
	ch := p.sel.choose(s, random)
	if rec != nil {
		for _, i := range s.over {
			rec.Candidates[i].Verdict = overBound
		}
	}
	s.counts.Picks++
	switch {
	case ch.tied == 1:
	case s.home != 0 && p.sel.Temperature == 0:
		s.counts.Homes++
	default:
		s.counts.Ties++
	}
	return ch, nil
}

// filter removes candidates, the conditions first and then the caps.
func (p *policy) filter(s *sheet, rec *Record) error {
	for j := 0; len(s.eligible) > 0 && j < len(p.filters); j++ {
		for i := range s.keep {
			s.keep[i] = s.in.Candidates[i].Eligible
		}
		p.filters[j].Filter.Filter(&s.in, s.keep)
		kept := s.eligible[:0]
		for _, i := range s.eligible {
			if s.keep[i] {
				kept = append(kept, i)
				continue
			}
			s.in.Candidates[i].Eligible = false
			if rec != nil {
				rec.Candidates[i].Verdict = p.filters[j].Name
			}
		}
		s.eligible = kept
		if len(kept) == 0 && j >= p.caps {
			s.counts.Overloaded++
			return ErrOverloaded
		}
	}
	if len(s.eligible) == 0 {
		s.counts.NoCandidates++
		return ErrNoCandidates
	}
	return nil
}

// score sums what the scorers say of the eligible candidates. The sums of others mean
// nothing.
func (p *policy) score(s *sheet, rec *Record) {
	stale := 0
	if s.counts.Stale > 0 {
		for _, i := range s.eligible {
			if s.in.Candidates[i].Stale {
				stale++
			}
		}
		if stale == len(s.eligible) {
			s.counts.AllStale++
		}
	}
	clear(s.sums)
	for j := range p.terms {
		t := &p.terms[j]
		if rec != nil {
			s.estimate(t.Scorer, rec, j, len(p.terms))
		}
		copy(s.out, s.nan)
		t.Scorer.Score(&s.in, s.out)
		if rec != nil {
			for _, i := range s.eligible {
				rec.Scores[int(i)*len(p.terms)+j].Raw = s.out[i]
			}
		}
		s.add(t, stale)
		if rec != nil {
			for _, i := range s.eligible {
				rec.Scores[int(i)*len(p.terms)+j].Used = s.out[i]
			}
		}
	}
}

// estimate records the times that a scorer's scores stand for, if it has any.
func (s *sheet) estimate(sc scorer.Scorer, rec *Record, j, terms int) {
	e, ok := sc.(scorer.Estimator)
	if !ok {
		return
	}
	e.Estimate(&s.in, s.out)
	for _, i := range s.eligible {
		rec.Scores[int(i)*terms+j].Millis = s.out[i]
	}
}

// one is the bits of 1. Numbers from 0 to 1 have no larger ones; negative numbers, larger
// numbers and NaN have.
const one = 0x3ff0_0000_0000_0000

// add adds the term's share of what is in out to the sums, and applies the rules for
// opinions when it meets the first that needs them: scores between 0 and 1 are not
// changed by the rules, so those before it may have been added already.
func (s *sheet) add(t *term, stale int) {
	settled := t.signals && stale > 0
	if settled {
		s.settleOpinions(true, stale)
	}
	out := s.out[:len(s.sums)]
	for i := range s.sums {
		if math.Float64bits(out[i]) > one && !settled { // not from 0 to 1; or -0, which settles as 0
			s.settleOpinions(t.signals, stale)
			settled = true
		}
		s.sums[i] += t.share * out[i]
	}
}

// settleOpinions applies the rules for scores that are missing, out of range or, for
// scorers that read signals, from stale ones.
func (s *sheet) settleOpinions(signals bool, stale int) {
	sum, n := 0.0, 0
	for _, i := range s.eligible {
		v := s.out[i]
		if math.IsNaN(v) {
			s.counts.Unknown++
			continue
		}
		if v < 0 || v > 1 {
			s.counts.Clipped++
			v = min(max(v, 0), 1)
			s.out[i] = v
		}
		if signals && s.in.Candidates[i].Stale {
			continue
		}
		sum += v
		n++
	}
	mean := 0.5
	if n > 0 {
		mean = sum / float64(n)
	}
	allStale := signals && stale == len(s.eligible)
	for _, i := range s.eligible {
		switch v := s.out[i]; {
		case allStale || math.IsNaN(v):
			s.out[i] = mean
		case signals && s.in.Candidates[i].Stale:
			s.out[i] = min(v, mean)
		}
	}
}
