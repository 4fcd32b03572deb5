package bench_test

import (
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkHash hashes every block of a prompt that was not seen before.
func BenchmarkHash(b *testing.B) {
	b.Run("tokens=10240", func(b *testing.B) {
		h, err := prefixindex.NewHasher(harness.BlockTokens, 1)
		harness.Must(b, err)
		c := harness.NewChain(1, harness.PromptTokens)
		p := c.Prompt(h)
		if n := len(h.Hashes(p)); n != harness.PromptBlocks {
			b.Fatalf("%d hashes, want %d", n, harness.PromptBlocks)
		}
		b.ReportAllocs()
		b.SetBytes(4 * harness.PromptTokens)
		for b.Loop() {
			p.Reset(harness.Scope(), c.Tokens)
			h.Hashes(p)
		}
	})
}
