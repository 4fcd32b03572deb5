package prefixindex_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// one stores a block of some tokens.
func (f *fixture) one(hash, parent prefixindex.EngineHash, toks ...uint32) {
	require.NoError(f, f.w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{hash}, Parent: parent, HasParent: parent != 0,
		Tokens: toks, BlockTokens: len(toks), Scope: scope,
	}))
}

// TestBlocksThatNeverCompleteOneAreForgotten announces engine blocks without end that
// are smaller than the index's and that nothing follows.
func TestBlocksThatNeverCompleteOneAreForgotten(t *testing.T) {
	for _, maxBytes := range []int64{0, 1 << 20} {
		f := newFixture(t, prefixindex.Options{OwnerBlocks: 100, MaxBytes: maxBytes})
		f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3)
		for i := range 60_000 {
			f.one(prefixindex.EngineHash(i+10), 0, uint32(i+10))
		}
		f.holds(12, 12, 12)
		s := f.ix.Stats()
		require.LessOrEqual(t, s.Handles, 8192+2*100+4*3)
		require.Equal(t, 60_003, s.Handles+int(s.Forgotten))
		if maxBytes > 0 {
			require.LessOrEqual(t, s.Bytes, maxBytes)
		}
		f.remove(prefixindex.TierGPU, 10, 1)
		require.EqualValues(t, 1, f.w.Stats().RemovedUnknown, "what was forgotten")
		f.holds(0, 0, 0)
	}
}

// TestNamesOfOneBlockAreFew announces one block under ever new names.
func TestNamesOfOneBlockAreFew(t *testing.T) {
	const names = 40_000
	f := newFixture(t, prefixindex.Options{})
	for i := range prefixindex.EngineHash(names) {
		f.store(prefixindex.TierGPU, 4, 0, 0, i+1)
	}
	f.holds(4, 4, 4)
	s := f.w.Stats()
	require.Equal(t, 32, s.Handles)
	require.EqualValues(t, names-32, s.Forgotten)
	require.Zero(t, s.Evicted)
	for i := range prefixindex.EngineHash(names) {
		f.holds(4, 4, 4)
		f.remove(prefixindex.TierGPU, i+1)
	}
	f.holds(0, 0, 0)
	require.EqualValues(t, names-32, f.w.Stats().RemovedUnknown)
}

// TestNamesThatOthersFollowAreBounded announces one chain under ever new names.
func TestNamesThatOthersFollowAreBounded(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 100})
	for i := range prefixindex.EngineHash(10_000) {
		f.store(prefixindex.TierGPU, 4, 0, 0, 2*i+1, 2*i+2)
		f.holds(8, 8, 8)
	}
	require.LessOrEqual(t, f.w.Stats().Handles, 8192+2*100)
}

// TestMissingBlocksBelowAHeldOneAreBounded stores long chains of which the last block
// stays alone.
func TestMissingBlocksBelowAHeldOneAreBounded(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 100})
	for chain := range 20 {
		for i := range 5000 {
			hash, parent := prefixindex.EngineHash(chain<<16|i+1), prefixindex.EngineHash(0)
			if i > 0 {
				parent = hash - 1
			}
			f.one(hash, parent, uint32(chain), uint32(i), 0, 0)
			if i > 0 {
				f.remove(prefixindex.TierGPU, parent)
			}
		}
	}
	s := f.w.Stats()
	require.LessOrEqual(t, s.Handles, 8192+2*100)
	require.Zero(t, s.Parked, "the chain that goes on is kept")
	require.NotZero(t, s.Evicted)
}

// TestManyBlocksFollowAPartialOne stores and removes many that fill the same block.
func TestManyBlocksFollowAPartialOne(t *testing.T) {
	const n = 40_000
	f := newFixture(t, prefixindex.Options{})
	f.one(1<<32, 0, 0, 1)
	for i := range prefixindex.EngineHash(n) {
		f.one(i+1, 1<<32, 2, uint32(3+i))
	}
	require.Equal(t, n, f.w.Stats().Holdings)
	for i := range prefixindex.EngineHash(n) {
		f.remove(prefixindex.TierGPU, i+1)
	}
	require.Zero(t, f.w.Stats().Holdings)
	require.LessOrEqual(t, f.w.Stats().Handles, 4097)
}

// TestMaxBytesCountsWhatIsParked parks more than there is room for, and expects more.
func TestMaxBytesCountsWhatIsParked(t *testing.T) {
	const limit = 4 << 20
	f := newFixture(t, prefixindex.Options{MaxBytes: limit})
	other, err := f.ix.Join("other")
	require.NoError(t, err)
	w, err := f.ix.Writer(other, 0)
	require.NoError(t, err)
	toks := make([]uint32, 2048)
	for i := range 4000 {
		toks[0] = uint32(i)
		f.one(prefixindex.EngineHash(2*i+1), prefixindex.EngineHash(2*i+2), toks...)
	}
	require.NoError(t, w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4), BlockTokens: 4, Scope: scope,
	}))
	s := f.ix.Stats()
	require.LessOrEqual(t, s.Bytes, int64(limit))
	require.Greater(t, s.Bytes, int64(limit)/2)
	require.Equal(t, 4000, s.Orphans+int(s.ParkedDropped))
	require.Equal(t, 1, w.Stats().Holdings)

	var p prefixindex.Prompt
	for i := range 500 {
		toks[0] = uint32(i)
		p.Reset(scope, toks)
		require.NoError(t, f.ix.Expect(f.ep, 0, &p, 0, time.Hour))
	}
	s = f.ix.Stats()
	require.LessOrEqual(t, s.Bytes, int64(limit))
	require.Equal(t, 1, w.Stats().Holdings)
}

// TestExpectationsAreBoundedByOwnerBlocks expects more than the owner has room for.
func TestExpectationsAreBoundedByOwnerBlocks(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 100})
	var p prefixindex.Prompt
	for i := range 300 {
		toks := make([]uint32, 4000)
		toks[0] = uint32(i)
		p.Reset(scope, toks)
		require.NoError(t, f.ix.Expect(f.ep, 0, &p, 0, time.Hour))
	}
	s := f.ix.Stats()
	require.Equal(t, 100, s.Holdings)
	require.Less(t, s.Bytes, int64(1<<20))
}
