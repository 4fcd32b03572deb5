package prefixindex_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

func TestNewWriterFencesTheOld(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	require.NoError(t, f.w.SetView(prefixindex.ViewLive))
	f.holds(8, 8, 8)
	old := f.w
	var err error
	f.w, err = f.ix.Writer(f.ep, 0)
	require.NoError(t, err)
	f.holds(0, 0, 0)
	require.Equal(t, prefixindex.ViewNever, f.ix.View(f.ep, 0))

	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	late := &prefixindex.Span{Hashes: []prefixindex.EngineHash{2}, Parent: 1, HasParent: true, Tokens: tokens(8)[4:], BlockTokens: 4}
	require.ErrorIs(t, old.Store(late), prefixindex.ErrFenced)
	require.ErrorIs(t, old.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{1}}), prefixindex.ErrFenced)
	require.ErrorIs(t, old.Clear(), prefixindex.ErrFenced)
	require.ErrorIs(t, old.SetView(prefixindex.ViewLive), prefixindex.ErrFenced)
	require.ErrorIs(t, old.Insert(&prefixindex.Prompt{}, -1), prefixindex.ErrFenced)
	f.holds(4, 4, 4)
	require.EqualValues(t, 5, old.Stats().Fenced)
	require.EqualValues(t, 2, old.Stats().Stored)
	require.Zero(t, old.Stats().Holdings)
	require.EqualValues(t, 5, f.ix.Stats().Fenced)
	require.EqualValues(t, 3, f.ix.Stats().Stored, "counters outlive their epoch")
	require.EqualValues(t, 2, f.ix.Stats().Epochs)
}

func TestNoWriterIsAnEndedOne(t *testing.T) {
	for _, w := range []*prefixindex.Writer{nil, {}} {
		require.ErrorIs(t, w.Store(&prefixindex.Span{}), prefixindex.ErrFenced)
		require.ErrorIs(t, w.Remove(&prefixindex.Removal{}), prefixindex.ErrFenced)
		require.ErrorIs(t, w.Insert(&prefixindex.Prompt{}, -1), prefixindex.ErrFenced)
		require.ErrorIs(t, w.Clear(), prefixindex.ErrFenced)
		require.ErrorIs(t, w.SetView(prefixindex.ViewLive), prefixindex.ErrFenced)
		require.Zero(t, w.Stats())
	}
}

// TestManyImagesInOneEngineBlock stores one that spans many blocks and has an image in
// each of them.
func TestManyImagesInOneEngineBlock(t *testing.T) {
	const blocks = 1 << 17
	f := newFixture(t, prefixindex.Options{})
	s := &prefixindex.Span{
		Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4 * blocks), BlockTokens: 4 * blocks, Scope: scope,
	}
	for i := range 2 * blocks {
		s.Extras = append(s.Extras, prefixindex.Extra{At: 2 * i, ID: "image"})
	}
	require.NoError(t, f.w.Store(s))
	require.NoError(t, f.w.Store(s))
	require.EqualValues(t, 1, f.w.Stats().Copies)
	var p prefixindex.Prompt
	p.Reset(scope, s.Tokens, s.Extras...)
	f.ix.Match(&p, &f.match)
	require.Equal(t, 4*blocks, f.match.Of(f.ep).GPU)
}

func TestLeaveFences(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	f.ix.Leave(f.ep)
	f.holds(0, 0, 0)
	require.ErrorIs(t, f.w.Clear(), prefixindex.ErrFenced)
	old := f.ep
	var err error
	f.ep, err = f.ix.Join("a")
	require.NoError(t, err)
	f.holds(0, 0, 0)
	require.ErrorIs(t, f.w.Clear(), prefixindex.ErrFenced)
	require.Equal(t, -1, f.match.Of(old).Rank)
}

func TestClearKeepsTheWriterAndTheView(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	f.store(prefixindex.TierDisk, 4, 16, 99, 5)
	require.NoError(t, f.w.SetView(prefixindex.ViewLive))
	require.NoError(t, f.w.Clear())
	f.holds(0, 0, 0)
	require.Equal(t, prefixindex.ViewLive, f.ix.View(f.ep, 0))
	s := f.w.Stats()
	require.Zero(t, s.Handles+s.Orphans+s.Holdings)
	require.EqualValues(t, 1, s.ParkedDropped)
	require.EqualValues(t, 1, s.Clears)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.holds(4, 4, 4)
}

func TestGhostResolvesPlacement(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	f.remove(prefixindex.TierGPU, 2, 1)
	f.holds(0, 0, 0)
	f.place(prefixindex.TierDisk, 1, 2, 3)
	f.holds(0, 0, 8)
	s := f.w.Stats()
	require.EqualValues(t, 2, s.Placed)
	require.EqualValues(t, 1, s.PlacedUnknown)
}

func TestGhostPlacesItsChildren(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.remove(prefixindex.TierGPU, 1)
	f.store(prefixindex.TierGPU, 4, 4, 1, 2)
	f.holds(0, 0, 0)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.holds(8, 8, 8)
	require.Zero(t, f.w.Stats().Parked)
}

func TestOrphanIsAdopted(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 8, 2, 3)
	f.store(prefixindex.TierGPU, 4, 4, 1, 2)
	f.holds(0, 0, 0)
	require.Equal(t, 2, f.w.Stats().Orphans)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.holds(12, 12, 12)
	s := f.w.Stats()
	require.Zero(t, s.Orphans)
	require.EqualValues(t, 2, s.Adopted)
}

func TestRemovalTakesOneOfTwoCopies(t *testing.T) {
	f := newFixture(t, prefixindex.Options{Copies: 2})
	for range 3 { // the third is one more than is counted
		f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	}
	f.remove(prefixindex.TierGPU, 1)
	f.holds(4, 4, 4)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 0, 0)
	f.remove(prefixindex.TierGPU, 1)
	s := f.w.Stats()
	require.Equal(t, []uint64{1, 1, 1, 2, 1}, []uint64{s.Stored, s.Copies, s.CopiesCapped, s.Removed, s.RemovedUnknown})
}

func TestEveryPhysicalCopyCountsByDefault(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	for range 5 {
		f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	}
	for range 4 {
		f.remove(prefixindex.TierGPU, 1)
		f.holds(4, 4, 4)
	}
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 0, 0)
}

func TestCopiesOfTiersAreApart(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.place(prefixindex.TierCPU, 1)
	f.remove(prefixindex.TierDisk, 1)
	require.EqualValues(t, 1, f.w.Stats().RemovedUnknown)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 4, 4)
	f.remove(prefixindex.TierCPU, 1)
	f.holds(0, 0, 0)
}

func TestBlockIsHeldWhileOneGroupHasIt(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	for group := range 2 {
		require.NoError(t, f.w.Store(&prefixindex.Span{
			Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4), BlockTokens: 4, Scope: scope, Group: group,
		}))
	}
	f.remove(prefixindex.TierGPU, 1)
	f.holds(4, 4, 4)
	require.NoError(t, f.w.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{1}, Group: 1}))
	f.holds(0, 0, 0)
}

func TestAliasHandlesHoldOneBlock(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.store(prefixindex.TierCPU, 4, 0, 0, 2) // the same contents under another name
	require.Equal(t, 1, f.w.Stats().Holdings)
	require.Equal(t, 2, f.w.Stats().Handles)
	f.holds(4, 4, 4)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 4, 4)
	f.remove(prefixindex.TierCPU, 2)
	f.holds(0, 0, 0)
}

func TestKnownNameWithOtherContentsConflicts(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	span := func(change func(*prefixindex.Span)) *prefixindex.Span {
		s := &prefixindex.Span{Hashes: []prefixindex.EngineHash{1, 7, 8}, Tokens: tokens(12), BlockTokens: 4, Scope: scope}
		change(s)
		return s
	}
	for i, s := range []*prefixindex.Span{
		span(func(s *prefixindex.Span) { s.Tokens = make([]uint32, 12) }),
		span(func(s *prefixindex.Span) { s.Scope.Salt = "x" }),
		span(func(s *prefixindex.Span) { s.Extras = []prefixindex.Extra{{At: 1, ID: "x"}} }),
		span(func(s *prefixindex.Span) { s.Parent, s.HasParent = 2, true }),
		span(func(s *prefixindex.Span) { s.Parent, s.HasParent = 99, true }),
	} {
		require.NoError(t, f.w.Store(s))
		require.EqualValues(t, 3*(i+1), f.w.Stats().Conflicts, "the block and the two that chain on it")
	}
	f.holds(8, 8, 8)
	require.Equal(t, 2, f.w.Stats().Handles)
}

func TestParkedBlocksAreBoundedAndRemovable(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerOrphans: 2})
	f.store(prefixindex.TierGPU, 4, 4, 1, 2, 3, 4)
	s := f.w.Stats()
	require.Equal(t, []uint64{2, 1}, []uint64{s.Parked, s.ParkedDropped})
	f.remove(prefixindex.TierGPU, 3)
	f.place(prefixindex.TierCPU, 2)
	f.remove(prefixindex.TierGPU, 2)
	require.Equal(t, 1, f.w.Stats().Orphans)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.holds(4, 8, 8)

	f = newFixture(t, prefixindex.Options{OwnerOrphans: 1 << 28}) // in bytes more than 32 bits count
	f.store(prefixindex.TierGPU, 4, 4, 1, 2)
	require.EqualValues(t, 1, f.w.Stats().Parked)

	f = newFixture(t, prefixindex.Options{OwnerOrphans: -1})
	f.store(prefixindex.TierGPU, 4, 4, 1, 2)
	require.EqualValues(t, 1, f.w.Stats().ParkedDropped)
	require.Zero(t, f.w.Stats().Handles)
}

func TestExtrasCountByTheirLength(t *testing.T) {
	for _, parent := range []prefixindex.EngineHash{0, 99} {
		f := newFixture(t, prefixindex.Options{OwnerOrphans: 4})
		var bytes []int64
		for i := range prefixindex.EngineHash(3) {
			bytes = append(bytes, f.w.Stats().Bytes)
			require.NoError(t, f.w.Store(&prefixindex.Span{
				Hashes: []prefixindex.EngineHash{i + 1}, Parent: parent, HasParent: parent != 0,
				Tokens: []uint32{uint32(i)}, BlockTokens: 1,
				Extras: []prefixindex.Extra{{ID: strings.Repeat("x", 7000)}},
			}))
		}
		require.Greater(t, f.w.Stats().Bytes-bytes[0], int64(14000))
		if parent != 0 {
			require.EqualValues(t, 1, f.w.Stats().ParkedDropped, "beyond 4 times 4 KiB")
		}
		require.NoError(t, f.w.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{1, 2, 3}}))
	}
}

func TestEngineBlocksOfOtherSizes(t *testing.T) {
	t.Run("larger", func(t *testing.T) {
		f := newFixture(t, prefixindex.Options{})
		f.store(prefixindex.TierGPU, 16, 0, 0, 1, 2)
		f.holds(32, 32, 32)
		f.remove(prefixindex.TierGPU, 2)
		f.holds(16, 16, 16)
	})
	t.Run("smaller", func(t *testing.T) {
		f := newFixture(t, prefixindex.Options{BlockTokens: 16})
		f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6)
		f.holds(16, 16, 16) // two more wait for the rest of their block
		f.store(prefixindex.TierGPU, 4, 24, 6, 7, 8)
		f.holds(32, 32, 32)
		f.remove(prefixindex.TierGPU, 5)
		f.holds(16, 16, 16)
		f.place(prefixindex.TierDisk, 5)
		f.holds(16, 16, 32)
	})
	t.Run("not dividing", func(t *testing.T) {
		f := newFixture(t, prefixindex.Options{})
		f.store(prefixindex.TierGPU, 6, 0, 0, 1, 2, 3) // blocks end at 6, 12, 18
		f.holds(16, 16, 16)
		f.remove(prefixindex.TierGPU, 3)
		f.holds(12, 12, 12)
		f.remove(prefixindex.TierGPU, 2) // the second block of 4 needs it too
		f.holds(4, 4, 4)
	})
	t.Run("mixed in one chain", func(t *testing.T) {
		f := newFixture(t, prefixindex.Options{})
		f.store(prefixindex.TierGPU, 6, 0, 0, 1)
		f.store(prefixindex.TierGPU, 5, 6, 1, 2)
		f.store(prefixindex.TierGPU, 1, 11, 2, 3)
		f.holds(12, 12, 12)
	})
	t.Run("two branches of one part block", func(t *testing.T) {
		f := newFixture(t, prefixindex.Options{})
		f.store(prefixindex.TierGPU, 2, 0, 0, 1)
		f.store(prefixindex.TierGPU, 2, 2, 1, 2)
		require.NoError(t, f.w.Store(&prefixindex.Span{
			Hashes: []prefixindex.EngineHash{3}, Parent: 1, HasParent: true, Tokens: []uint32{7, 8}, BlockTokens: 2,
		}))
		require.Equal(t, 2, f.w.Stats().Holdings)
		f.remove(prefixindex.TierGPU, 2)
		f.holds(0, 0, 0)
		require.Equal(t, 1, f.w.Stats().Holdings)
	})
}

func TestChunkedTierCreditsWholeChunks(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	chunk := func(tier prefixindex.Tier, hashes ...prefixindex.EngineHash) {
		require.NoError(t, f.w.Store(&prefixindex.Span{Hashes: hashes, Tier: tier, Whole: true}))
	}
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	chunk(prefixindex.TierCPU, 1, 2, 3, 4) // 16 tokens
	chunk(prefixindex.TierCPU, 5, 6)       // less than a chunk
	f.holds(32, 32, 32)
	f.remove(prefixindex.TierGPU, 7, 8)
	f.holds(24, 24, 24)
	f.remove(prefixindex.TierGPU, 5, 6)
	f.holds(16, 16, 16) // a chunk and a half on CPU: no more than the chunk
	f.remove(prefixindex.TierGPU, 4)
	f.holds(12, 16, 16)
	f.place(prefixindex.TierDisk, 1, 2, 3, 4, 5, 6, 7)
	f.holds(12, 16, 28)
}

func TestCapacityPushesOutLeavesFirst(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 4})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6)
	f.holds(16, 16, 16)
	require.EqualValues(t, 2, f.w.Stats().Evicted)
	require.Equal(t, 4, f.w.Stats().Holdings)
	f.remove(prefixindex.TierGPU, 6, 5)
	require.Zero(t, f.w.Stats().RemovedUnknown, "the engine does not know what was pushed out here")
	f.remove(prefixindex.TierGPU, 4)
	f.store(prefixindex.TierGPU, 4, 16, 4, 5) // its parent has no copy, yet it has a place
	require.Zero(t, f.w.Stats().Parked)
	require.Equal(t, 4, f.w.Stats().Holdings)
	f.holds(12, 12, 12)
}

func TestGhostsAreForgottenOldestFirst(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	const n = 6000
	for i := range n {
		name := prefixindex.EngineHash(i + 1)
		require.NoError(t, f.w.Store(&prefixindex.Span{
			Hashes: []prefixindex.EngineHash{name}, Tokens: []uint32{uint32(i), 0, 0, 0}, BlockTokens: 4, Scope: scope,
		}))
		f.remove(prefixindex.TierGPU, name)
	}
	kept := f.w.Stats().Handles
	require.Less(t, kept, n)
	require.GreaterOrEqual(t, kept, 4096)
	f.place(prefixindex.TierDisk, n, n-1, 1)
	s := f.w.Stats()
	require.EqualValues(t, 2, s.Placed)
	require.EqualValues(t, 1, s.PlacedUnknown)
}

func TestMalformedSpansChangeNothing(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	one := []prefixindex.EngineHash{1}
	for want, s := range map[string]prefixindex.Span{
		"Tokens has 7, want 4 for each of 1 hashes": {Hashes: one, Tokens: tokens(7), BlockTokens: 4},
		"Tokens has 4, want 4 for each of 0 hashes": {Tokens: tokens(4), BlockTokens: 4},
		"BlockTokens is 0, want 1 to 1048576":       {Hashes: one, Tokens: tokens(4)},
		"BlockTokens is -4, want 1 to 1048576":      {Hashes: one, Tokens: tokens(4), BlockTokens: -4},
		"BlockTokens is -1, want 0 to 1048576":      {Hashes: one, BlockTokens: -1},
		"Hashes[1], 0x1, occurs before":             {Hashes: []prefixindex.EngineHash{1, 1}, Tokens: tokens(8), BlockTokens: 4},
		"Hashes[0], 0x1, occurs before":             {Hashes: one, Parent: 1, HasParent: true, Tokens: tokens(4), BlockTokens: 4},
		"Group is -1, want 0 to 2147483647":         {Hashes: one, Tokens: tokens(4), BlockTokens: 4, Group: -1},
		"Tier is 4, want 0 to 3":                    {Hashes: one, Tokens: tokens(4), BlockTokens: 4, Tier: 4},
		"Extra.At is 4, want 0 to 3":                {Hashes: one, Tokens: tokens(4), BlockTokens: 4, Extras: []prefixindex.Extra{{At: 4}}},
		"Extra.At is -1, want 0 to 3":               {Hashes: one, Tokens: tokens(4), BlockTokens: 4, Extras: []prefixindex.Extra{{At: -1}}},
	} {
		err := f.w.Store(&s)
		require.ErrorIs(t, err, prefixindex.ErrSpan)
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, f.w.Remove(&prefixindex.Removal{Hashes: one, Tier: 4}), prefixindex.ErrSpan)
	require.ErrorIs(t, f.w.Remove(&prefixindex.Removal{Hashes: one, Group: -1}), prefixindex.ErrSpan)
	require.Error(t, f.w.SetView(prefixindex.ViewStale+1))
	s := f.w.Stats()
	require.EqualValues(t, 13, s.Malformed)
	require.Zero(t, s.Handles+s.Holdings)
	require.NoError(t, f.w.Store(&prefixindex.Span{}), "nothing to say is no contradiction")
}

func TestForgottenGhostParksItsChild(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	const n = 6000
	names := make([]prefixindex.EngineHash, n)
	for i := range names {
		names[i] = prefixindex.EngineHash(i + 1)
	}
	f.store(prefixindex.TierGPU, 4, 0, 0, names...)
	slices.Reverse(names)
	f.remove(prefixindex.TierGPU, names...)
	require.Less(t, f.w.Stats().Handles, n)
	f.store(prefixindex.TierGPU, 4, 4*n, n, n+1)
	require.Equal(t, 1, f.w.Stats().Orphans)
	f.place(prefixindex.TierCPU, 1, 2) // ghosts that have children stay
	f.holds(0, 8, 8)
}
