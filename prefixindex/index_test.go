package prefixindex_test

import (
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
