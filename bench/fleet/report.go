package main

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// page is a report, to be written as Markdown and as HTML.
type page struct{ parts []part }

// part is a heading, what is to be said below it, and what is to be seen.
type part struct {
	heading string
	text    []string
	file    string // of the chart
	chart   *chart
	table   [][]string // the first row is its head
}

// charted tells the policies that charts show: all would be a tangle.
func charted(policy string) bool {
	return slices.Contains([]string{
		"round-robin", "least-request", "sticky", "bounded hash", "3:2:2", "SGLang", "Dynamo", "default",
	}, policy)
}

// report runs all that the report shows, and writes it to dir.
func report(dir string, c config, scs []scenario, pds []policyDef, first uint64, seeds int, commands string) error {
	results, err := compare(c, scs, pds, first, seeds)
	if err != nil {
		return err
	}
	rs := rows(results)
	p := &page{parts: []part{{
		heading: "Fleet simulation",
		text: []string{
			fmt.Sprintf("%s. %d runs of each policy in each scenario, with seeds %d to %d; figures are medians. "+
				"%d engines, each within %.0f %% of the nominal speed; metrics every %v, events after %v.",
				machine(), seeds, first, first+uint64(seeds)-1, c.engines, 100*c.spread, c.metricsEvery, c.eventDelay),
			"Command: " + commands,
			"bench/README.md says how to read this and what it does not show.",
		},
	}, p90Table(rs, scs, pds), rules(pds)}}
	shown := slices.DeleteFunc(slices.Clone(pds), func(d policyDef) bool { return !charted(d.name) })
	loads, err := loadCharts(c, scs, shown, first, min(seeds, 3))
	if err != nil {
		return err
	}
	p.parts = append(p.parts, loads...)
	p.parts = append(p.parts, timeCharts(rs)...)
	index, err := indexParts()
	if err != nil {
		return err
	}
	p.parts = append(p.parts, index...)
	for _, sc := range scs {
		p.parts = append(p.parts, detail(rs, &sc))
	}
	return p.write(dir)
}

// machine says where and with what this runs.
func machine() string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(text)) {
			if name, model, _ := strings.Cut(l, ":"); strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(model)
				break
			}
		}
	}
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return fmt.Sprintf("%s, %s/%s, %d processors (%s), revision %s, %s", time.Now().UTC().Format(time.DateOnly),
		runtime.GOOS, runtime.Version(), runtime.NumCPU(), cpu, revision, "virtual time")
}

// p90Table is p90 TTFT of every policy in every scenario, against the best.
func p90Table(rs []row, scs []scenario, pds []policyDef) part {
	head := []string{"policy"}
	for _, sc := range scs {
		head = append(head, sc.name)
	}
	table := [][]string{head}
	for _, pd := range pds {
		cells := []string{pd.name}
		for _, sc := range scs {
			for i := range rs {
				if rs[i].scenario == sc.name && rs[i].policy == pd.name {
					x := rs[i].median(p90)
					cells = append(cells, fmt.Sprintf("%.3f s, %.2f×", x, x/best(rs, sc.name)))
				}
			}
		}
		table = append(table, cells)
	}
	return part{
		heading: "Time to first token, p90", table: table,
		text: []string{"90th percentile of the time to first token, and that as a multiple of the best policy's."},
	}
}

// rules says what each policy does.
func rules(pds []policyDef) part {
	table := [][]string{{"policy", "rule"}}
	for _, pd := range pds {
		table = append(table, []string{pd.name, pd.about})
	}
	return part{heading: "Policies", table: table}
}

// loadCharts is TTFT against load.
func loadCharts(c config, scs []scenario, pds []policyDef, first uint64, seeds int) ([]part, error) {
	var parts []part
	for _, name := range []string{"agents", "shared-system-prompt"} {
		i := slices.IndexFunc(scs, func(s scenario) bool { return s.name == name })
		if i < 0 {
			continue
		}
		ch := &chart{
			title: "Time to first token against load: " + name, log: true,
			x: "arrivals, as a multiple of the scenario's", y: "TTFT, p90, seconds (log)",
		}
		for _, load := range []float64{0.4, 0.6, 0.8, 1, 1.2, 1.4} {
			c := c
			c.load = load
			results, err := compare(c, scs[i:i+1], pds, first, seeds)
			if err != nil {
				return nil, err
			}
			rs := rows(results)
			for k := range rs {
				if len(ch.lines) <= k {
					ch.lines = append(ch.lines, line{name: rs[k].policy, strong: rs[k].policy == "default"})
				}
				l := &ch.lines[k]
				l.x = append(l.x, load)
				l.y = append(l.y, rs[k].median(p90))
			}
		}
		parts = append(parts, part{
			heading: "Load: " + name, file: "ttft-" + name + ".svg", chart: ch,
			text: []string{fmt.Sprintf("%s. At 0.4 to 1.4 times the rate; medians of %d runs.", scs[i].about, seeds)},
		})
	}
	return parts, nil
}

// timeCharts is what the first seed's runs did over time.
func timeCharts(rs []row) []part {
	var parts []part
	add := func(scenario, file, title, y, text string, of func(b *bin) float64) {
		ch := &chart{title: title + ": " + scenario, x: "seconds since the start", y: y}
		for i := range rs {
			if rs[i].scenario != scenario || !charted(rs[i].policy) {
				continue
			}
			l := line{name: rs[i].policy, strong: rs[i].policy == "default"}
			for k := range rs[i].runs[0].bins {
				if b := &rs[i].runs[0].bins[k]; b.prompt > 0 {
					l.x = append(l.x, (time.Duration(k) * binWidth).Seconds())
					l.y = append(l.y, of(b))
				}
			}
			ch.lines = append(ch.lines, l)
		}
		if len(ch.lines) > 0 {
			parts = append(parts, part{heading: title + ": " + scenario, file: file, chart: ch, text: []string{text}})
		}
	}
	add("restart", "hit-rate.svg", "Hit rate over time", "prompt tokens from the cache, %",
		"By arrival, in bins of 5 s, of the first seed. Engines restart at 30 and 50 s and come back empty 5 s later.",
		func(b *bin) float64 { return 100 * float64(b.cached) / float64(b.prompt) })
	add("hot-prefix", "imbalance.svg", "Imbalance over time", "requests to the busiest engine / mean",
		"Requests sent, in bins of 5 s, of the first seed. One prefix is hot from 20 to 65 s. Some imbalance is "+
			"intended: who holds a prefix gets more of it.",
		func(b *bin) float64 {
			sum := 0
			for _, n := range b.sent {
				sum += n
			}
			return float64(slices.Max(b.sent)*len(b.sent)) / float64(max(sum, 1))
		})
	return parts
}

// detail is all figures of one scenario.
func detail(rs []row, sc *scenario) part {
	head := []string{"policy"}
	for _, f := range figures() {
		head = append(head, f.name)
	}
	table := [][]string{head}
	for i := range rs {
		if rs[i].scenario != sc.name {
			continue
		}
		cells := []string{rs[i].policy}
		for _, f := range figures() {
			cells = append(cells, fmt.Sprintf(f.format, rs[i].median(f.of)))
		}
		table = append(table, cells)
	}
	return part{heading: "Scenario: " + sc.name, text: []string{sc.about + "."}, table: table}
}

// write writes report.md, report.html and the charts.
func (p *page) write(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var md, ht strings.Builder
	ht.WriteString("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Fleet simulation</title>\n" +
		"<style>body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#24292f}" +
		"table{border-collapse:collapse;font-size:13px}" +
		"td,th{border:1px solid #d0d7de;padding:3px 8px;text-align:right}" +
		"td:first-child,th:first-child,td:last-child:nth-child(2){text-align:left}</style>\n")
	for i, part := range p.parts {
		level := 1 + min(i, 1)
		fmt.Fprintf(&md, "%s %s\n\n", strings.Repeat("#", level), part.heading)
		fmt.Fprintf(&ht, "<h%d>%s</h%d>\n", level, html.EscapeString(part.heading), level)
		for _, t := range part.text {
			md.WriteString(t + "\n\n")
			fmt.Fprintf(&ht, "<p>%s</p>\n", html.EscapeString(t))
		}
		if part.chart != nil {
			svg := part.chart.svg()
			if err := os.WriteFile(filepath.Join(dir, part.file), []byte(svg), 0o600); err != nil {
				return err
			}
			fmt.Fprintf(&md, "![%s](%s)\n\n", part.chart.title, part.file)
			ht.WriteString(svg)
		}
		for k, cells := range part.table {
			tag := cmp.Or(map[int]string{0: "th"}[k], "td")
			if k == 0 {
				ht.WriteString("<table>\n")
			}
			ht.WriteString("<tr>")
			for _, cell := range cells {
				fmt.Fprintf(&ht, "<%s>%s</%s>", tag, html.EscapeString(cell), tag)
			}
			ht.WriteString("</tr>\n")
			fmt.Fprintf(&md, "| %s |\n", strings.Join(cells, " | "))
			if k == 0 {
				md.WriteString("|" + strings.Repeat(" --- |", len(cells)) + "\n")
			}
			if k == len(part.table)-1 {
				ht.WriteString("</table>\n")
				md.WriteString("\n")
			}
		}
	}
	ht.WriteString("</html>\n")
	return cmp.Or(
		os.WriteFile(filepath.Join(dir, "report.md"), []byte(md.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "report.html"), []byte(ht.String()), 0o600),
	)
}

// indexParts measures the index itself, on this machine's clock.
func indexParts() ([]part, error) {
	const owners = "owners, each with the same 256 prompts of 128 blocks"
	speeds := &chart{title: "Index: speed against owners", x: owners, y: "a second, thousands (log)", log: true}
	memory := &chart{title: "Index: memory against owners", x: owners, y: "bytes for each block held"}
	stored, matched := line{name: "blocks stored"}, line{name: "prompts matched", strong: true}
	bytes := line{name: "bytes", strong: true}
	for _, n := range []int{1, 2, 4, 8, 16, 24, 32} {
		m, err := measureIndex(n)
		if err != nil {
			return nil, err
		}
		for _, l := range []*line{&stored, &matched, &bytes} {
			l.x = append(l.x, float64(n))
		}
		stored.y = append(stored.y, m.storesPerSecond/1e3)
		matched.y = append(matched.y, m.matchesPerSecond/1e3)
		bytes.y = append(bytes.y, m.bytesPerHolding)
	}
	speeds.lines, memory.lines = []line{stored, matched}, []line{bytes}
	text := "In real time, by one goroutine, so it differs from machine to machine and minute to minute; " +
		"`make bench` measures more carefully. A match is of a prompt of 128 blocks whose hashes are known."
	return []part{
		{heading: "Index speed", file: "index-speed.svg", chart: speeds, text: []string{text}},
		{heading: "Index memory", file: "index-memory.svg", chart: memory, text: []string{
			"By the index's own count, Stats.Bytes. A block has as many holders as there are owners.",
		}},
	}, nil
}
