package main

import (
	"fmt"
	"strings"
	"time"
)

// report is what JSON and Markdown show.
type report struct {
	Trace    string  `json:"trace"`
	Command  string  `json:"command"`
	Date     string  `json:"date"`
	Go       string  `json:"go"`
	CPUs     int     `json:"cpus"`
	Pool     int     `json:"pool_blocks"`
	StepTime float64 `json:"step_seconds"`
	Sizes    []size  `json:"sizes"`
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The index under a fleet's traffic\n\n"+
		"Trace: %s. Caches of %d blocks of 16 tokens. %s, %d CPUs, %s.\n\n    %s\n",
		r.Trace, r.Pool, r.Go, r.CPUs, r.Date, r.Command)
	b.WriteString("\n## One goroutine: look up, then decode and apply\n\n" +
		"| workers | requests | tokens each | hit rate | requests/s | blocks/s | match p50 | p99 | p99.9 |" +
		" apply p50 | p99 | p99.9 | differ |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range r.Sizes {
		s := &r.Sizes[i]
		f := &s.Fill
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.1f %% | %.0f | %.2f M | %s | %s | %d |\n", s.Workers, s.Requests/2,
			s.InputTokens, 100*s.HitRate, f.Requests, f.Blocks/1e6, f.Match, f.Apply, f.Differ)
	}
	b.WriteString("\nA match is one lookup, with the hashing that it needs; apply is a batch, decoded and applied." +
		" Differ: lookups\nthat did not say of the request's worker what its cache found.\n")
	b.WriteString("\n## Memory\n\n" +
		"| workers | blocks held | distinct | index | heap | heap B a block held | full collection |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range r.Sizes {
		s := &r.Sizes[i]
		fmt.Fprintf(&b, "| %d | %d | %d | %s | %s | %.1f | %v |\n", s.Workers, s.Holdings, s.Blocks,
			mebibytes(s.IndexBytes), mebibytes(s.HeapBytes), float64(s.HeapBytes)/float64(max(s.Holdings, 1)),
			ns(s.CollectTime*1e9))
	}
	b.WriteString("\n## Offered rates: lookups on one goroutine, events on another\n\n" +
		"| workers | offered/s | done/s | blocks/s | match p50 | p99 | p99.9 | since due p50 | p99 | p99.9 |" +
		" apply p50 | p99 | p99.9 | applied p50 | p99 | p99.9 | differ | collections | paused |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range r.Sizes {
		s := &r.Sizes[i]
		for j := range s.Rates {
			f := &s.Rates[j]
			fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.2f M | %s | %s | %s | %s | %d | %d | %v |\n", s.Workers,
				f.Offered, f.Requests, f.Blocks/1e6, f.Match, f.MatchLate, f.Apply, f.ApplyLate,
				f.Differ, f.GC, ns(f.Pause*1e9))
		}
	}
	b.WriteString("\nSince due: from the instant a request was to come until it was looked up. Applied: until" +
		" its last batch was\nin the index. Here a lookup may come before events of an earlier request," +
		" and differ for that.\n")
	return b.String()
}

// String gives the three as columns of a table.
func (p percentiles) String() string {
	return fmt.Sprintf("%v | %v | %v", ns(p.P50), ns(p.P99), ns(p.P999))
}

// ns rounds to three digits.
func ns(x float64) time.Duration {
	d := time.Duration(x)
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

func mebibytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}
