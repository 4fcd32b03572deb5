package bench_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
)

// BenchmarkMemory measures the heap, not time.
func BenchmarkMemory(b *testing.B) {
	for _, impl := range implementations {
		b.Run("impl="+impl.name+"/holders=8", func(b *testing.B) {
			small(b)
			harness.MemoryOfBlocks(b, impl.open)
		})
	}
	for _, turns := range []int{1, 200} {
		b.Run(fmt.Sprintf("impl=warmroute/session=84k/turns=%d", turns), func(b *testing.B) {
			small(b)
			memoryOfSessions(b, turns)
		})
	}
}

// memoryOfSessions gives the bytes a token of conversations of 84,000 tokens that
// four engines have cached, stored in that many turns each, all taking turns.
func memoryOfSessions(b *testing.B, turns int) {
	const (
		owners   = 4
		sessions = 32
		tokens   = 84_000
	)
	chains := make([]*harness.Chain, sessions)
	for i := range chains {
		chains[i] = harness.NewChain(uint64(i), tokens)
	}
	var each float64
	n := 0
	for b.Loop() {
		n++
		before := harness.Heap()
		index := harness.NewWarmroute(b, owners)
		for turn := range turns {
			from := turn * tokens / turns / harness.BlockTokens
			to := (turn + 1) * tokens / turns / harness.BlockTokens // full blocks, as engines cache them
			for session, c := range chains {
				harness.Must(b, index.Store(session%owners, c, from, to))
			}
		}
		harness.Expect(b, index, chains[1].Prompt(index.Hasher()), owners, func(owner int) int {
			if owner == 1 {
				return tokens / harness.BlockTokens
			}
			return 0
		})
		clear(index.Spans) // the harness's own
		each += float64(harness.Heap()-before) / (sessions * tokens)
		runtime.KeepAlive(index)
		runtime.KeepAlive(chains)
	}
	b.ReportMetric(each/float64(n), "B/token")
	b.ReportMetric(0, "ns/op")
}
