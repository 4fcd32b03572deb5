package harness

import (
	"testing"

	"github.com/warmroute/warmroute/bench/internal/latency"
)

// Report adds p50 and p99 of l to the benchmark's figures, with a name before them that
// ends in "-" or is empty. Of fewer than 100 durations there is no p99.
func Report(b *testing.B, l *latency.Histogram, name string) {
	if l.N > 0 {
		b.ReportMetric(l.Percentile(50), name+"p50-ns")
	}
	if l.N >= 100 {
		b.ReportMetric(l.Percentile(99), name+"p99-ns")
	}
}
