package picker

import (
	"fmt"
	"math"
	"reflect"

	"github.com/warmroute/warmroute/scorer"
)

// policy is what New made of the scorers, filters, caps and selection.
type policy struct {
	terms   []term
	filters []Named // conditions, then caps
	caps    int     // where the caps begin
	sel     Select
}

// term is a weighted scorer.
type term struct {
	Weighted
	share   float64 // of the sum of all weights
	signals bool    // the rule for stale signals applies
}

// newPolicy makes a policy of o, or names the option that is wrong.
func newPolicy(o *Options) (policy, error) {
	scorers, sel := o.Scorers, o.Select
	if scorers == nil {
		scorers = DefaultScorers()
		if sel == (Select{}) {
			sel = DefaultSelect()
		}
	}
	p := policy{sel: sel, caps: len(o.Filters)}
	if err := o.Select.validate(); err != nil {
		return policy{}, err
	}
	if o.MinPromptTokens < 0 {
		return policy{}, fmt.Errorf("%w: Options.MinPromptTokens is %d; it must not be negative", ErrOptions,
			o.MinPromptTokens)
	}
	names := make(map[string]bool)
	for i, w := range scorers {
		field := fmt.Sprintf("Options.Scorers[%d]", i)
		if err := checkName(field, w.Name, names); err != nil {
			return policy{}, err
		}
		if err := checkPart(field+".Scorer", w.Scorer); err != nil {
			return policy{}, err
		}
		if !(w.Weight >= 0) || math.IsInf(w.Weight, 1) {
			return policy{}, fmt.Errorf("%w: %s.Weight of %q is %v; it must be finite and not negative", ErrOptions,
				field, w.Name, w.Weight)
		}
		_, signals := w.Scorer.(scorer.SignalScorer)
		p.terms = append(p.terms, term{Weighted: w, signals: signals})
	}
	if err := share(p.terms); err != nil {
		return policy{}, err
	}
	clear(names)
	for _, group := range []struct {
		field string
		named []Named
	}{{"Options.Filters", o.Filters}, {"Options.Caps", o.Caps}} {
		for i, f := range group.named {
			field := fmt.Sprintf("%s[%d]", group.field, i)
			if err := checkName(field, f.Name, names); err != nil {
				return policy{}, err
			}
			if err := checkPart(field+".Filter", f.Filter); err != nil {
				return policy{}, err
			}
			p.filters = append(p.filters, f)
		}
	}
	return p, nil
}

// share turns weights into shares of their sum.
func share(terms []term) error {
	total := 0.0
	for i := range terms {
		total += terms[i].Weight
	}
	if !(total > 0) || math.IsInf(total, 1) {
		return fmt.Errorf("%w: the weights of Options.Scorers sum to %v; the sum must be positive and finite",
			ErrOptions, total)
	}
	for i := range terms {
		terms[i].share = terms[i].Weight / total
	}
	return nil
}

// Verdicts that are not the name of a filter.
const (
	skipped   = "skipped"    // the host would not have it
	overBound = "over bound" // Select.Bound: it was scored, and could not win
)

func checkName(field, name string, seen map[string]bool) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: %s.Name is empty", ErrOptions, field)
	case name == skipped || name == overBound:
		return fmt.Errorf("%w: %s.Name is %q, which has a meaning of its own in records", ErrOptions,
			field, name)
	case seen[name]:
		return fmt.Errorf("%w: %s.Name is %q, which another one has", ErrOptions, field, name)
	}
	seen[name] = true
	return nil
}

func checkPart(field string, part any) error {
	if isNil(part) {
		return fmt.Errorf("%w: %s is nil", ErrOptions, field)
	}
	if v, ok := part.(scorer.Validator); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrOptions, field, err)
		}
	}
	return nil
}

// isNil reports whether part is nil, or a nil function or pointer in an interface, which
// would panic in the first pick.
func isNil(part any) bool {
	v := reflect.ValueOf(part)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Func, reflect.Pointer:
		return v.IsNil()
	default:
		return false
	}
}
