package harness

import (
	"testing"

	"github.com/warmroute/warmroute/prefixindex"
)

// An Index is an implementation with a fleet of owners, numbered from 0.
type Index interface {
	Hasher() prefixindex.Hasher
	Store(owner int, c *Chain, from, to int) error  // blocks [from, to) of c
	Remove(owner int, c *Chain, from, to int) error // the same, children first, as engines evict
	Lookup(p *prefixindex.Prompt)
	Held(owner int) (tokens int) // as the last lookup found
}

// Fill stores that many blocks in all, in chains of PromptBlocks that are dealt to
// the owners in turn, and returns how many chains are full. Chain i is the one with
// number first+i.
func Fill(b testing.TB, impl Index, owners []int, first uint64, blocks int) (chains int) {
	c := NewChain(first, PromptTokens)
	for ; blocks >= PromptBlocks; blocks -= PromptBlocks {
		c.Become(first + uint64(chains))
		Must(b, impl.Store(owners[chains%len(owners)], c, 0, PromptBlocks))
		chains++
	}
	c.Become(first + uint64(chains))
	if blocks > 0 {
		Must(b, impl.Store(owners[chains%len(owners)], c, 0, blocks))
	}
	return chains
}

// UpTo returns the numbers from 0 to n-1.
func UpTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// Expect fails unless the lookup of p finds want(owner) blocks on each owner.
func Expect(b testing.TB, impl Index, p *prefixindex.Prompt, owners int, want func(owner int) int) {
	b.Helper()
	impl.Lookup(p)
	for owner := range owners {
		if got := impl.Held(owner); got != want(owner)*BlockTokens {
			b.Fatalf("owner %d of %d holds %d tokens, want %d", owner, owners, got, want(owner)*BlockTokens)
		}
	}
}
