package bench_test

import (
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// BenchmarkScrape reads a page that is in memory: what a scrape costs besides the
// network.
func BenchmarkScrape(b *testing.B) {
	for _, kB := range []int{5, 55, 550} {
		b.Run(fmt.Sprintf("bytes=%dk", kB), func(b *testing.B) {
			small(b)
			page := harness.MetricsPage(kB * 1000)
			var s enginemetrics.Scanner
			var r enginemetrics.Report
			harness.Must(b, s.Scan(page, &r))
			if w, _ := r.Signals.Waiting.Get(); w != 3 || r.Blocks != 27648 || len(r.Adapters.Running) != 2 {
				b.Fatalf("report is %+v", r)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				if err := s.Scan(page, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
