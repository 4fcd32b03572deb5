package enginemetrics

import (
	"bytes"
	"errors"
	"math"
	"strings"

	"github.com/warmroute/warmroute/scorer"
)

var (
	// ErrForeign means that a page has none of the gauges that are wanted: it is
	// another program's, or none.
	ErrForeign = errors.New("enginemetrics: none of the wanted families is there")

	// ErrTruncated means that a page was cut off.
	ErrTruncated = errors.New("enginemetrics: page does not end in a line feed")
)

// maxRanks bounds the ranks of one page.
const maxRanks = 256

// Scanner reads pages. The zero Scanner is ready. It serves one goroutine, and is worth
// keeping for the pages of one engine: names of adapters are made once.
type Scanner struct {
	sample  sample
	tallies [engines][quantities]tally
	report  *Report

	present          float64 // the largest value of lora_requests_info
	runningL, waitsL []byte  // its labels as the page spells them
	slotsL           []byte
	runs, waits      names
}

// tally collects the samples of one quantity of one engine.
type tally struct {
	seen  bool // a sample was there, if only NaN
	ranks []rank
}

type rank struct {
	name  []byte
	value float64
}

// Scan reads a page into r, whose old content is replaced. An error leaves r without
// meaning: ErrTruncated or ErrForeign.
//
// O(bytes); no allocation once pages repeat. Not safe for concurrent use. r does not
// refer to the page.
func (s *Scanner) Scan(page []byte, r *Report) error {
	*r = Report{}
	if len(page) > 0 && page[len(page)-1] != '\n' {
		return ErrTruncated
	}
	for e := range s.tallies {
		for q := range s.tallies[e] {
			t := &s.tallies[e][q]
			t.seen, t.ranks = false, t.ranks[:0]
		}
	}
	s.report, s.present = r, math.Inf(-1)
	for len(page) > 0 {
		end := bytes.IndexByte(page, '\n')
		s.line(page[:end])
		page = page[end+1:]
	}
	err := s.settle()
	s.report = nil
	return err
}

// line takes one line, without its line feed.
func (s *Scanner) line(line []byte) {
	if len(line) == 0 {
		return
	}
	switch line[0] {
	case '#':
		return
	case ' ', '\t':
		line = skipBlanks(line)
	}
	n := 0
	for n < len(line) && isNameByte(line[n]) {
		if n++; n > longestName {
			return
		}
	}
	f, ok := find(line[:n])
	if !ok {
		return
	}
	if !s.sample.parse(line[n:]) {
		s.report.BadLines++
		return
	}
	s.take(f)
}

// take adds the sample to what its family is about.
func (s *Scanner) take(f family) {
	switch {
	case f.quantity == startTime:
		if s.number() && s.sample.value > s.report.Started {
			s.report.Started = s.sample.value
		}
	case f.quantity == adapters:
		if s.number() && s.sample.value >= s.present {
			s.present = s.sample.value
			s.runningL, _ = s.sample.labels.get("running_lora_adapters")
			s.waitsL, _ = s.sample.labels.get("waiting_lora_adapters")
			s.slotsL, _ = s.sample.labels.get("max_lora")
			s.date()
		}
	case f.quantity == asleep:
		if s.number() {
			state, _ := s.sample.labels.get("sleep_state")
			if string(state) == "awake" {
				s.sample.value = 0
			}
			s.add(f.engine, asleep, s.sample.value)
		}
	case f.quantity != ofLabels:
		s.addSample(f.engine, f.quantity)
	case f.engine == Triton:
		if q, ok := tritonQuantity(s.sample.labels); ok {
			s.addSample(Triton, q)
		}
	case f.engine == VLLM:
		s.addLabel(f.engine, blockTokens, "block_size")
		s.addLabel(f.engine, blocks, "num_gpu_blocks")
	default:
		s.addLabel(f.engine, blockTokens, "page_size")
		s.addLabel(f.engine, blocks, "num_pages")
	}
}

// number reports whether the sample's value is one.
func (s *Scanner) number() bool {
	if math.IsNaN(s.sample.value) || math.IsInf(s.sample.value, 0) {
		s.report.NotNumbers++
		return false
	}
	return true
}

// date takes the sample's timestamp for the report's, if it is older.
func (s *Scanner) date() {
	if s.sample.dated && (s.report.Oldest == 0 || s.sample.stamp < s.report.Oldest) {
		s.report.Oldest = s.sample.stamp
	}
}

func (s *Scanner) addSample(e Engine, q quantity) {
	s.tallies[e][q].seen = true
	if s.number() {
		s.add(e, q, s.sample.value)
		s.date()
	}
}

// addLabel adds the number in a label; "None" and other text is none.
func (s *Scanner) addLabel(e Engine, q quantity, name string) {
	text, _ := s.sample.labels.get(name)
	if n, ok := parseInt(text); ok && n > 0 {
		s.add(e, q, float64(n))
	}
}

// add keeps the largest value of each rank.
func (s *Scanner) add(e Engine, q quantity, value float64) {
	t := &s.tallies[e][q]
	name, _ := s.sample.labels.get(e.rankLabel())
	for i := range t.ranks {
		if bytes.Equal(t.ranks[i].name, name) {
			t.ranks[i].value = max(t.ranks[i].value, value)
			return
		}
	}
	if len(t.ranks) == maxRanks {
		s.report.Clipped++
		return
	}
	t.ranks = append(t.ranks, rank{name, value})
}

func (t *tally) sum() scorer.Value {
	if len(t.ranks) == 0 {
		return scorer.Value{}
	}
	sum := 0.0
	for i := range t.ranks {
		sum += t.ranks[i].value
	}
	return scorer.Known(sum)
}

func (t *tally) largest() scorer.Value {
	if len(t.ranks) == 0 {
		return scorer.Value{}
	}
	largest := t.ranks[0].value
	for i := range t.ranks {
		largest = max(largest, t.ranks[i].value)
	}
	return scorer.Known(largest)
}

// settle fills in the report from the tallies.
func (s *Scanner) settle() error {
	r := s.report
	best := 0
	for e := VLLM; e < engines; e++ {
		t := &s.tallies[e]
		if !t[cacheUse].seen {
			t[cacheUse], t[oldCacheUse] = t[oldCacheUse], t[cacheUse]
		}
		here := 0
		for q := range wanted {
			if t[q].seen {
				here++
			}
		}
		if here > best {
			best, r.Engine = here, e
		}
	}
	if best == 0 {
		return ErrForeign
	}
	t := &s.tallies[r.Engine]
	r.Missing = int(wanted) - best
	r.Signals.Waiting = t[waiting].sum()
	r.Signals.Running = t[running].sum()
	r.Signals.CacheUse = t[cacheUse].largest()
	r.BlockTokens = whole(t[blockTokens].largest())
	r.Blocks = whole(t[blocks].sum())
	for q := range wanted {
		r.Ranks = max(r.Ranks, len(t[q].ranks))
	}
	for i := range t[asleep].ranks {
		if t[asleep].ranks[i].value > 0 {
			r.Asleep++
		}
	}
	if s.present > math.Inf(-1) {
		slots, _ := parseInt(s.slotsL)
		r.Adapters = Adapters{
			Known:   true,
			Slots:   int(max(slots, 0)),
			Running: s.runs.split(s.runningL),
			Waiting: s.waits.split(s.waitsL),
		}
		r.Signals.Adapters = r.Adapters.signals()
	}
	return nil
}

// whole returns v as a count, 0 if it is unknown or cannot be one.
func whole(v scorer.Value) int {
	x, _ := v.Get()
	if x < 1 || x > 1<<40 {
		return 0
	}
	return int(x)
}

// names is a comma list of adapters, made once for as long as pages repeat it.
type names struct {
	raw  []byte
	list []string
}

// split returns the names in raw, as a page spells it. The list is never changed.
func (n *names) split(raw []byte) []string {
	if bytes.Equal(raw, n.raw) {
		return n.list
	}
	n.raw, n.list = append(n.raw[:0], raw...), nil
	for name := range strings.SplitSeq(unescape(raw), ",") {
		if name != "" {
			n.list = append(n.list, name)
		}
	}
	return n.list
}
