package bench_test

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkGC is the time of a full collection with an index of 5,000,000 blocks in
// the heap, and, as empty-p50-ns, of one before there was an index.
func BenchmarkGC(b *testing.B) {
	var (
		index *warmroute
		empty latencies
	)
	b.Run("impl=warmroute/blocks=5000000", func(b *testing.B) {
		large(b)
		if index == nil {
			for range 100 {
				collect(&empty)
			}
			const owners = 64
			index = newWarmroute(b, owners)
			fill(b, index, upTo(owners), 0, 5_000_000)
			runtime.GC()
		}
		var full latencies
		for b.Loop() {
			collect(&full)
		}
		runtime.KeepAlive(index)
		full.report(b, "")
		empty.report(b, "empty-")
	})
}

func collect(l *latencies) {
	start := time.Now()
	runtime.GC()
	l.record(time.Since(start))
}
