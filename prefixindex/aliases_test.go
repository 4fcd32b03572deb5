package prefixindex_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// An engine gives the first four blocks two sets of names, 1 to 4 and 11 to 14; 5 to 16
// follow 4. Each test has the second of two aliases begin to matter in another way.

func TestAliasOfHole(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 101, 102, 103, 104, 105, 106)
	f.remove(prefixindex.TierGPU, 4, 3, 2, 1)
	f.store(prefixindex.TierGPU, 4, 0, 0, 11, 12, 13, 14)
	f.holds(64, 64, 64)
	f.remove(prefixindex.TierGPU, 14)
	f.holds(12, 12, 12)
	f.store(prefixindex.TierGPU, 4, 12, 3, 4)
	f.holds(64, 64, 64)
}

func TestChildOfAliasOfHeldBlock(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4)
	f.remove(prefixindex.TierGPU, 4, 3, 2, 1)
	f.store(prefixindex.TierGPU, 4, 0, 0, 11, 12, 13, 14)
	f.store(prefixindex.TierGPU, 4, 16, 4, 5, 6, 7, 8, 9, 10, 101, 102, 103, 104, 105, 106)
	f.holds(64, 64, 64)
	f.remove(prefixindex.TierGPU, 14)
	f.holds(12, 12, 12)
}

func TestChildOfAliasOfHole(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 11, 12, 13, 14)
	f.remove(prefixindex.TierGPU, 14, 13, 12, 11)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 101, 102, 103, 104, 105, 106)
	f.remove(prefixindex.TierGPU, 4)
	require.NoError(t, f.w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{15}, Parent: 14, HasParent: true, Tokens: []uint32{1, 1, 1, 1}, BlockTokens: 4,
	}))
	f.remove(prefixindex.TierGPU, 15)
	f.holds(12, 12, 12)
	f.store(prefixindex.TierGPU, 4, 12, 13, 14)
	f.holds(64, 64, 64)
}

func TestTwoNamesOfHeldBlocks(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 101, 102, 103, 104, 105, 106)
	f.store(prefixindex.TierGPU, 4, 0, 0, 11, 12, 13, 14)
	require.Equal(t, 16, f.w.Stats().Holdings)
	f.remove(prefixindex.TierGPU, 4, 3, 2, 1)
	f.holds(64, 64, 64)
	f.remove(prefixindex.TierGPU, 12)
	f.holds(4, 4, 4)
	require.Equal(t, 15, f.w.Stats().Holdings)
}
