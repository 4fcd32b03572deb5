package bench_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/bench/internal/latency"
)

// BenchmarkGC is the time of a full collection with an index of 5,000,000 blocks in
// the heap, and, as empty-p50-ns, of one before there was an index.
func BenchmarkGC(b *testing.B) {
	var (
		index *harness.Warmroute
		empty latency.Histogram
	)
	b.Run("impl=warmroute/blocks=5000000", func(b *testing.B) {
		large(b)
		if index == nil {
			for range 100 {
				collect(&empty)
			}
			const owners = 64
			index = harness.NewWarmroute(b, owners)
			harness.Fill(b, index, harness.UpTo(owners), 0, 5_000_000)
			runtime.GC()
		}
		var full latency.Histogram
		for b.Loop() {
			collect(&full)
		}
		runtime.KeepAlive(index)
		harness.Report(b, &full, "")
		harness.Report(b, &empty, "empty-")
	})
}

func collect(l *latency.Histogram) {
	start := time.Now()
	runtime.GC()
	l.Record(time.Since(start))
}
