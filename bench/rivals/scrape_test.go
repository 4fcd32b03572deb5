package rivals_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// BenchmarkScrape reads the queue's length from a page of metrics.
func BenchmarkScrape(b *testing.B) {
	for _, kB := range []int{5, 55, 550} {
		page := harness.MetricsPage(kB * 1000)
		for _, impl := range []struct {
			name string
			open func() func() (waiting float64, err error)
		}{
			{"warmroute", func() func() (float64, error) {
				var s enginemetrics.Scanner
				var r enginemetrics.Report
				return func() (float64, error) {
					err := s.Scan(page, &r)
					n, _ := r.Signals.Waiting.Get()
					return n, err
				}
			}},
			{"expfmt", func() func() (float64, error) {
				return func() (float64, error) {
					p := expfmt.NewTextParser(model.UTF8Validation)
					families, err := p.TextToMetricFamilies(bytes.NewReader(page))
					if err != nil {
						return 0, err
					}
					return families["vllm:num_requests_waiting"].GetMetric()[0].GetGauge().GetValue(), nil
				}
			}},
		} {
			b.Run(fmt.Sprintf("bytes=%dk/impl=%s", kB, impl.name), func(b *testing.B) {
				read := impl.open()
				b.ReportAllocs()
				b.SetBytes(int64(len(page)))
				for b.Loop() {
					if n, err := read(); err != nil || n != 3 {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}
