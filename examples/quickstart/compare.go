package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// result is what one policy made of a workload.
type result struct {
	policy           string
	requests         int
	computed, cached int // prompt tokens, as the engines counted them
	meanTTFT, p99    time.Duration
}

func (r result) hitRate() float64 { return float64(r.cached) / float64(r.cached+r.computed) }

// compare plays one workload through each policy, each on fresh engines of its own, side
// by side.
func compare(ctx context.Context, w workload, o enginetest.Options, seed uint64, nw network) ([]result, error) {
	policies := []string{"round-robin", "sticky by user", "warmroute"}
	results := make([]result, len(policies))
	errs := make([]error, len(policies))
	var wg sync.WaitGroup
	for i, policy := range policies {
		wg.Go(func() {
			results[i], errs[i] = run(ctx, policy, w, o, seed, nw)
		})
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

func run(
	ctx context.Context, policy string, w workload, o enginetest.Options, seed uint64, nw network,
) (result, error) {
	f, err := startFleet(2, o, nw)
	if err != nil {
		return result{}, err
	}
	defer f.close()

	var serve serveFunc
	switch policy {
	case "round-robin":
		var n atomic.Int64
		serve = func(ctx context.Context, _ int, _ string, prompt []uint32, maxTokens int) (reply, error) {
			next := int(n.Add(1)) % len(f.engines)
			return f.complete(ctx, next, prompt, maxTokens, nil)
		}
	case "sticky by user":
		serve = func(ctx context.Context, user int, _ string, prompt []uint32, maxTokens int) (reply, error) {
			return f.complete(ctx, user%len(f.engines), prompt, maxTokens, nil)
		}
	case "warmroute":
		r, err := newRouter(f, seed)
		if err != nil {
			return result{}, err
		}
		defer r.close()
		serve = func(ctx context.Context, _ int, session string, prompt []uint32, maxTokens int) (reply, error) {
			return r.serve(ctx, session, prompt, maxTokens)
		}
	}

	replies, err := w.play(ctx, w.draw(seed), serve)
	if err != nil {
		return result{}, err
	}
	res := result{policy: policy, requests: len(replies)}
	var sum time.Duration
	slices.SortFunc(replies, func(a, b reply) int { return int(a.ttft - b.ttft) })
	for _, r := range replies {
		res.cached += r.cached
		res.computed += r.prompt - r.cached
		sum += r.ttft
	}
	res.meanTTFT = sum / time.Duration(len(replies))
	res.p99 = replies[(len(replies)*99-1)/100].ttft
	return res, nil
}

func printTable(out io.Writer, results []result) {
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\trequests\tcomputed tokens\tfrom cache\thit rate\tmean TTFT\tp99 TTFT\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.1f %%\t%.1f ms\t%.1f ms\t\n", r.policy, r.requests,
			thousands(r.computed), thousands(r.cached), 100*r.hitRate(), ms(r.meanTTFT), ms(r.p99))
	}
	t.Flush()
	ours, roundRobin := results[len(results)-1], results[0]
	fmt.Fprintf(out, "\n%s had %.0f %% fewer prompt tokens computed than %s.\n", ours.policy,
		100-100*float64(ours.computed)/float64(roundRobin.computed), roundRobin.policy)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
