package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/bench/internal/latency"
	"github.com/warmroute/warmroute/bench/internal/trace"
)

// BenchmarkMatch looks up a prompt of 10,240 tokens. Its hashes are known before,
// as the second lookup of a request finds them, except in the cold shape, where the
// prompt is new and hashing is part of the time.
func BenchmarkMatch(b *testing.B) {
	for _, impl := range implementations {
		for _, owners := range []int{8, 64, 1024, 4096} {
			for _, s := range harness.Shapes() {
				name := fmt.Sprintf("impl=%s/owners=%d/shape=%s", impl.name, owners, s.Name)
				var index harness.Index // kept from one count to the next
				b.Run(name, func(b *testing.B) {
					if owners < 4096 {
						small(b)
					} else {
						large(b)
					}
					if index == nil {
						index = impl.open(b, owners)
						s.Build(b, index, owners)
					}
					harness.Match(b, index, s, owners)
				})
			}
		}
	}
	var random *randomMatch
	b.Run("impl=warmroute/blocks=5000000/shape=random", func(b *testing.B) {
		large(b)
		if random == nil {
			random = newRandomMatch(b, 5_000_000)
		}
		random.run(b)
	})
}

// randomMatch looks up one of thousands of prompts of 64 owners, each held by one of
// them: what is looked at is seldom in a processor's cache. A prompt's tokens are
// made and hashed right before its lookup, outside the time, and push the rest out.
type randomMatch struct {
	index  *harness.Warmroute
	chains int
}

func newRandomMatch(b *testing.B, blocks int) *randomMatch {
	const owners = 64
	m := &randomMatch{index: harness.NewWarmroute(b, owners)}
	m.chains = harness.Fill(b, m.index, harness.UpTo(owners), 0, blocks)
	return m
}

func (m *randomMatch) run(b *testing.B) {
	var (
		owners = len(m.index.Writers)
		c      = harness.NewChain(0, harness.PromptTokens)
		p      = c.Prompt(m.index.Hasher())
		times  latency.Histogram
		chosen uint64
	)
	harness.Expect(b, m.index, p, owners, func(owner int) int {
		if owner == 0 {
			return harness.PromptBlocks
		}
		return 0
	})
	b.ReportAllocs()
	for b.Loop() {
		chosen++
		c.Become(trace.Mix(chosen) % uint64(m.chains))
		p.Reset(harness.Scope(), c.Tokens)
		m.index.Hasher().Hashes(p)
		start := time.Now()
		m.index.Lookup(p)
		times.Record(time.Since(start))
	}
	harness.Report(b, &times, "")
	b.ReportMetric(float64(times.Sum)/float64(times.N), "ns/op") // without the making of prompts
}
