package prefixindex_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

func newHasher(t *testing.T, blockTokens int, seed uint64) prefixindex.Hasher {
	t.Helper()
	h, err := prefixindex.NewHasher(blockTokens, seed)
	require.NoError(t, err)
	return h
}

// hashes returns a copy of the hashes of a fresh prompt.
func hashes(h prefixindex.Hasher, tokens []uint32, extras ...prefixindex.Extra) []prefixindex.BlockHash {
	var p prefixindex.Prompt
	p.Reset(scope, tokens, extras...)
	return slices.Clone(h.Hashes(&p))
}

func TestZeroPromptHasNothing(t *testing.T) {
	var p prefixindex.Prompt
	require.Empty(t, newHasher(t, 4, 1).Hashes(&p))
	require.Zero(t, p.Tokens())
	require.Zero(t, p.Scope())
}

func TestZeroHasherFindsNoBlocks(t *testing.T) {
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	require.Empty(t, prefixindex.Hasher{}.Hashes(&p))
	require.Len(t, newHasher(t, 4, 1).Hashes(&p), 16)
	require.Empty(t, prefixindex.Hasher{}.Hashes(&p))
}

func TestLastPartBlockHasNoHash(t *testing.T) {
	h := newHasher(t, 4, 1)
	for n, want := range map[int]int{0: 0, 3: 0, 4: 1, 7: 1, 8: 2} {
		require.Len(t, hashes(h, tokens(n)), want, "%d tokens", n)
	}
}

func TestPromptFollowsTheHasher(t *testing.T) {
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64), prefixindex.Extra{At: 9, ID: "image"})
	a, b := newHasher(t, 4, 1), newHasher(t, 5, 2)
	first := slices.Clone(a.Hashes(&p))
	second := slices.Clone(b.Hashes(&p))
	require.Len(t, first, 16)
	require.Len(t, second, 12)
	require.NotEqual(t, first[0], second[0])
	require.Equal(t, first, a.Hashes(&p))
}

func TestResetForgetsThePromptBefore(t *testing.T) {
	h := newHasher(t, 4, 1)
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64), prefixindex.Extra{At: 0, ID: "image"})
	h.Hashes(&p)
	p.Reset(scope, tokens(12))
	require.Equal(t, hashes(h, tokens(12)), h.Hashes(&p))
	p.ResetBytes(scope, []byte("0123456789abcdef!"))
	require.Len(t, h.Hashes(&p), 1)
	require.Equal(t, 5, p.Tokens())
	p.Reset(scope, tokens(12))
	require.Equal(t, hashes(h, tokens(12)), h.Hashes(&p))
}

func TestExtendEqualsReset(t *testing.T) {
	h := newHasher(t, 4, 1)
	extras := []prefixindex.Extra{{At: 2, ID: "a"}, {At: 6, ID: "b"}, {At: 13, ID: "c"}, {At: 13, ID: "d"}}
	for _, c := range []struct {
		name    string
		lengths []int
	}{
		{"longer", []int{8, 20}},
		{"fills the last block", []int{6, 8}},
		{"not longer", []int{8, 8}},
		{"shorter", []int{20, 6}},
		{"shorter and longer", []int{20, 8, 20}},
		{"to nothing and back", []int{20, 0, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p prefixindex.Prompt
			for i, n := range c.lengths {
				if i == 0 {
					p.Reset(scope, tokens(n), extras...)
				} else {
					p.Extend(tokens(n))
				}
				require.Equal(t, n, p.Tokens())
				require.True(t, slices.Equal(hashes(h, tokens(n), extras...), h.Hashes(&p)))
			}
		})
	}
}

func TestExtendOfBytesEmpties(t *testing.T) {
	var p prefixindex.Prompt
	p.ResetBytes(scope, make([]byte, 64))
	p.Extend(tokens(64))
	require.Zero(t, p.Tokens())
	require.Equal(t, scope, p.Scope())
	require.Empty(t, newHasher(t, 4, 1).Hashes(&p))
	p.Extend(tokens(64))
	require.Equal(t, 64, p.Tokens())
}

func TestExtrasComeInAnyOrder(t *testing.T) {
	h := newHasher(t, 4, 1)
	a, b, c := prefixindex.Extra{At: 2, ID: "a"}, prefixindex.Extra{At: 2, ID: "b"}, prefixindex.Extra{At: 9, ID: "c"}
	require.Equal(t, hashes(h, tokens(12), a, b, c), hashes(h, tokens(12), c, b, a))
}

func TestExtrasPartPromptsAtTheImage(t *testing.T) {
	h := newHasher(t, 4, 1)
	with := func(at int, id string) []prefixindex.BlockHash {
		return hashes(h, tokens(16), prefixindex.Extra{At: at, ID: id})
	}
	plain, x, y := hashes(h, tokens(16)), with(6, "x"), with(6, "y")
	require.Equal(t, plain[0], x[0])
	require.Equal(t, x[0], y[0])
	for i := 1; i < 4; i++ {
		require.NotEqual(t, plain[i], x[i], "block %d", i)
		require.NotEqual(t, x[i], y[i], "block %d", i)
	}
	require.Equal(t, x, with(7, "x"), "where in its block an item begins shows in the tokens")
	require.Equal(t, plain, with(16, "x"), "nothing begins beyond the prompt")
	require.Equal(t, with(0, "x"), with(-3, "x"), "what began before the prompt counts from its first block")
}

func TestBytesNeverEqualTokens(t *testing.T) {
	h := newHasher(t, 4, 1)
	var p, q prefixindex.Prompt
	p.Reset(scope, make([]uint32, 8))
	q.ResetBytes(scope, make([]byte, 32))
	require.Equal(t, p.Tokens(), q.Tokens())
	for i, b := range h.Hashes(&q) {
		require.NotContains(t, h.Hashes(&p), b, "block %d", i)
	}
}

// The race detector is what judges this test.
func TestPromptWithItsHashesIsSharedByReaders(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	for _, n := range []int{2, 64} {
		var p prefixindex.Prompt
		p.Reset(scope, tokens(n))
		f.ix.Hasher().Hashes(&p)
		f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var m prefixindex.Match
				for range 50 {
					f.ix.Match(&p, &m)
					f.ix.Hasher().Hashes(&p)
				}
			})
		}
		wg.Wait()
	}
}
