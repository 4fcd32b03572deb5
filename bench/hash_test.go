package bench_test

import (
	"testing"

	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkHash hashes every block of a prompt that was not seen before.
func BenchmarkHash(b *testing.B) {
	b.Run("tokens=10240", func(b *testing.B) {
		h, err := prefixindex.NewHasher(blockTokens, 1)
		must(b, err)
		c := newChain(1, promptTokens)
		p := c.prompt(h)
		if n := len(h.Hashes(p)); n != promptBlocks {
			b.Fatalf("%d hashes, want %d", n, promptBlocks)
		}
		b.ReportAllocs()
		b.SetBytes(4 * promptTokens)
		for b.Loop() {
			p.Reset(scope, c.tokens)
			h.Hashes(p)
		}
	})
}
