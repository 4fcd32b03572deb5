package bench_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkExpect expects a prompt of 640 blocks, whose hashes are known, on an owner
// with events that holds none of it, or all but the last 64. Every call ends the
// expectation of ten calls before; the engine stores nothing.
func BenchmarkExpect(b *testing.B) {
	for _, state := range []struct {
		name string
		held int // blocks
	}{
		{"cold", 0},
		{"warm", harness.PromptBlocks - 64},
	} {
		b.Run("impl=warmroute/blocks=640/state="+state.name, func(b *testing.B) {
			small(b)
			now := time.Unix(0, 0)
			index := harness.NewWarmrouteWith(b, 1, prefixindex.Options{Seed: 1, Clock: func() time.Time { return now }})
			prompts := make([]*prefixindex.Prompt, 20)
			for i := range prompts {
				c := harness.NewChain(uint64(i), harness.PromptTokens)
				prompts[i] = c.Prompt(index.Hasher())
				if state.held > 0 {
					harness.Must(b, index.Store(0, c, 0, state.held))
				}
			}
			next := 0
			expect := func() {
				now = now.Add(time.Millisecond)
				harness.Must(b, index.Index.Expect(index.Endpoints[0], 0, prompts[next], state.held, 10*time.Millisecond))
				next = (next + 1) % len(prompts)
			}
			for range prompts { // come to rest
				expect()
			}
			index.Lookup(prompts[len(prompts)-1])
			if got := index.Held(0); got != harness.PromptTokens {
				b.Fatalf("%d tokens held, want %d", got, harness.PromptTokens)
			}
			b.ReportAllocs()
			for b.Loop() {
				expect()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*(harness.PromptBlocks-state.held)), "ns/block")
		})
	}
}
