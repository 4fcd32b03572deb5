package bench_test

import (
	"os"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
)

// BENCH_SIZE chooses between benchmarks that set up in an instant and those that
// take seconds and gigabytes: "small", "large", or unset for both. -short is
// "small" too.
func small(b *testing.B) {
	if os.Getenv("BENCH_SIZE") == "large" {
		b.Skip("small")
	}
}

func large(b *testing.B) {
	if testing.Short() || os.Getenv("BENCH_SIZE") == "small" {
		b.Skip("large")
	}
}

// implementations are what a benchmark runs on where all of them can do the work.
var implementations = []struct {
	name string
	open func(b testing.TB, owners int) harness.Index
}{
	{"warmroute", func(b testing.TB, owners int) harness.Index { return harness.NewWarmroute(b, owners) }},
	{"reference", newReference},
}
