package picker

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warmroute/warmroute/scorer"
)

// visible is the least difference that the tables of an explanation show.
const visible = 0.0005

// seen is a table of what was known of the candidates. What was known of none is left
// out.
func (r *Record) seen(shown []int) [][]string {
	if len(shown) == 0 {
		return nil
	}
	in := r.input()
	type column struct {
		head string
		cell func(i int) string
	}
	of := func(i int) *scorer.Resolved { return &r.Candidates[i].Resolved }
	columns := []column{
		{"cached", func(i int) string {
			if r.PromptTokens <= 0 || !r.Candidates[i].HeldKnown {
				return unknown
			}
			return thousands(in.Saved(of(i)))
		}},
		{"to compute", func(i int) string {
			if r.PromptTokens <= 0 {
				return unknown
			}
			return thousands(in.Uncached(of(i)))
		}},
		{"waiting", func(i int) string { return number(of(i).Signals.Waiting) }},
		{"running", func(i int) string { return number(of(i).Signals.Running) }},
		{"cache use", func(i int) string {
			if use, known := of(i).Signals.CacheUse.Get(); known {
				return fmt.Sprintf("%.0f %%", 100*use)
			}
			return unknown
		}},
		{"in flight", func(i int) string { return number(of(i).InFlight.Requests) }},
	}
	for k := range scorer.MaxOwn {
		columns = append(columns, column{
			"own-" + strconv.Itoa(k),
			func(i int) string { return number(of(i).Signals.Own[k]) },
		})
	}
	// What is still to be computed there for others, and what that makes with this
	// prompt. Where there is nothing, it says no more than "to compute".
	backlog := false
	for i := range r.Candidates {
		tokens, _ := of(i).InFlight.Tokens.Get()
		backlog = backlog || tokens > 0
	}
	if backlog {
		columns = append(columns,
			column{"tokens in flight", func(i int) string { return number(of(i).InFlight.Tokens) }},
			column{"with this prompt", func(i int) string {
				tokens, known := of(i).InFlight.Tokens.Get()
				if !known {
					return unknown
				}
				return number(scorer.Known(tokens + float64(in.Uncached(of(i)))))
			}})
	}
	for j, s := range r.Scorers {
		columns = append(columns, column{s.Name + " ms", func(i int) string {
			if !r.sound(i) {
				return unknown
			}
			return number(scorer.Known(math.Round(r.score(i, j).Millis)))
		}})
	}

	rows := make([][]string, len(shown)+1)
	rows[0] = []string{""}
	for k, i := range shown {
		rows[k+1] = []string{r.name(i)}
	}
	for _, col := range columns {
		cells := make([]string, len(shown))
		none := true
		for k, i := range shown {
			cells[k] = col.cell(i)
			none = none && cells[k] == unknown
		}
		if none {
			continue
		}
		rows[0] = append(rows[0], col.head)
		for k, cell := range cells {
			rows[k+1] = append(rows[k+1], cell)
		}
	}
	rows[0] = append(rows[0], "")
	for k, i := range shown {
		rows[k+1] = append(rows[k+1], r.outcome(i))
	}
	return rows
}

// outcome says what became of candidate i.
func (r *Record) outcome(i int) string {
	switch c := &r.Candidates[i]; {
	case i == r.Winner:
		return "winner"
	case c.scored() || c.Verdict == skipped:
		return c.Verdict
	default:
		return "removed by " + c.Verdict
	}
}

// scores is a table of how the sums come about: each scorer's part, of at most its share
// of the weights. The parts of scorers that say the same of all are added up, and their
// names returned.
func (r *Record) scores(shown []int) (rows [][]string, same []string) {
	var scored []int
	for _, i := range shown {
		if r.sound(i) && r.sound(r.Winner) && r.Candidates[i].scored() {
			scored = append(scored, i)
		}
	}
	if len(scored) == 0 {
		return nil, nil
	}
	var differ, equal []int
	for j := range r.Scorers {
		least, most := math.Inf(1), math.Inf(-1)
		for i := range r.Candidates {
			if r.Candidates[i].scored() {
				least, most = min(least, r.part(i, j)), max(most, r.part(i, j))
			}
		}
		if most-least < visible {
			equal = append(equal, j)
		} else {
			differ = append(differ, j)
		}
	}
	if len(differ) == 0 || len(equal) < 2 { // adding up would not make it shorter
		differ, equal = differ[:0], nil
		for j := range r.Scorers {
			differ = append(differ, j)
		}
	}
	head, most := []string{"", "sum"}, []string{"", "of 1"}
	for _, j := range differ {
		head = append(head, r.Scorers[j].Name)
		most = append(most, fmt.Sprintf("of %.3f", r.share(j)))
	}
	rest := 0.0
	for _, j := range equal {
		same = append(same, r.Scorers[j].Name)
		rest += r.share(j)
	}
	if len(equal) > 0 {
		head = append(head, "the rest")
		most = append(most, fmt.Sprintf("of %.3f", rest))
	}
	rows = append(rows, append(head, ""), append(most, ""))
	for _, i := range scored {
		row := []string{r.name(i), fmt.Sprintf("%.3f", r.Candidates[i].Sum)}
		for _, j := range differ {
			row = append(row, r.mark(i, j)+fmt.Sprintf("%.3f", r.part(i, j)))
		}
		if len(equal) > 0 {
			sum, mark := 0.0, ""
			for _, j := range equal {
				sum += r.part(i, j)
				mark = max(mark, r.mark(i, j))
			}
			row = append(row, mark+fmt.Sprintf("%.3f", sum))
		}
		rows = append(rows, append(row, ""))
	}
	return rows, same
}

// mark is "~" if the score used is not the scorer's own.
func (r *Record) mark(i, j int) string {
	if s := r.score(i, j); s.Used != s.Raw {
		return "~"
	}
	return ""
}

const unknown = "?"

func number(v scorer.Value) string {
	x, known := v.Get()
	switch {
	case !known:
		return unknown
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

// writeTable writes a blank line and the rows, the first column and the last aligned to
// the left, the others to the right. Without rows it writes nothing.
func writeTable(b *strings.Builder, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	b.WriteByte('\n')
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
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
