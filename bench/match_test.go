package bench_test

import (
	"fmt"
	"testing"
	"time"
)

// A shape is who holds how much of the prompt of chain 1.
type shape struct {
	name  string
	depth func(owner, owners int) int // blocks that the owner was given
	hole  bool                        // owner 0 then lost its middle block
	cold  bool                        // another prompt is looked up, which nobody has any of
}

var shapes = []shape{
	{name: "full", depth: whole},
	// As many different depths as there are owners, or blocks.
	{name: "staggered", depth: func(owner, owners int) int { return (owner + 1) * promptBlocks / owners }},
	{name: "hole", depth: whole, hole: true},
	{name: "cold", depth: whole, cold: true},
}

func whole(owner, owners int) int { return promptBlocks }

func (s shape) build(b testing.TB, impl implementation, owners int) {
	c := newChain(1, promptTokens)
	for owner := range owners {
		if depth := s.depth(owner, owners); depth > 0 {
			must(b, impl.store(owner, c, 0, depth))
		}
	}
	if s.hole {
		must(b, impl.remove(0, c, promptBlocks/2, promptBlocks/2+1))
	}
	expect(b, impl, c.prompt(impl.hasher()), owners, func(owner int) int {
		if s.hole && owner == 0 {
			return promptBlocks / 2
		}
		return s.depth(owner, owners)
	})
}

// BenchmarkMatch looks up a prompt of 10,240 tokens. Its hashes are known before,
// as the second lookup of a request finds them, except in the cold shape, where the
// prompt is new and hashing is part of the time.
func BenchmarkMatch(b *testing.B) {
	for _, impl := range implementations {
		for _, owners := range []int{8, 64, 1024, 4096} {
			for _, s := range shapes {
				name := fmt.Sprintf("impl=%s/owners=%d/shape=%s", impl.name, owners, s.name)
				var index implementation // kept from one count to the next
				b.Run(name, func(b *testing.B) {
					if owners < 4096 {
						small(b)
					} else {
						large(b)
					}
					if index == nil {
						index = impl.open(b, owners)
						s.build(b, index, owners)
					}
					matchShape(b, index, s, owners)
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

func matchShape(b *testing.B, index implementation, s shape, owners int) {
	c := newChain(1, promptTokens)
	if s.cold {
		c.become(2)
	}
	p := c.prompt(index.hasher())
	if s.cold {
		expect(b, index, p, owners, func(int) int { return 0 })
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.cold {
			p.Reset(scope, c.tokens)
		}
		index.lookup(p)
	}
}

// randomMatch looks up one of thousands of prompts of 64 owners, each held by one of
// them: what is looked at is seldom in a processor's cache. A prompt's tokens are
// made and hashed right before its lookup, outside the time, and push the rest out.
type randomMatch struct {
	index  *warmroute
	chains int
}

func newRandomMatch(b *testing.B, blocks int) *randomMatch {
	const owners = 64
	m := &randomMatch{index: newWarmroute(b, owners)}
	m.chains = fill(b, m.index, upTo(owners), 0, blocks)
	return m
}

func (m *randomMatch) run(b *testing.B) {
	var (
		owners = len(m.index.writers)
		c      = newChain(0, promptTokens)
		p      = c.prompt(m.index.hasher())
		times  latencies
		chosen uint64
	)
	expect(b, m.index, p, owners, func(owner int) int {
		if owner == 0 {
			return promptBlocks
		}
		return 0
	})
	b.ReportAllocs()
	for b.Loop() {
		chosen++
		c.become(mix(chosen) % uint64(m.chains))
		p.Reset(scope, c.tokens)
		m.index.hasher().Hashes(p)
		start := time.Now()
		m.index.lookup(p)
		times.record(time.Since(start))
	}
	times.report(b, "")
	b.ReportMetric(float64(times.sum)/float64(times.n), "ns/op") // without the making of prompts
}
