package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/warmroute/warmroute/bench/internal/trace"
)

func main() {
	if err := command(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func command(args []string, out io.Writer) error {
	c := defaults()
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	only := f.String("scenario", "", "scenarios, separated by commas; empty: all")
	which := f.String("policy", "", "policies, separated by commas; empty: all")
	seeds := f.Int("seeds", 3, "runs of each, with different seeds; figures are medians")
	first := f.Uint64("seed", 1, "the first seed")
	traceFile := f.String("trace", "", "trace in Mooncake's format for the scenario mooncake; empty: a generator")
	dir := f.String("report", "", "directory for a report of all this, with charts, instead of a table")
	f.IntVar(&c.engines, "engines", c.engines, "engines")
	f.Float64Var(&c.load, "load", c.load, "request rates times this")
	f.Float64Var(&c.spread, "spread", c.spread, "share by which engines' speeds differ from the nominal")
	f.DurationVar(&c.metricsEvery, "metrics", c.metricsEvery, "time between two scrapes of an engine")
	f.DurationVar(&c.eventDelay, "event-delay", c.eventDelay, "time from an engine's step to the index")
	f.Float64Var(&c.eventLoss, "event-loss", c.eventLoss, "share of event batches that never arrive")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return err
	}
	if *seeds < 1 {
		return fmt.Errorf("-seeds is %d; it must be positive", *seeds)
	}
	var requests []trace.Request
	if *traceFile != "" {
		var err error
		if requests, err = trace.ReadFile(*traceFile); err != nil {
			return err
		}
	}
	scs, err := choose("scenario", scenarios(requests), *only, func(s *scenario) string { return s.name })
	if err != nil {
		return err
	}
	pds, err := choose("policy", policies(), *which, func(p *policyDef) string { return p.name })
	if err != nil {
		return err
	}
	if *dir != "" {
		return report(*dir, c, scs, pds, *first, *seeds, strings.Join(append([]string{"fleet"}, args...), " "))
	}
	results, err := compare(c, scs, pds, *first, *seeds)
	if err != nil {
		return err
	}
	table(out, results)
	return nil
}

func (c *config) validate() error {
	switch {
	case c.engines < 1 || c.engines > 4_096:
		return fmt.Errorf("-engines is %d, want 1 to 4096", c.engines)
	case !(c.load > 0 && c.load <= 100):
		return fmt.Errorf("-load is %v, want more than 0, at most 100", c.load)
	case !(c.spread >= 0 && c.spread <= 0.9):
		return fmt.Errorf("-spread is %v, want 0 to 0.9", c.spread)
	case c.metricsEvery <= 0:
		return fmt.Errorf("-metrics is %v; it must be positive", c.metricsEvery)
	case c.eventDelay < 0:
		return fmt.Errorf("-event-delay is %v; it must not be negative", c.eventDelay)
	case !(c.eventLoss >= 0 && c.eventLoss <= 1):
		return fmt.Errorf("-event-loss is %v, want 0 to 1", c.eventLoss)
	}
	return nil
}

// choose returns those that list names, all if it is empty.
func choose[T any](what string, all []T, list string, name func(*T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var chosen []T
	for want := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(&t) == want })
		if i < 0 {
			var names []string
			for k := range all {
				names = append(names, name(&all[k]))
			}
			return nil, fmt.Errorf("no %s %q; there are %s", what, want, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// compare plays each scenario through each policy with each seed, as many at once as there
// are processors. Results are in the order of scenarios, policies, seeds.
func compare(c config, scs []scenario, pds []policyDef, first uint64, seeds int) ([]*result, error) {
	results := make([]*result, len(scs)*len(pds)*seeds)
	errs := make([]error, len(results))
	jobs := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := range jobs {
				sc, pd := &scs[n/seeds/len(pds)], &pds[n/seeds%len(pds)]
				results[n], errs[n] = run(c, sc, pd, first+uint64(n%seeds))
			}
		})
	}
	for n := range results {
		jobs <- n
	}
	close(jobs)
	wg.Wait()
	return results, errors.Join(errs...)
}

// row is the medians of a scenario's runs with one policy.
type row struct {
	scenario, policy string
	runs             []*result
}

func rows(results []*result) []row {
	var rs []row
	for _, r := range results {
		i := slices.IndexFunc(rs, func(x row) bool { return x.scenario == r.scenario && x.policy == r.policy })
		if i < 0 {
			i = len(rs)
			rs = append(rs, row{scenario: r.scenario, policy: r.policy})
		}
		rs[i].runs = append(rs[i].runs, r)
	}
	return rs
}

func (r *row) median(of func(*result) float64) float64 {
	var xs []float64
	for _, run := range r.runs {
		xs = append(xs, of(run))
	}
	return median(xs)
}

// figure is a column of a table.
type figure struct {
	name, format string
	of           func(*result) float64
}

func figures() []figure {
	return []figure{
		{"TTFT p50 s", "%.3f", func(r *result) float64 { return percentile(r.ttft, 50) }},
		{"p90 s", "%.3f", p90},
		{"p99 s", "%.3f", func(r *result) float64 { return percentile(r.ttft, 99) }},
		{"E2E p50 s", "%.2f", func(r *result) float64 { return percentile(r.e2e, 50) }},
		{"p90 s", "%.2f", func(r *result) float64 { return percentile(r.e2e, 90) }},
		{"p99 s", "%.2f", func(r *result) float64 { return percentile(r.e2e, 99) }},
		{"hit rate %", "%.1f", func(r *result) float64 { return 100 * r.hitRate }},
		{"computed Mtok", "%.2f", func(r *result) float64 { return float64(r.computed) / 1e6 }},
		{"imbalance", "%.2f", func(r *result) float64 { return r.imbalance }},
		{"within SLO %", "%.1f", func(r *result) float64 { return 100 * r.good }},
		{"goodput req/s", "%.1f", func(r *result) float64 { return r.goodput }},
		{"GPU h", "%.3f", func(r *result) float64 { return r.gpuHours }},
	}
}

func p90(r *result) float64 { return percentile(r.ttft, 90) }

func table(out io.Writer, results []*result) {
	rs := rows(results)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := ""
	for i := range rs {
		r := &rs[i]
		if r.scenario != last {
			last = r.scenario
			fmt.Fprintf(t, "\n%s\t", r.scenario)
			for _, f := range figures() {
				fmt.Fprintf(t, "%s\t", f.name)
			}
			fmt.Fprintln(t, "of best p90\t")
		}
		fmt.Fprintf(t, "%s\t", r.policy)
		for _, f := range figures() {
			fmt.Fprintf(t, f.format+"\t", r.median(f.of))
		}
		fmt.Fprintf(t, "%.2f\t\n", r.median(p90)/best(rs, r.scenario))
	}
	t.Flush()
}

// best returns the least p90 TTFT of a scenario.
func best(rs []row, scenario string) float64 {
	least := 0.0
	for i := range rs {
		if rs[i].scenario == scenario {
			if x := rs[i].median(p90); least == 0 || cmp.Less(x, least) {
				least = x
			}
		}
	}
	return least
}
