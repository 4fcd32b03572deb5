package bench_test

import (
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkInsert records a routed prompt of 640 blocks, whose hashes are known, on
// an owner that sends no events: one that is recorded already, or a new one on an
// owner that is full, so that as many blocks have to go.
func BenchmarkInsert(b *testing.B) {
	for _, state := range []struct {
		name    string
		prompts int
	}{
		{"known", 1},
		{"full", 20},
	} {
		b.Run("impl=warmroute/blocks=640/state="+state.name, func(b *testing.B) {
			small(b)
			index := harness.NewWarmrouteWith(b, 1, prefixindex.Options{Seed: 1, OwnerBlocks: 10 * harness.PromptBlocks})
			prompts := make([]*prefixindex.Prompt, state.prompts)
			for i := range prompts {
				prompts[i] = harness.NewChain(uint64(i), harness.PromptTokens).Prompt(index.Hasher())
			}
			next := 0
			insert := func() {
				harness.Must(b, index.Writers[0].Insert(prompts[next], -1))
				next = (next + 1) % len(prompts)
			}
			for range prompts { // come to rest
				insert()
				insert()
			}
			index.Lookup(prompts[(next+len(prompts)-1)%len(prompts)])
			if got := index.Held(0); got != harness.PromptTokens {
				b.Fatalf("%d tokens held, want %d", got, harness.PromptTokens)
			}
			b.ReportAllocs()
			for b.Loop() {
				insert()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*harness.PromptBlocks), "ns/block")
		})
	}
}
