package picker

import (
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

// Explain returns the decision in words and numbers: what won and by how much, what
// the runner-up lacked, what it cost, and what was not known.
//
// O(candidates * scorers); it allocates.
func (r *Record) Explain() string {
	var b strings.Builder
	r.verdict(&b)
	r.prompt(&b)
	r.reasons(&b)
	if len(r.Candidates) > 0 {
		b.WriteByte('\n')
		writeTable(&b, r.table())
	}
	if remarks := r.remarks(); len(remarks) > 0 {
		b.WriteByte('\n')
		for _, remark := range remarks {
			fmt.Fprintf(&b, "- %s\n", remark)
		}
	}
	return b.String()
}

// sound reports whether place i of the record is there to be looked at: a record is
// plain data, and may have been made or changed by hand.
func (r *Record) sound(i int) bool {
	return i >= 0 && i < len(r.Candidates) && len(r.Scores) == len(r.Candidates)*len(r.Scorers)
}

// verdict says who won, or why nobody did.
func (r *Record) verdict(b *strings.Builder) {
	fmt.Fprintf(b, "Pick %d: ", r.Pick)
	if !r.sound(r.Winner) {
		switch {
		case len(r.Candidates) == 0:
			b.WriteString("no candidate was offered.\n")
		case errors.Is(r.Err, ErrOverloaded):
			b.WriteString("overloaded, caps removed every candidate that was left.\n")
		default:
			b.WriteString("no candidate, all were skipped or failed a condition.\n")
		}
		return
	}
	w := &r.Candidates[r.Winner]
	fmt.Fprintf(b, "%s, which scored %.2f of 1", r.name(r.Winner), w.Sum)
	switch {
	case !r.sound(r.RunnerUp):
		if n := len(r.Candidates) - 1; n > 0 {
			fmt.Fprintf(b, "; it was the only one left of %d", n+1)
		} else {
			b.WriteString("; it was the only one offered")
		}
	case r.Tied > 1 && r.Select.Temperature > 0:
		fmt.Fprintf(b, ", drawn among %d at temperature %g", r.Tied, r.Select.Temperature)
	case r.Tied > 1:
		fmt.Fprintf(b, ", drawn among %d that are within %g of the best", r.Tied, r.Select.band())
	default:
		fmt.Fprintf(b, ", %.2f more than %s", w.Sum-r.Candidates[r.RunnerUp].Sum, r.name(r.RunnerUp))
	}
	b.WriteString(".\n")
}

// prompt says what the winner's cache saves.
func (r *Record) prompt(b *strings.Builder) {
	if !r.sound(r.Winner) || r.PromptTokens <= 0 {
		return
	}
	in := r.input()
	saved := in.Saved(&r.Candidates[r.Winner].Resolved)
	switch {
	case saved > 0:
		fmt.Fprintf(b, "It has %s of the prompt's %s tokens cached and computes %s",
			thousands(saved), thousands(r.PromptTokens), thousands(r.PromptTokens-saved))
	case r.Candidates[r.Winner].HeldKnown:
		fmt.Fprintf(b, "It has none of the prompt cached and computes all of its %s tokens", thousands(r.PromptTokens))
	default:
		fmt.Fprintf(b, "What it has cached is not known, of a prompt of %s tokens", thousands(r.PromptTokens))
	}
	if r.sound(r.RunnerUp) {
		fmt.Fprintf(b, "; %s would compute %s", r.name(r.RunnerUp),
			thousands(in.Uncached(&r.Candidates[r.RunnerUp].Resolved)))
	}
	b.WriteString(".\n")
}

// reasons says which scorers spoke for the winner and which for the runner-up.
func (r *Record) reasons(b *strings.Builder) {
	if !r.sound(r.Winner) || !r.sound(r.RunnerUp) {
		return
	}
	type lead struct {
		name string
		by   float64
	}
	var ahead, behind []lead
	for j, s := range r.Scorers {
		by := r.share(j) * (r.score(r.Winner, j).Used - r.score(r.RunnerUp, j).Used)
		if by >= 0.005 {
			ahead = append(ahead, lead{s.Name, by})
		} else if by <= -0.005 {
			behind = append(behind, lead{s.Name, -by})
		}
	}
	list := func(leads []lead) string {
		slices.SortStableFunc(leads, func(a, b lead) int {
			if a.by > b.by {
				return -1
			}
			return 1
		})
		parts := make([]string, len(leads))
		for i, l := range leads {
			parts[i] = fmt.Sprintf("%s %.2f", l.name, l.by)
		}
		return strings.Join(parts, ", ")
	}
	switch {
	case len(ahead) > 0 && len(behind) > 0:
		fmt.Fprintf(b, "For it: %s. For %s: %s.\n", list(ahead), r.name(r.RunnerUp), list(behind))
	case len(ahead) > 0:
		fmt.Fprintf(b, "For it: %s.\n", list(ahead))
	case len(behind) > 0:
		fmt.Fprintf(b, "For %s: %s.\n", r.name(r.RunnerUp), list(behind))
	}
}

// table has a heading, the weights, and a line for each candidate.
func (r *Record) table() [][]string {
	head := []string{"", "sum"}
	weights := []string{"weight", ""}
	for j, s := range r.Scorers {
		head = append(head, s.Name)
		weights = append(weights, fmt.Sprintf("%.2f", r.share(j)))
	}
	head = append(head, "cached", "to compute", "waiting", "in flight", "tokens ahead", "")
	weights = append(weights, make([]string, len(head)-len(weights))...)
	rows := [][]string{head, weights}
	in := r.input()
	for i := range r.Candidates {
		c := &r.Candidates[i]
		row := []string{r.name(i), "-"}
		if c.scored() && r.sound(r.Winner) {
			row[1] = fmt.Sprintf("%.3f", c.Sum)
		}
		for j := range r.Scorers {
			row = append(row, r.opinion(i, j))
		}
		cached, compute := "?", "?"
		if r.PromptTokens > 0 {
			compute = thousands(in.Uncached(&c.Resolved))
			if c.HeldKnown {
				cached = thousands(in.Saved(&c.Resolved))
			}
		}
		row = append(row, cached, compute, number(c.Resolved.Signals.Waiting),
			number(c.Resolved.InFlight.Requests), number(c.Resolved.InFlight.Tokens))
		switch {
		case i == r.Winner:
			row = append(row, "winner")
		case c.scored() || c.Verdict == skipped:
			row = append(row, c.Verdict)
		default:
			row = append(row, "removed by "+c.Verdict)
		}
		rows = append(rows, row)
	}
	return rows
}

// opinion is the score used, marked if it is not the scorer's own.
func (r *Record) opinion(i, j int) string {
	if !r.sound(i) {
		return "-"
	}
	switch s := r.score(i, j); {
	case math.IsNaN(s.Used):
		return "-"
	case s.Used != s.Raw:
		return fmt.Sprintf("~%.2f", s.Used)
	default:
		return fmt.Sprintf("%.2f", s.Used)
	}
}

// remarks says what was not known, and what was done about it.
func (r *Record) remarks() []string {
	var list []string
	marked := false
	for i := range r.Candidates {
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
			said = append(said, fmt.Sprintf("its engine reports less than predicted to be cached, so %.0f %% of it is not believed",
				100*c.Resolved.Doubt))
		}
		for j := range r.Scorers {
			if r.sound(i) && !math.IsNaN(r.score(i, j).Millis) {
				said = append(said, fmt.Sprintf("%s expects %s ms", r.Scorers[j].Name, thousands(int(r.score(i, j).Millis+0.5))))
			}
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

func number(v scorer.Value) string {
	x, known := v.Get()
	switch {
	case !known:
		return "?"
	case x == math.Trunc(x) && math.Abs(x) < 1e15:
		return thousands(int(x))
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

// thousands writes 7000 as 7,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// writeTable aligns the first column and the last to the left, the others to the right.
func writeTable(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			switch i {
			case 0:
				fmt.Fprintf(&line, "%-*s", width[i], cell)
			case len(row) - 1:
				fmt.Fprintf(&line, "  %s", cell)
			default:
				fmt.Fprintf(&line, "  %*s", width[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}
