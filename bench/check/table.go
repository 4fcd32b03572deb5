package main

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// judgementTable returns a row for each judgement, and a line that sums them up.
func judgementTable(judged []judgement, r *results) string {
	rows := make([][]string, 1, 1+len(judged))
	rows[0] = []string{"benchmark", "metric", "median", "spread", "ratio", "budget", "moonshot", "verdict", "n"}
	held, shots := 0, 0
	for i := range judged {
		j := &judged[i]
		median, spread, ratio, moonshot := "", "", "", ""
		if j.verdict != verdictMissing {
			median, spread = figure(j.median, j.metric), percent(j.spread)
			if j.base != nil && j.verdict != verdictNoBase {
				ratio = digits(j.ratio) + "x"
			}
		}
		if j.moonshot != nil {
			moonshot = j.moonshot.text
		}
		if j.holds() {
			held++
		}
		if j.verdict == verdictMoonshot {
			shots++
		}
		rows = append(rows, []string{
			j.benchmark, j.metric, median, spread, ratio, j.limit.text, moonshot, j.verdict, fmt.Sprint(j.samples),
		})
	}
	return about(r) + align(rows) +
		fmt.Sprintf("\n%d of %d rows hold, %d of them reach the moonshot.\n", held, len(judged), shots)
}

// resultsTable returns the medians of all figures, a benchmark a line.
func resultsTable(r *results) string {
	rows := [][]string{{"benchmark", "n", "median ±spread, a metric each"}}
	for i := 0; i < len(r.order); {
		name := r.order[i].benchmark
		row := []string{name, fmt.Sprint(len(r.samples[r.order[i]]))}
		for ; i < len(r.order) && r.order[i].benchmark == name; i++ {
			median, spread := center(r.samples[r.order[i]])
			cell := labelled(median, r.order[i].metric)
			if spread > 0 {
				cell += " ±" + percent(spread)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return about(r) + align(rows)
}

// about returns the machine that the results are from.
func about(r *results) string {
	if len(r.about) == 0 {
		return ""
	}
	return strings.Join(r.about, "\n") + "\n\n"
}

// align pads the cells of each column to the widest, the last of a row aside.
func align(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		last := len(row) - 1
		for i, cell := range row[:last] {
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(row[last])
		b.WriteByte('\n')
	}
	return b.String()
}

func figure(v float64, metric string) string {
	if !inNanoseconds(metric) {
		return digits(v)
	}
	units := []string{" ns", " µs", " ms", " s"}
	unit := 0
	for ; math.Abs(v) >= 1000 && unit < len(units)-1; unit++ {
		v /= 1000
	}
	return digits(v) + units[unit]
}

// labelled is a figure with its metric: "3.45 µs/op", "p99 12 µs", "0 allocs/op".
func labelled(v float64, metric string) string {
	name, isTime := strings.CutSuffix(metric, "-ns")
	switch {
	case metric == "ns/op":
		return figure(v, metric) + "/op"
	case isTime:
		return name + " " + figure(v, metric)
	}
	return figure(v, metric) + " " + metric
}

// digits shows three digits, and all of those before the point.
func digits(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
