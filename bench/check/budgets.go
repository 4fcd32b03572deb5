package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A quantity names one figure of one benchmark.
type quantity struct {
	benchmark string // without "Benchmark" and the number of processors
	metric    string // "ns/op", "B/block"
}

func (q quantity) String() string { return q.benchmark + " " + q.metric }

// A limit is times * base + plus.
type limit struct {
	text  string // as the file has it
	times float64
	plus  float64 // in the row's metric
}

func (l limit) of(base float64) float64 {
	if l.times == 0 {
		return l.plus // there is no base
	}
	return l.times*base + l.plus
}

// A budget is a line of the budgets file.
type budget struct {
	quantity
	limit    limit
	moonshot *limit
	base     *quantity // what the limits are multiples of; nil if they are absolute
}

// readBudgets reads a budgets file: a row a line, in columns separated by blanks,
//
//	benchmark metric budget moonshot [base]
//
// with "#" before comments. A budget is "80", or "1ms" for a metric in ns, or "4x"
// for that many times the base, or a sum such as "2x+5ms". A moonshot is the same,
// or "-" for none. A base is a benchmark, for its figure in the same metric, or
// "benchmark:metric", or ":metric" of the row's own benchmark.
func readBudgets(r io.Reader) ([]budget, error) {
	var (
		rows []budget
		seen = map[quantity]int{}
		scan = bufio.NewScanner(r)
	)
	for line := 1; scan.Scan(); line++ {
		text, _, _ := strings.Cut(scan.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		row, err := parseBudget(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if first, ok := seen[row.quantity]; ok {
			return nil, fmt.Errorf("line %d: %s has a budget on line %d already", line, row.quantity, first)
		}
		seen[row.quantity] = line
		rows = append(rows, row)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no budgets")
	}
	return rows, nil
}

func parseBudget(fields []string) (budget, error) {
	if len(fields) < 4 || len(fields) > 5 {
		return budget{}, fmt.Errorf("%d columns, want benchmark metric budget moonshot [base]", len(fields))
	}
	row := budget{quantity: quantity{fields[0], fields[1]}}
	var err error
	if row.limit, err = parseLimit(fields[2], row.metric); err != nil {
		return budget{}, err
	}
	if fields[3] != "-" {
		moonshot, err := parseLimit(fields[3], row.metric)
		if err != nil {
			return budget{}, err
		}
		row.moonshot = &moonshot
	}
	if len(fields) == 5 {
		benchmark, metric, given := strings.Cut(fields[4], ":")
		if benchmark == "" {
			benchmark = row.benchmark
		}
		if !given {
			metric = row.metric
		}
		row.base = &quantity{benchmark, metric}
	}
	relative := row.limit.times != 0 || row.moonshot != nil && row.moonshot.times != 0
	switch {
	case relative && row.base == nil:
		return budget{}, fmt.Errorf("a multiple, but no base to multiply")
	case !relative && row.base != nil:
		return budget{}, fmt.Errorf("a base, but no multiple of it such as \"4x\"")
	case row.base != nil && *row.base == row.quantity:
		return budget{}, fmt.Errorf("%s is its own base", row.quantity)
	}
	return row, nil
}

func parseLimit(s, metric string) (limit, error) {
	l := limit{text: s}
	for term := range strings.SplitSeq(s, "+") {
		number, multiple := strings.CutSuffix(term, "x")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil && !multiple && inNanoseconds(metric) {
			var d time.Duration
			d, err = time.ParseDuration(term)
			v = float64(d)
		}
		if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return limit{}, fmt.Errorf("budget %q of %s: want 0 or more, as 80, 4x, 2x+80, or, of ns, 1ms", s, metric)
		}
		if multiple {
			l.times += v
		} else {
			l.plus += v
		}
	}
	return l, nil
}

// inTime reports whether a metric says how long something takes.
func inTime(metric string) bool { return inNanoseconds(metric) || strings.HasPrefix(metric, "ns/") }

func inNanoseconds(metric string) bool {
	return metric == "ns/op" || metric == "ns" || strings.HasSuffix(metric, "-ns")
}

// pattern returns what "go test -bench" wants in order to run the benchmarks that
// the rows speak of, and no others.
func pattern(rows []budget) string {
	var (
		names []string
		seen  = map[string]bool{}
	)
	add := func(benchmark string) {
		if seen[benchmark] {
			return
		}
		seen[benchmark] = true
		parts := strings.Split("Benchmark"+benchmark, "/")
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		names = append(names, strings.Join(parts, "/"))
	}
	for _, row := range rows {
		add(row.benchmark)
		if row.base != nil {
			add(row.base.benchmark)
		}
	}
	return strings.Join(names, "|")
}
