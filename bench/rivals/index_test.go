package rivals_test

import (
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
)

// each runs f for ours and for each rival.
func each(f func(name string, open func(b testing.TB, owners int) harness.Index)) {
	f("warmroute", func(b testing.TB, owners int) harness.Index { return harness.NewWarmroute(b, owners) })
	for _, s := range stores {
		f(s.name, func(b testing.TB, owners int) harness.Index { return newWalk(b, owners, s.open(b)) })
	}
}

// BenchmarkMatch is that of the library's own benchmarks.
func BenchmarkMatch(b *testing.B) {
	for _, owners := range []int{8, 64, 1024} {
		for _, s := range harness.Shapes() {
			each(func(name string, open func(testing.TB, int) harness.Index) {
				b.Run(fmt.Sprintf("owners=%d/shape=%s/impl=%s", owners, s.Name, name), func(b *testing.B) {
					index := open(b, owners)
					s.Build(b, index, owners)
					harness.Match(b, index, s, owners)
				})
			})
		}
	}
}

// BenchmarkChurn stores 64 blocks of a conversation and removes as many of an old one, on
// an owner that goes on holding 16,384: hashing and naming the blocks is part of the time,
// decoding is not.
func BenchmarkChurn(b *testing.B) {
	const blocks, chains = 64, 256
	each(func(name string, open func(testing.TB, int) harness.Index) {
		b.Run(fmt.Sprintf("blocks=%d/impl=%s", blocks, name), func(b *testing.B) {
			index := open(b, 1)
			list := make([]*harness.Chain, 2*chains)
			for i := range list {
				list[i] = harness.NewChain(uint64(i), blocks*harness.BlockTokens)
				if i < chains {
					harness.Must(b, index.Store(0, list[i], 0, blocks))
				}
			}
			next := chains
			b.ReportAllocs()
			for b.Loop() {
				harness.Must(b, index.Store(0, list[next%len(list)], 0, blocks))
				harness.Must(b, index.Remove(0, list[(next+chains)%len(list)], 0, blocks))
				next++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
			last := list[(next-1)%len(list)]
			harness.Expect(b, index, last.Prompt(index.Hasher()), 1, func(int) int { return blocks })
		})
	})
}

// BenchmarkMemory is that of the library's own benchmarks: bytes of a block with its first
// holder, the mean over a doubling, and for each further one.
func BenchmarkMemory(b *testing.B) {
	each(func(name string, open func(testing.TB, int) harness.Index) {
		b.Run("holders=8/impl="+name, func(b *testing.B) { harness.MemoryOfBlocks(b, open) })
	})
}
