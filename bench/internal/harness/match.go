package harness

import "testing"

// A Shape is who holds how much of the prompt of chain 1.
type Shape struct {
	Name  string
	Depth func(owner, owners int) int // blocks that the owner was given
	Hole  bool                        // owner 0 then lost its middle block
	Cold  bool                        // another prompt is looked up, which nobody has any of
}

// Shapes are the ones that are measured.
func Shapes() []Shape {
	return []Shape{
		{Name: "full", Depth: whole},
		// As many different depths as there are owners, or blocks.
		{Name: "staggered", Depth: func(owner, owners int) int { return (owner + 1) * PromptBlocks / owners }},
		{Name: "hole", Depth: whole, Hole: true},
		{Name: "cold", Depth: whole, Cold: true},
	}
}

func whole(int, int) int { return PromptBlocks }

// Build makes an index of the shape and checks it.
func (s Shape) Build(b testing.TB, impl Index, owners int) {
	c := NewChain(1, PromptTokens)
	for owner := range owners {
		if depth := s.Depth(owner, owners); depth > 0 {
			Must(b, impl.Store(owner, c, 0, depth))
		}
	}
	if s.Hole {
		Must(b, impl.Remove(0, c, PromptBlocks/2, PromptBlocks/2+1))
	}
	Expect(b, impl, c.Prompt(impl.Hasher()), owners, func(owner int) int {
		if s.Hole && owner == 0 {
			return PromptBlocks / 2
		}
		return s.Depth(owner, owners)
	})
}

// Match times lookups of an index that s has built. Hashes are known, except in the cold
// shape, where the prompt is new.
func Match(b *testing.B, index Index, s Shape, owners int) {
	c := NewChain(1, PromptTokens)
	if s.Cold {
		c.Become(2)
	}
	p := c.Prompt(index.Hasher())
	if s.Cold {
		Expect(b, index, p, owners, func(int) int { return 0 })
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.Cold {
			p.Reset(Scope(), c.Tokens)
		}
		index.Lookup(p)
	}
}
