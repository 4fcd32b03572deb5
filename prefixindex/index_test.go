package prefixindex_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// scope is the one that tests use where scopes are not the point.
var scope = prefixindex.Scope{Model: "m"}

// fixture is an index of blocks of 4 tokens with one endpoint and its Writer.
type fixture struct {
	*testing.T
	ix    *prefixindex.Index
	ep    prefixindex.Endpoint
	w     *prefixindex.Writer
	match prefixindex.Match
}

func newFixture(t *testing.T, o prefixindex.Options) *fixture {
	t.Helper()
	if o.BlockTokens == 0 {
		o.BlockTokens = 4
	}
	ix, err := prefixindex.New(o)
	require.NoError(t, err)
	f := &fixture{T: t, ix: ix}
	f.ep, err = ix.Join("a")
	require.NoError(t, err)
	f.w, err = ix.Writer(f.ep, 0)
	require.NoError(t, err)
	return f
}

// tokens returns n tokens that count up from 1.
func tokens(n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(i + 1)
	}
	return s
}

// store stores blocks of size tokens of the prompt tokens(…), the first of them at
// token from; parent 0 is none.
func (f *fixture) store(tier prefixindex.Tier, size, from int, parent prefixindex.EngineHash, hashes ...prefixindex.EngineHash) {
	f.Helper()
	require.NoError(f, f.w.Store(&prefixindex.Span{
		Hashes:      hashes,
		Parent:      parent,
		HasParent:   parent != 0,
		Tokens:      tokens(from + size*len(hashes))[from:],
		BlockTokens: size,
		Scope:       scope,
		Tier:        tier,
	}))
}

func (f *fixture) place(tier prefixindex.Tier, hashes ...prefixindex.EngineHash) {
	f.Helper()
	require.NoError(f, f.w.Store(&prefixindex.Span{Hashes: hashes, Tier: tier}))
}

func (f *fixture) remove(tier prefixindex.Tier, hashes ...prefixindex.EngineHash) {
	f.Helper()
	require.NoError(f, f.w.Remove(&prefixindex.Removal{Hashes: hashes, Tier: tier}))
}

// holds checks the three runs of the endpoint's best rank for a prompt of 64 tokens.
func (f *fixture) holds(gpu, cpu, any int) {
	f.Helper()
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	f.ix.Match(&p, &f.match)
	h := f.match.Of(f.ep)
	require.Equal(f, []int{gpu, cpu, any}, []int{h.GPU, h.CPU, h.Any}, "tokens on gpu, gpu or cpu, any")
}

func TestMatchIsTheLongestRunFromTheFirstBlock(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4)
	f.holds(16, 16, 16)
	f.remove(prefixindex.TierGPU, 2)
	f.holds(4, 4, 4)
	f.store(prefixindex.TierCPU, 4, 4, 1, 2)
	f.holds(4, 16, 16)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 0, 0)
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

func TestAssumedBlocksExpire(t *testing.T) {
	now := time.Unix(0, 0)
	f := newFixture(t, prefixindex.Options{AssumedTTL: time.Minute, Clock: func() time.Time { return now }})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(11))
	require.NoError(t, f.ix.Insert(f.ep, 0, &p, -1))
	now = now.Add(time.Minute - 1)
	f.holds(8, 8, 8)
	require.Equal(t, prefixindex.ViewAssumed, f.ix.View(f.ep, 0))
	now = now.Add(1)
	f.holds(0, 0, 0)
	require.EqualValues(t, 2, f.ix.Stats().Expired)
}

func TestOptionsAreRefusedByNameValueAndRange(t *testing.T) {
	for _, c := range []struct {
		options prefixindex.Options
		want    string
	}{
		{prefixindex.Options{BlockTokens: 3}, "Options.BlockTokens is 3, want 4 to 1024"},
		{prefixindex.Options{BlockTokens: -16}, "Options.BlockTokens is -16, want 4 to 1024"},
		{prefixindex.Options{BlockTokens: 1025}, "Options.BlockTokens is 1025, want 4 to 1024"},
		{prefixindex.Options{OwnerBlocks: -1}, "Options.OwnerBlocks is -1, want 1 to 268435456"},
		{prefixindex.Options{OwnerBlocks: 1<<28 + 1}, "Options.OwnerBlocks is 268435457, want 1 to 268435456"},
		{prefixindex.Options{OwnerOrphans: -2}, "Options.OwnerOrphans is -2, want -1 to 268435456"},
		{prefixindex.Options{OwnerOrphans: 1<<28 + 1}, "Options.OwnerOrphans is 268435457, want -1 to 268435456"},
		{prefixindex.Options{Copies: -1}, "Options.Copies is -1, want 1 to 255"},
		{prefixindex.Options{Copies: 256}, "Options.Copies is 256, want 1 to 255"},
		{prefixindex.Options{AssumedTTL: -time.Second}, "Options.AssumedTTL is -1s, want 0 or more"},
	} {
		_, err := prefixindex.New(c.options)
		require.EqualError(t, err, "prefixindex: "+c.want)
	}
}

func TestZeroOptionsAreDefaults(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	other, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	require.Equal(t, 16, ix.Hasher().BlockTokens())
	require.NotZero(t, ix.Hasher().Seed())
	require.NotEqual(t, ix.Hasher().Seed(), other.Hasher().Seed())
}

// Membership.

func TestJoinAndLeave(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	again, err := f.ix.Join("a")
	require.NoError(t, err)
	require.Equal(t, f.ep, again)
	b, err := f.ix.Join("b")
	require.NoError(t, err)
	require.NotEqual(t, f.ep.Slot(), b.Slot())
	require.NotZero(t, f.ep.Slot())
	require.Equal(t, "b", f.ix.Name(b))

	f.ix.Leave(f.ep)
	f.ix.Leave(f.ep)
	_, ok := f.ix.Find("a")
	require.False(t, ok)
	require.Empty(t, f.ix.Name(f.ep))
	_, err = f.ix.Writer(f.ep, 0)
	require.ErrorIs(t, err, prefixindex.ErrNotJoined)

	later, err := f.ix.Join("a")
	require.NoError(t, err)
	require.Equal(t, f.ep.Slot(), later.Slot(), "the slot is free")
	require.Greater(t, later, f.ep)
	require.Empty(t, f.ix.Name(f.ep), "the old handle is not the new member's")
	found, ok := f.ix.Find("a")
	require.True(t, ok)
	require.Equal(t, later, found)
}

func TestRefusedMembersAndRanks(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	_, err := f.ix.Join("")
	require.Error(t, err)
	for _, e := range []prefixindex.Endpoint{0, 1 << 32, f.ep + 1<<32, f.ep + 1} {
		_, err = f.ix.Writer(e, 0)
		require.ErrorIs(t, err, prefixindex.ErrNotJoined)
		require.ErrorIs(t, f.ix.Insert(e, 0, &prefixindex.Prompt{}, -1), prefixindex.ErrNotJoined)
		f.ix.Leave(e)
	}
	for _, rank := range []int{-1, 4096} {
		_, err = f.ix.Writer(f.ep, rank)
		require.EqualError(t, err, fmt.Sprintf("prefixindex: rank is %d, want 0 to 4095", rank))
		require.Equal(t, prefixindex.ViewNever, f.ix.View(f.ep, rank))
	}
	_, err = f.ix.Writer(f.ep, 4095)
	require.NoError(t, err)
	require.Equal(t, 2, f.ix.Stats().Owners)
}

func TestRetainLetsTheOthersLeave(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	for _, name := range []string{"b", "c"} {
		_, err := f.ix.Join(name)
		require.NoError(t, err)
	}
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	require.Equal(t, 2, f.ix.Retain([]string{"b", "unknown", "b"}))
	var names []string
	for _, name := range f.ix.Endpoints() {
		names = append(names, name)
	}
	require.Equal(t, []string{"b"}, names)
	f.holds(0, 0, 0)
	require.Zero(t, f.ix.Stats().Blocks)
	require.Equal(t, 1, f.ix.Retain(nil))
}

// Fences.

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

// What engines do.

func TestRemovalTakesOneOfTwoCopies(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
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

	f = newFixture(t, prefixindex.Options{OwnerOrphans: -1})
	f.store(prefixindex.TierGPU, 4, 4, 1, 2)
	require.EqualValues(t, 1, f.w.Stats().ParkedDropped)
	require.Zero(t, f.w.Stats().Handles)
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
		"Group is -1, want 0 or more":               {Hashes: one, Tokens: tokens(4), BlockTokens: 4, Group: -1},
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

// Without events.

func TestInsertKeepsTheHeadOfTheLatestPrompt(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 3})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	require.NoError(t, f.ix.Insert(f.ep, 0, &p, -1))
	f.holds(12, 12, 12)
	var q prefixindex.Prompt
	q.Reset(prefixindex.Scope{Model: "other"}, tokens(4))
	require.NoError(t, f.ix.Insert(f.ep, 0, &q, 1))
	f.holds(8, 8, 8)
	s := f.w.Stats()
	require.EqualValues(t, 17, s.Inserted)
	require.EqualValues(t, 14, s.Evicted)
}

func TestInsertIsRefusedWhereEventsCome(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(8))
	require.NoError(t, f.ix.Insert(f.ep, 7, &p, 1), "opens the owner's epoch")
	require.Equal(t, prefixindex.ViewAssumed, f.ix.View(f.ep, 7))
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	require.ErrorIs(t, f.ix.Insert(f.ep, 0, &p, -1), prefixindex.ErrEvents)
	require.NoError(t, f.w.Clear())
	require.ErrorIs(t, f.ix.Insert(f.ep, 0, &p, -1), prefixindex.ErrEvents)
	require.NoError(t, f.w.Insert(&p, -1), "tests may mix")
	f.holds(8, 8, 8)
}

func TestInsertOfBytes(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.ResetBytes(scope, make([]byte, 40))
	require.NoError(t, f.w.Insert(&p, -1))
	f.ix.Match(&p, &f.match)
	require.Equal(t, 8, f.match.Of(f.ep).GPU)
	require.Equal(t, 10, f.match.PromptTokens())
}

// Matches.

func TestScopesDoNotMeet(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	image := prefixindex.Extra{At: 0, ID: "x"}
	stored := prefixindex.Span{Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4), BlockTokens: 4}
	spans := map[string]prefixindex.Span{}
	for name, change := range map[string]func(*prefixindex.Span){
		"plain":     func(s *prefixindex.Span) {},
		"adapter x": func(s *prefixindex.Span) { s.Scope.Adapter = "x" },
		"salt x":    func(s *prefixindex.Span) { s.Scope.Salt = "x" },
		"image x":   func(s *prefixindex.Span) { s.Extras = []prefixindex.Extra{image} },
	} {
		s := stored
		change(&s)
		spans[name] = s
	}
	for held, s := range spans {
		require.NoError(t, f.w.Clear())
		require.NoError(t, f.w.Store(&s))
		for asked, q := range spans {
			var p prefixindex.Prompt
			p.Reset(q.Scope, q.Tokens, q.Extras...)
			f.ix.Match(&p, &f.match)
			want := 0
			if asked == held {
				want = 4
			}
			require.Equal(t, want, f.match.Of(f.ep).GPU, "%s held, %s asked for", held, asked)
		}
	}
}

func TestExtrasOfEventsMeetThoseOfPrompts(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	// An image begins in the part of a block that its engine block leaves over.
	require.NoError(t, f.w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{1, 2}, Tokens: tokens(12), BlockTokens: 6, Scope: scope,
		Extras: []prefixindex.Extra{{At: 5, ID: "a"}, {At: 7, ID: "b"}},
	}))
	var p prefixindex.Prompt
	for _, c := range []struct {
		ids  [2]string
		want int
	}{{[2]string{"a", "b"}, 12}, {[2]string{"a", "c"}, 4}, {[2]string{"b", "a"}, 4}} {
		p.Reset(scope, tokens(12), prefixindex.Extra{At: 7, ID: c.ids[1]}, prefixindex.Extra{At: 5, ID: c.ids[0]})
		f.ix.Match(&p, &f.match)
		require.Equal(t, c.want, f.match.Of(f.ep).GPU, "%v", c.ids)
	}
}

func TestOfIsTheBestRank(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	for rank, blocks := range []int{0, 2, 5, 5} {
		w, err := f.ix.Writer(f.ep, rank)
		require.NoError(t, err)
		require.NoError(t, w.Insert(&p, blocks))
		require.NoError(t, w.SetView(prefixindex.ViewLive))
	}
	f.ix.Match(&p, &f.match)
	require.Equal(t, prefixindex.Held{Rank: 2, GPU: 20, CPU: 20, Any: 20, View: prefixindex.ViewLive}, f.match.Of(f.ep))
	require.Equal(t, prefixindex.Held{Rank: 1, GPU: 8, CPU: 8, Any: 8, View: prefixindex.ViewLive}, f.match.Rank(f.ep, 1))
	require.Equal(t, prefixindex.Held{Rank: 0, View: prefixindex.ViewLive}, f.match.Rank(f.ep, 0))
	require.Equal(t, prefixindex.Held{Rank: 9}, f.match.Rank(f.ep, 9))
	var ranks []int
	for ep, h := range f.match.All() {
		require.Equal(t, f.ep, ep)
		ranks = append(ranks, h.Rank)
	}
	slices.Sort(ranks)
	require.Equal(t, []int{1, 2, 3}, ranks)
	for range f.match.All() {
		break
	}
}

func TestHoldingNothingShowsTheLeastTrustedView(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	second, err := f.ix.Writer(f.ep, 1)
	require.NoError(t, err)
	order := []prefixindex.View{
		prefixindex.ViewNever, prefixindex.ViewStale, prefixindex.ViewGap,
		prefixindex.ViewResyncing, prefixindex.ViewAssumed, prefixindex.ViewLive,
	}
	var p prefixindex.Prompt
	for i, a := range order {
		for j, b := range order {
			require.NoError(t, f.w.SetView(a))
			require.NoError(t, second.SetView(b))
			f.ix.Match(&p, &f.match)
			require.Equal(t, prefixindex.Held{Rank: -1, View: order[min(i, j)]}, f.match.Of(f.ep))
		}
	}
	var zero prefixindex.Match
	require.Equal(t, prefixindex.Held{Rank: -1}, zero.Of(f.ep))
	require.Equal(t, prefixindex.Held{Rank: -1}, f.match.Of(0))
}

func TestMatchAllocatesNothing(t *testing.T) {
	f := newFixture(t, prefixindex.Options{AssumedTTL: time.Hour})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3)
	var p prefixindex.Prompt
	prompt := tokens(64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.Reset(scope, prompt)
		f.ix.Match(&p, &f.match)
	}))
}

// TestConcurrentUse is for the race detector, and checks that no answer names more
// than was ever stored, nor a closed epoch.
func TestConcurrentUse(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		wg.Go(func() {
			for round := range 40 {
				ep, err := ix.Join(fmt.Sprint(i))
				if err != nil {
					t.Error(err)
					return
				}
				w, err := ix.Writer(ep, 0)
				if err != nil {
					t.Error(err)
					return
				}
				var p prefixindex.Prompt
				p.Reset(scope, tokens(32))
				err = errors.Join(
					w.Store(&prefixindex.Span{Hashes: []prefixindex.EngineHash{2}, Parent: 1, HasParent: true, Tokens: tokens(8)[4:], BlockTokens: 4}),
					w.Store(&prefixindex.Span{Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4), BlockTokens: 4, Scope: scope}),
					w.Insert(&p, 3),
					w.SetView(prefixindex.ViewLive),
					w.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{2}}),
				)
				if err != nil {
					t.Error(err)
				}
				if round%3 == 0 {
					ix.Leave(ep)
					if err := w.Clear(); !errors.Is(err, prefixindex.ErrFenced) {
						t.Errorf("a late write: %v", err)
					}
				}
			}
		})
	}
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var p prefixindex.Prompt
			var m prefixindex.Match
			for {
				select {
				case <-stop:
					return
				default:
				}
				p.Reset(scope, tokens(32))
				ix.Match(&p, &m)
				for ep, h := range m.All() {
					if h.Any > 12 || h.GPU > h.CPU || h.CPU > h.Any {
						t.Errorf("%v holds %+v", ep, h)
					}
				}
				for ep, name := range ix.Endpoints() {
					if n := ix.Name(ep); n != "" && n != name {
						t.Errorf("%q is %q", name, n)
					}
					ix.View(ep, 0)
				}
				ix.Find("1")
				ix.Stats()
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	ix.Retain(nil)
	s := ix.Stats()
	require.Zero(t, s.Endpoints+s.Owners+s.Blocks+s.Holdings+s.Handles+s.Orphans)
	require.EqualValues(t, 120, s.Epochs)
}
