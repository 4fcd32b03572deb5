package bench_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/bench/internal/latency"
	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkRemoveOwner lets one of eight owners leave, which alone holds 500,000
// blocks, while somebody looks up prompts of the other seven. Its figures are
//
//   - fence-ns: until Leave has returned, when no lookup names the owner any more;
//   - sweep-ns: what the writes that follow take more than the same writes before.
//     They are as many as there are blocks to sweep, since sweeping is theirs to do.
//     Below 0 is noise;
//   - idle-p99-ns and p99-ns: lookups while nothing else happens, and from Leave to
//     the end of those writes; writes-p99-ns: during the writes before;
//   - left-B/block: how much larger the heap is than before the owner came.
func BenchmarkRemoveOwner(b *testing.B) {
	var r *removeOwner
	b.Run("impl=warmroute/blocks=500000", func(b *testing.B) {
		large(b)
		if r == nil {
			r = newRemoveOwner(b)
		}
		r.run(b)
	})
}

type removeOwner struct {
	index   *harness.Warmroute // its last owners are those that have left
	others  []int
	prompts []*prefixindex.Prompt
	churn   *harness.Chain // what the writes are about, on owner 0
}

func newRemoveOwner(b *testing.B) *removeOwner {
	const prompts = 16
	r := &removeOwner{index: harness.NewWarmroute(b, 7), others: harness.UpTo(7), churn: harness.NewChain(1<<32, 64*harness.BlockTokens)}
	for i := range prompts {
		c := harness.NewChain(1<<33+uint64(i), harness.PromptTokens)
		for _, owner := range r.others {
			harness.Must(b, r.index.Store(owner, c, 0, harness.PromptBlocks))
		}
		r.prompts = append(r.prompts, c.Prompt(r.index.Hasher()))
	}
	return r
}

func (r *removeOwner) run(b *testing.B) {
	const blocks = 500_000
	var (
		idle, writes, leaving latency.Histogram
		fence, sweep          time.Duration
		left                  int64
		n                     float64
	)
	for b.Loop() {
		n++
		before := harness.Heap()
		owner := r.index.Join(b)
		harness.Fill(b, r.index, []int{owner}, 0, blocks)
		r.write(b, blocks/10) // come to rest
		harness.Heap()        // and collect now, not while somebody looks

		var now atomic.Pointer[latency.Histogram] // where lookups are recorded
		now.Store(&idle)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				to := now.Load()
				if to == nil {
					return
				}
				start := time.Now()
				r.index.Lookup(r.prompts[i%len(r.prompts)])
				to.Record(time.Since(start))
			}
		}()
		time.Sleep(100 * time.Millisecond)

		now.Store(&writes)
		start := time.Now()
		r.write(b, blocks)
		usual := time.Since(start)

		now.Store(&leaving)
		start = time.Now()
		r.index.Index.Leave(r.index.Endpoints[owner])
		fence += time.Since(start)
		start = time.Now()
		r.write(b, blocks)
		sweep += time.Since(start) - usual

		now.Store(nil)
		<-ended
		harness.Expect(b, r.index, r.prompts[0], owner+1, func(o int) int {
			if o < len(r.others) {
				return harness.PromptBlocks
			}
			return 0
		})
		left += harness.Heap() - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(fence)/n, "fence-ns")
	b.ReportMetric(float64(sweep)/n, "sweep-ns")
	b.ReportMetric(float64(left)/n/blocks, "left-B/block")
	harness.Report(b, &idle, "idle-")
	harness.Report(b, &writes, "writes-")
	harness.Report(b, &leaving, "")
}

// write stores and removes that many blocks, half and half, and leaves nothing.
func (r *removeOwner) write(b *testing.B, blocks int) {
	for ; blocks > 0; blocks -= 2 * r.churn.Blocks() {
		harness.Must(b, r.index.Store(0, r.churn, 0, r.churn.Blocks()))
		harness.Must(b, r.index.Remove(0, r.churn, 0, r.churn.Blocks()))
	}
}
