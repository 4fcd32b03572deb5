package picker

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Explain returns the decision in words and numbers: what won and by how much, what its
// cache saves, and which scorers spoke for it and which against it; then a table of what
// was seen of the candidates, the best first, one of how their sums come about, and what
// was not known. In the second each number is a score times its share of the weights, of
// at most that share, so that a line adds up and columns can be weighed against each other.
//
// O(candidates * scorers); it allocates.
func (r *Record) Explain() string {
	var b strings.Builder
	r.verdict(&b)
	r.prompt(&b)
	r.reasons(&b)
	order := r.order()
	shown := order[:min(len(order), maxRows)]
	writeTable(&b, r.seen(shown))
	scores, same := r.scores(shown)
	writeTable(&b, scores)
	remarks := r.remarks(shown)
	if len(same) > 0 {
		remarks = append(remarks, fmt.Sprintf("the rest is the same for all: %s.", strings.Join(same, ", ")))
	}
	if n := len(order) - len(shown); n > 0 {
		remarks = append(remarks, fmt.Sprintf("%d more candidates are in the record.", n))
	}
	if len(remarks) > 0 {
		b.WriteByte('\n')
	}
	for _, remark := range remarks {
		fmt.Fprintf(&b, "- %s\n", remark)
	}
	return b.String()
}

// maxRows is how many candidates an explanation shows.
const maxRows = 16

// sound reports whether place i of the record is there to be looked at: a record is
// plain data, and may have been made or changed by hand.
func (r *Record) sound(i int) bool {
	return i >= 0 && i < len(r.Candidates) && len(r.Scores) == len(r.Candidates)*len(r.Scorers)
}

// order is the winner, then the others that were scored, the best first, then the rest.
func (r *Record) order() []int {
	order := make([]int, len(r.Candidates))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) float64 {
		switch c := &r.Candidates[i]; {
		case i == r.Winner:
			return math.Inf(-1)
		case c.scored():
			return -c.Sum
		default:
			return math.Inf(1)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(rank(i), rank(j)) })
	return order
}

// verdict says who won, or why nobody did.
func (r *Record) verdict(b *strings.Builder) {
	if !r.sound(r.Winner) {
		switch {
		case len(r.Candidates) == 0:
			b.WriteString("Nobody wins: no candidate was offered.\n")
		case errors.Is(r.Err, ErrOverloaded):
			b.WriteString("Nobody wins: caps removed every candidate that was left.\n")
		default:
			b.WriteString("Nobody wins: all candidates were skipped or failed a condition.\n")
		}
		return
	}
	w := &r.Candidates[r.Winner]
	fmt.Fprintf(b, "%s wins with %.3f of 1", r.name(r.Winner), w.Sum)
	switch {
	case !r.sound(r.RunnerUp) && len(r.Candidates) == 1:
		b.WriteString("; it was the only one offered")
	case !r.sound(r.RunnerUp):
		fmt.Fprintf(b, "; it was the only one left of %d", len(r.Candidates))
	case r.Tied > 1 && r.Select.Temperature > 0:
		fmt.Fprintf(b, ", drawn among %d at temperature %g", r.Tied, r.Select.Temperature)
	case r.Tied > 1 && r.Home != 0:
		fmt.Fprintf(b, ", in its prefix's order the first of %d that are nearly as good", r.Tied)
	case r.Tied > 1:
		fmt.Fprintf(b, ", drawn among %d that are within %g of the best", r.Tied, r.Select.band())
	case r.Candidates[r.RunnerUp].Sum > w.Sum:
		fmt.Fprintf(b, "; %s has %.3f and was over the bound on load", r.name(r.RunnerUp), r.Candidates[r.RunnerUp].Sum)
	default:
		fmt.Fprintf(b, ", %.3f ahead of %s", w.Sum-r.Candidates[r.RunnerUp].Sum, r.name(r.RunnerUp))
	}
	b.WriteString(".\n")
}

// prompt says what the winner's cache saves, or what going there costs.
func (r *Record) prompt(b *strings.Builder) {
	if !r.sound(r.Winner) || r.PromptTokens <= 0 {
		return
	}
	in := r.input()
	w := &r.Candidates[r.Winner]
	saved, compute := in.Saved(&w.Resolved), in.Uncached(&w.Resolved)
	switch {
	case saved > 0:
		fmt.Fprintf(b, "It has %s of the prompt's %s tokens cached and computes %s",
			thousands(saved), thousands(r.PromptTokens), thousands(compute))
	case w.HeldKnown:
		fmt.Fprintf(b, "It has none of the prompt cached and computes all of its %s tokens", thousands(compute))
	default:
		fmt.Fprintf(b, "It is not known to have any of the prompt cached and computes up to %s tokens",
			thousands(compute))
	}
	if r.sound(r.RunnerUp) {
		other := in.Uncached(&r.Candidates[r.RunnerUp].Resolved)
		switch {
		case compute < other:
			fmt.Fprintf(b, ", which saves %s tokens against %s", thousands(other-compute), r.name(r.RunnerUp))
		case compute > other:
			fmt.Fprintf(b, ", %s more than %s would", thousands(compute-other), r.name(r.RunnerUp))
		default:
			fmt.Fprintf(b, ", as many as %s would", r.name(r.RunnerUp))
		}
	}
	b.WriteString(".\n")
}

// reasons says which scorers spoke for the winner and which against it, by how much
// their parts of its sum differ from those of the runner-up's.
func (r *Record) reasons(b *strings.Builder) {
	if !r.sound(r.Winner) || !r.sound(r.RunnerUp) {
		return
	}
	type lead struct {
		name string
		by   float64
	}
	var leads []lead
	for j, s := range r.Scorers {
		if by := r.part(r.Winner, j) - r.part(r.RunnerUp, j); math.Abs(by) >= visible {
			leads = append(leads, lead{s.Name, by})
		}
	}
	slices.SortStableFunc(leads, func(a, b lead) int { return cmp.Compare(math.Abs(b.by), math.Abs(a.by)) })
	list := func(sign float64) (parts []string) {
		for _, l := range leads {
			if l.by*sign > 0 {
				parts = append(parts, fmt.Sprintf("%s %+.3f", l.name, l.by))
			}
		}
		return parts
	}
	var sentences []string
	if pro := list(1); len(pro) > 0 {
		sentences = append(sentences, "For it: "+strings.Join(pro, ", ")+".")
	}
	if contra := list(-1); len(contra) > 0 {
		sentences = append(sentences, "Against it: "+strings.Join(contra, ", ")+".")
	}
	if len(sentences) > 0 {
		fmt.Fprintln(b, strings.Join(sentences, " "))
	}
}

// remarks says what was not known of the candidates shown, and what was done about it.
func (r *Record) remarks(shown []int) []string {
	var list []string
	marked := false
	for _, i := range shown {
		c := &r.Candidates[i]
		var said []string
		if c.Resolved.Stale {
			said = append(said, fmt.Sprintf("its signals are %s old, past the limit of %s",
				c.Resolved.Age.Round(time.Millisecond), r.StaleAfter))
		}
		var unknown []string
		for j := range r.Scorers {
			if !r.sound(i) || !c.scored() {
				break
			}
			s := r.score(i, j)
			if math.IsNaN(s.Raw) {
				unknown = append(unknown, r.Scorers[j].Name)
			}
			marked = marked || s.Used != s.Raw && !math.IsNaN(s.Used)
		}
		if len(unknown) > 0 && len(unknown) < len(r.Scorers) {
			said = append(said, "nothing to go by for "+strings.Join(unknown, ", "))
		} else if len(unknown) > 0 {
			said = append(said, "nothing to go by for any scorer")
		}
		if c.Resolved.Doubt >= 0.05 {
			said = append(said, fmt.Sprintf("its engine reports less cached than predicted, so %.0f %% is not believed",
				100*c.Resolved.Doubt))
		}
		if said = r.trust(said, c); len(said) > 0 {
			list = append(list, fmt.Sprintf("%s: %s.", r.name(i), strings.Join(said, "; ")))
		}
	}
	if marked {
		list = append(list, "~ marks what was used in place of a score that was missing, stale or out of range.")
	}
	return list
}

// trust adds what is doubtful about the picture of c's cache.
func (r *Record) trust(said []string, c *CandidateRecord) []string {
	if !r.Matched {
		return said
	}
	switch c.Resolved.Held.View {
	case prefixindex.ViewLive:
	case prefixindex.ViewNever:
		if !c.HeldKnown {
			said = append(said, "nothing was ever heard of what it caches")
		}
	case prefixindex.ViewAssumed:
		said = append(said, "what it caches is assumed from what was sent there")
	case prefixindex.ViewGap:
		said = append(said, "some of its cache events were lost")
	case prefixindex.ViewResyncing:
		said = append(said, "some of its cache events were lost and are being fetched again")
	case prefixindex.ViewStale:
		said = append(said, "its cache events have stopped")
	}
	return said
}

// scored reports whether c got as far as being scored.
func (c *CandidateRecord) scored() bool { return c.Verdict == "" || c.Verdict == overBound }

func (r *Record) name(i int) string {
	if n := r.Candidates[i].Resolved.Name; n != "" {
		return n
	}
	return "candidate " + strconv.Itoa(i)
}

func (r *Record) score(i, j int) ScoreRecord { return r.Scores[i*len(r.Scorers)+j] }

// part is what scorer j adds to the sum of candidate i.
func (r *Record) part(i, j int) float64 { return r.share(j) * r.score(i, j).Used }

func (r *Record) share(j int) float64 {
	total := 0.0
	for _, s := range r.Scorers {
		total += s.Weight
	}
	return r.Scorers[j].Weight / total
}

func (r *Record) input() *scorer.Input {
	return &scorer.Input{PromptTokens: r.PromptTokens, BlockTokens: r.BlockTokens}
}
