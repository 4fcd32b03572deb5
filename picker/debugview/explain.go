package debugview

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/scorer"
)

// row is a decision in a line.
type row struct {
	ID        uint64
	Pick      uint64
	Picker    string
	At        time.Time
	Model     string
	Session   string
	Prompt    int    // tokens
	Endpoint  string // "": none
	RunnerUp  string
	Why       string  // what spoke for it most, against the runner-up
	Margin    float64 // of the sums, 0 to 1
	Predicted scorer.Value
	Reported  scorer.Value
	Result    string // "open": not ended yet; "not sent": no winner

	FirstToken, Total time.Duration // 0: not known
}

func (d *decision) row() row {
	r := &d.record
	line := row{
		ID: d.id, Pick: r.Pick, Picker: d.picker, At: r.At, Model: r.Request.Model, Session: r.Request.Session,
		Prompt: r.PromptTokens, Endpoint: name(r, r.Winner), RunnerUp: name(r, r.RunnerUp), Result: "open",
	}
	switch {
	case r.Winner < 0:
		line.Result, line.Why = "not sent", r.Err.Error()
		return line
	case r.RunnerUp < 0:
		line.Why = "only one left"
	default:
		line.Margin = r.Candidates[r.Winner].Sum - r.Candidates[r.RunnerUp].Sum
		line.Why = why(r)
	}
	if w := &r.Candidates[r.Winner]; w.HeldKnown && r.PromptTokens > 0 {
		in := scorer.Input{PromptTokens: r.PromptTokens, BlockTokens: r.BlockTokens}
		line.Predicted = scorer.Known(float64(in.Saved(&w.Resolved)))
	}
	if d.done {
		line.Result = d.end.Outcome.Result.String()
		line.Reported = d.end.Outcome.CachedTokens
		line.FirstToken, line.Total = d.end.FirstToken, d.end.Total
	}
	return line
}

func name(r *picker.Record, i int) string {
	if i < 0 {
		return ""
	}
	if n := r.Candidates[i].Resolved.Name; n != "" {
		return n
	}
	return "candidate " + strconv.Itoa(i)
}

// why names the scorer that spoke most for the winner.
func why(r *picker.Record) string {
	if r.Tied > 1 {
		return fmt.Sprintf("drawn among %d", r.Tied)
	}
	best, lead := "", 0.0
	for _, d := range differences(r) {
		if d.By > lead {
			best, lead = d.Scorer, d.By
		}
	}
	if best == "" {
		return "over bound" // the runner-up was better and could not be taken
	}
	return fmt.Sprintf("%s %+.2f", best, lead)
}

// difference is what a scorer gave the winner and the runner-up, and of how much.
type difference struct {
	Scorer                 string
	Winner, RunnerUp, Most float64
	By                     float64
	Lead                   float64 // By as a share of the largest
}

func differences(r *picker.Record) []difference {
	if r.Winner < 0 || r.RunnerUp < 0 {
		return nil
	}
	list := make([]difference, len(r.Scorers))
	for j, s := range r.Scorers {
		a, b := part(r, r.Winner, j), part(r, r.RunnerUp, j)
		list[j] = difference{Scorer: s.Name, Winner: a, RunnerUp: b, Most: weight(r, j), By: a - b}
	}
	return list
}

// weight is scorer j's share of the weights.
func weight(r *picker.Record, j int) float64 {
	total := 0.0
	for _, s := range r.Scorers {
		total += s.Weight
	}
	return r.Scorers[j].Weight / total
}

// part is what scorer j adds to the sum of candidate i.
func part(r *picker.Record, i, j int) float64 {
	if used := r.Scores[i*len(r.Scorers)+j].Used; !math.IsNaN(used) {
		return weight(r, j) * used
	}
	return 0
}

// explanation is a decision on a page of its own.
type explanation struct {
	row

	Words       []string // sentences
	Differences []difference
	Bars        []bar
	More        int    // candidates without a bar
	Tables      string // of all that was seen
	Scorers     []string

	Prepare, Decide time.Duration
	Moved           string // where it went instead
}

// Cost is how long the pick took.
func (x *explanation) Cost() time.Duration { return x.Prepare + x.Decide }

// bar shows how the sum of one candidate comes about.
type bar struct {
	Name, Verdict string
	Sum           float64
	Parts         []float64 // by scorer
}

// rank puts the winner first, whatever its sum.
func (b *bar) rank() float64 {
	if b.Verdict == winner {
		return math.Inf(1)
	}
	return b.Sum
}

const (
	maxBars = 16
	winner  = "winner"
)

// explain returns the decision in words and numbers. moved is where it went if not to the
// winner.
func (d *decision) explain(moved string) *explanation {
	r := &d.record
	words, tables, _ := strings.Cut(r.Explain(), "\n\n")
	x := &explanation{
		row: d.row(), Words: strings.Split(strings.TrimSpace(words), "\n"), Tables: strings.Trim(tables, "\n"),
		Differences: differences(r), Prepare: d.prepare, Decide: d.decide, Moved: moved,
	}
	slices.SortStableFunc(x.Differences, func(a, b difference) int {
		return cmp.Compare(math.Abs(b.By), math.Abs(a.By))
	})
	for j := range x.Differences {
		if most := math.Abs(x.Differences[0].By); most > 0 {
			x.Differences[j].Lead = x.Differences[j].By / most
		}
	}
	for _, s := range r.Scorers {
		x.Scorers = append(x.Scorers, s.Name)
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		b := bar{Name: name(r, i), Verdict: c.Verdict, Sum: c.Sum}
		if i == r.Winner {
			b.Verdict = winner
		}
		for j := range r.Scorers {
			b.Parts = append(b.Parts, part(r, i, j))
		}
		x.Bars = append(x.Bars, b)
	}
	slices.SortStableFunc(x.Bars, func(a, b bar) int { return cmp.Compare(b.rank(), a.rank()) })
	if x.More = max(len(x.Bars)-maxBars, 0); x.More > 0 {
		x.Bars = x.Bars[:maxBars]
	}
	return x
}
