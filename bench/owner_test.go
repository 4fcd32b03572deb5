package bench_test

import (
	"sync/atomic"
	"testing"
	"time"

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
	index   *warmroute // its last owners are those that have left
	others  []int
	prompts []*prefixindex.Prompt
	churn   *chain // what the writes are about, on owner 0
}

func newRemoveOwner(b *testing.B) *removeOwner {
	const prompts = 16
	r := &removeOwner{index: newWarmroute(b, 7), others: upTo(7), churn: newChain(1<<32, 64*blockTokens)}
	for i := range prompts {
		c := newChain(1<<33+uint64(i), promptTokens)
		for _, owner := range r.others {
			must(b, r.index.store(owner, c, 0, promptBlocks))
		}
		r.prompts = append(r.prompts, c.prompt(r.index.hasher()))
	}
	return r
}

func (r *removeOwner) run(b *testing.B) {
	const blocks = 500_000
	var (
		idle, writes, leaving latencies
		fence, sweep          time.Duration
		left                  int64
		n                     float64
	)
	for b.Loop() {
		n++
		before := heap()
		owner := r.index.join(b)
		fill(b, r.index, []int{owner}, 0, blocks)
		r.write(b, blocks/10) // come to rest
		heap()                // and collect now, not while somebody looks

		var now atomic.Pointer[latencies] // where lookups are recorded
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
				r.index.lookup(r.prompts[i%len(r.prompts)])
				to.record(time.Since(start))
			}
		}()
		time.Sleep(100 * time.Millisecond)

		now.Store(&writes)
		start := time.Now()
		r.write(b, blocks)
		usual := time.Since(start)

		now.Store(&leaving)
		start = time.Now()
		r.index.ix.Leave(r.index.endpoints[owner])
		fence += time.Since(start)
		start = time.Now()
		r.write(b, blocks)
		sweep += time.Since(start) - usual

		now.Store(nil)
		<-ended
		expect(b, r.index, r.prompts[0], owner+1, func(o int) int {
			if o < len(r.others) {
				return promptBlocks
			}
			return 0
		})
		left += heap() - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(fence)/n, "fence-ns")
	b.ReportMetric(float64(sweep)/n, "sweep-ns")
	b.ReportMetric(float64(left)/n/blocks, "left-B/block")
	idle.report(b, "idle-")
	writes.report(b, "writes-")
	leaving.report(b, "")
}

// write stores and removes that many blocks, half and half, and leaves nothing.
func (r *removeOwner) write(b *testing.B, blocks int) {
	for ; blocks > 0; blocks -= 2 * r.churn.blocks() {
		must(b, r.index.store(0, r.churn, 0, r.churn.blocks()))
		must(b, r.index.remove(0, r.churn, 0, r.churn.blocks()))
	}
}
