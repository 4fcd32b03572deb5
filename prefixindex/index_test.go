package prefixindex_test

import (
	"errors"
	"fmt"
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
		require.ErrorIs(t, err, prefixindex.ErrOptions)
		require.ErrorContains(t, err, c.want)
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
		require.ErrorIs(t, err, prefixindex.ErrArgument)
		require.ErrorContains(t, err, fmt.Sprintf("rank is %d, want 0 to 4095", rank))
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

// TestNextOwnerOfASlot has an owner with holes leave, and others come while what it held
// is being swept, and after.
func TestNextOwnerOfASlot(t *testing.T) {
	for _, holes := range []int{1, 70} {
		f := newFixture(t, prefixindex.Options{})
		prompt := tokens(4 * 400)
		s := run(scope, 4, prompt, make([]prefixindex.EngineHash, 400)...)
		for i := range s.Hashes {
			s.Hashes[i] = prefixindex.EngineHash(i + 1)
		}
		require.NoError(t, f.w.Store(s))
		for i := range holes {
			f.remove(prefixindex.TierGPU, prefixindex.EngineHash(3+2*i))
		}
		f.ix.Leave(f.ep)
		for _, name := range []string{"b", "c", "d"} {
			ep, err := f.ix.Join(name)
			require.NoError(t, err)
			w, err := f.ix.Writer(ep, 0)
			require.NoError(t, err)
			require.Zero(t, f.finds(ep, scope, prompt), name)
			require.NoError(t, w.Store(run(prefixindex.Scope{}, 4, prompt, 1, 2, 3)))
			require.NoError(t, w.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{2}}))
			require.NoError(t, w.Store(run(scope, 4, prompt, 11, 12, 13, 14, 15, 16, 17, 18)))
			require.Equal(t, 32, f.finds(ep, scope, prompt), name)
			require.Equal(t, 4, f.finds(ep, prefixindex.Scope{}, prompt), name)
			f.ix.Leave(ep)
			f.ix.Stats() // ends the sweep
		}
	}
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
