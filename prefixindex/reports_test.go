package prefixindex_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// What users of other routers reported, reduced. Each test names what broke, and where.

// second joins an endpoint beside that of the fixture.
func (f *fixture) second() (prefixindex.Endpoint, *prefixindex.Writer) {
	f.Helper()
	ep, err := f.ix.Join("b")
	require.NoError(f, err)
	w, err := f.ix.Writer(ep, 0)
	require.NoError(f, err)
	return ep, w
}

// finds returns the tokens of a prompt that e has on any tier.
func (f *fixture) finds(e prefixindex.Endpoint, s prefixindex.Scope, prompt []uint32, extras ...prefixindex.Extra) int {
	var p prefixindex.Prompt
	p.Reset(s, prompt, extras...)
	f.ix.Match(&p, &f.match)
	return f.match.Of(e).Any
}

// run returns a span of engine blocks that begins a prompt.
func run(s prefixindex.Scope, size int, prompt []uint32, hashes ...prefixindex.EngineHash) *prefixindex.Span {
	return &prefixindex.Span{Hashes: hashes, Tokens: prompt[:size*len(hashes)], BlockTokens: size, Scope: s}
}

// llm-d/llm-d-kv-cache#593: the clear event was ignored, or cost a walk over all blocks.
func TestClearOfOneLeavesTheOther(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	other, w := f.second()
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	require.NoError(t, w.Store(run(scope, 4, tokens(8), 1, 2)))
	require.NoError(t, f.w.Clear())
	require.Zero(t, f.finds(f.ep, scope, tokens(8)))
	require.Equal(t, 8, f.finds(other, scope, tokens(8)))
}

// llm-d/llm-d-kv-cache#663: blocks of unknown parent were hung on the root, so that
// prompts beginning with their tokens met them.
func TestBlockOfUnknownParentBeginsNoPrompt(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	s := run(scope, 4, tokens(8), 3, 4)
	s.HasParent, s.Parent = true, 99
	require.NoError(t, f.w.Store(s))
	f.holds(0, 0, 0)
	require.Equal(t, 2, f.w.Stats().Orphans)
}

// llm-d/llm-d-router#2373: small blocks at the head of a chain of large ones were not
// remembered as parents.
func TestSmallBlockBeforeLargeOnes(t *testing.T) {
	f := newFixture(t, prefixindex.Options{BlockTokens: 64})
	f.store(prefixindex.TierGPU, 16, 0, 0, 1)
	f.store(prefixindex.TierGPU, 64, 16, 1, 2)
	require.Equal(t, 64, f.finds(f.ep, scope, tokens(80)))
	require.Zero(t, f.w.Stats().Orphans)
}

// llm-d/llm-d-router#2153: pages smaller than the router's blocks made no key at all.
func TestPagesBranchWithinABlock(t *testing.T) {
	f := newFixture(t, prefixindex.Options{BlockTokens: 64})
	f.store(prefixindex.TierGPU, 16, 0, 0, 1, 2, 3)
	require.Zero(t, f.finds(f.ep, scope, tokens(64)))
	f.store(prefixindex.TierGPU, 16, 48, 3, 4)
	branch := append(tokens(48), make([]uint32, 16)...)
	require.NoError(t, f.w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{5}, Parent: 3, HasParent: true, Tokens: branch[48:], BlockTokens: 16,
	}))
	require.Equal(t, 64, f.finds(f.ep, scope, tokens(64)))
	require.Equal(t, 64, f.finds(f.ep, scope, branch))
	require.Equal(t, 2, f.w.Stats().Holdings)
}

// llm-d/llm-d-kv-cache#511: a small block's removal took too much or too little, and
// trailing tokens were dropped.
func TestSmallBlockRemovedFromALargeOne(t *testing.T) {
	for size, left := range map[int]int{64: 0, 16: 48} {
		f := newFixture(t, prefixindex.Options{BlockTokens: size})
		f.store(prefixindex.TierGPU, 16, 0, 0, 1, 2, 3, 4)
		require.Equal(t, 64, f.finds(f.ep, scope, tokens(64)))
		f.remove(prefixindex.TierGPU, 4)
		require.Equal(t, left, f.finds(f.ep, scope, tokens(64)), "blocks of %d", size)
	}
	f := newFixture(t, prefixindex.Options{BlockTokens: 64})
	f.store(prefixindex.TierGPU, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	require.Equal(t, 256, f.finds(f.ep, scope, tokens(300)))
}

// smg-project/smg#2420: salts were ignored, and a chain of unknown parent was filed as
// one without salt.
func TestChainHasTheSaltOfItsRoot(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	salted, other := scope, scope
	salted.Salt, other.Salt = "t1", "t2"
	child := &prefixindex.Span{
		Hashes: []prefixindex.EngineHash{3}, Parent: 2, HasParent: true, Tokens: tokens(12)[8:], BlockTokens: 4, Scope: scope,
	}
	require.NoError(t, f.w.Store(child))
	for _, s := range []prefixindex.Scope{scope, salted, other} {
		require.Zero(t, f.finds(f.ep, s, tokens(12)))
		require.Zero(t, f.finds(f.ep, s, tokens(12)[8:]))
	}
	require.NoError(t, f.w.Store(run(salted, 4, tokens(8), 1, 2)))
	require.Equal(t, 12, f.finds(f.ep, salted, tokens(12)))
	require.Zero(t, f.finds(f.ep, other, tokens(12)))
	require.Zero(t, f.finds(f.ep, scope, tokens(12)))
}

// llm-d/llm-d-kv-cache#444: placeholders of images are equal tokens, and images shared
// blocks. LMCache/LMCache#4086: so did those whose hashes share their low 16 bits.
func TestImagesOfEqualPlaceholders(t *testing.T) {
	f := newFixture(t, prefixindex.Options{BlockTokens: 16})
	prompt := append(tokens(16), slices.Repeat([]uint32{151655}, 16)...)
	s := run(scope, 16, prompt, 1, 2)
	s.Extras = []prefixindex.Extra{{At: 16, ID: "5ad0ffffbeef"}}
	require.NoError(t, f.w.Store(s))
	for id, want := range map[string]int{"5ad0ffffbeef": 32, "5ad0eeeebeef": 16, "beef": 16, "": 16} {
		require.Equal(t, want, f.finds(f.ep, scope, prompt, prefixindex.Extra{At: 16, ID: id}), "image %q", id)
	}
	require.Equal(t, 16, f.finds(f.ep, scope, prompt), "no image")
}

// llm-d/llm-d-router#2229: the ranks behind one address were one owner, and the removal
// at one evicted the other's copy.
func TestRemovalAtOneRankLeavesTheOther(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	second, err := f.ix.Writer(f.ep, 1)
	require.NoError(t, err)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	require.NoError(t, second.Store(run(scope, 4, tokens(4), 1)))
	require.NoError(t, second.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{1}}))
	f.holds(4, 4, 4)
	require.Equal(t, 4, f.match.Rank(f.ep, 0).GPU)
	require.Zero(t, f.match.Rank(f.ep, 1).GPU)
}

// vllm-project/vllm#55092: the removal of one of two copies made a hit of 7 blocks 2.
func TestOneCopyInTheMiddleOfAChain(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7)
	f.store(prefixindex.TierGPU, 4, 8, 2, 3)
	f.remove(prefixindex.TierGPU, 3)
	f.holds(28, 28, 28)
	f.remove(prefixindex.TierGPU, 3)
	f.holds(8, 8, 8)
}

// kubernetes-sigs/gateway-api-inference-extension#2579: one addition beyond the capacity
// listed again what it had just evicted.
func TestSpanLargerThanTheCapacity(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 2})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3)
	f.holds(8, 8, 8)
	s := f.ix.Stats()
	require.Equal(t, []int{2, 2}, []int{s.Blocks, s.Holdings})
	require.EqualValues(t, 1, s.Evicted)
}

// llm-d/llm-d-kv-cache#393: "the last holder has gone, delete the key" met the addition
// of another holder, who was lost.
func TestLastHolderGoesWhileAnotherComes(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	other, w := f.second()
	span := run(scope, 4, tokens(4), 1)
	removal := &prefixindex.Removal{Hashes: span.Hashes}
	require.NoError(t, f.w.Store(span))
	from, to, toEndpoint := f.w, w, other
	for range 10_000 {
		var both sync.WaitGroup
		var removed, stored error
		both.Go(func() { removed = from.Remove(removal) })
		both.Go(func() { stored = to.Store(span) })
		both.Wait()
		require.NoError(t, removed)
		require.NoError(t, stored)
		require.Equal(t, 4, f.finds(toEndpoint, scope, span.Tokens))
		from, to = to, from
		toEndpoint = f.ep + other - toEndpoint
	}
}

// ai-dynamo/dynamo#14652: an unknown hash stopped the rest of a removal.
func TestRemovalGoesOnAfterAnUnknownHash(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3)
	f.remove(prefixindex.TierGPU, 99, 3, 2)
	f.holds(4, 4, 4)
	require.EqualValues(t, 1, f.w.Stats().RemovedUnknown)
}

// sgl-project/sglang#13488: chains with repeated hashes made loops, and one consumer
// answered by wiping the worker (ai-dynamo/dynamo#6569).
func TestRepeatedHashesHarmNothingElse(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	own := run(scope, 4, tokens(4), 8)
	own.Parent, own.HasParent = 8, true
	require.ErrorIs(t, f.w.Store(own), prefixindex.ErrSpan)
	require.ErrorIs(t, f.w.Store(run(scope, 4, tokens(8), 9, 9)), prefixindex.ErrSpan)
	f.store(prefixindex.TierGPU, 4, 8, 2, 3)
	f.holds(12, 12, 12)
	require.EqualValues(t, 2, f.w.Stats().Malformed)
}

// vllm-project/vllm#45261: roots that a late subscriber never hears of again.
func TestRootIsHeardOfLast(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	for i := 5; i > 1; i-- {
		f.store(prefixindex.TierGPU, 4, 4*i-4, prefixindex.EngineHash(i-1), prefixindex.EngineHash(i))
		f.holds(0, 0, 0)
	}
	require.Equal(t, 4, f.w.Stats().Orphans)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	f.holds(20, 20, 20)
}

// vllm-project/vllm#57159: a chunk that comes back whole or not at all was credited by
// its inner blocks.
func TestPartOfAChunkIsNothing(t *testing.T) {
	f := newFixture(t, prefixindex.Options{BlockTokens: 16})
	s := run(scope, 16, tokens(64), 1, 2, 3, 4)
	s.Tier, s.Whole = prefixindex.TierCPU, true
	require.NoError(t, f.w.Store(s))
	require.Zero(t, f.finds(f.ep, scope, tokens(48)))
	require.Equal(t, 64, f.finds(f.ep, scope, tokens(64)))
}

// vllm-project/aibrix#917: a match was not anchored at the beginning of the prompt.
func TestMatchBeginsWithThePrompt(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	other, w := f.second()
	x, y := tokens(16)[:8], tokens(16)[8:]
	require.NoError(t, f.w.Store(run(scope, 4, x, 1, 2)))
	require.NoError(t, w.Store(run(scope, 4, y, 1, 2)))
	require.Zero(t, f.finds(f.ep, scope, slices.Concat(y, x)))
	require.Equal(t, 8, f.finds(other, scope, slices.Concat(y, x)))
}

// llm-d/llm-d-kv-cache#147: engines name the same tokens differently, from process to
// process.
func TestEnginesNameBlocksAsTheyLike(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	other, w := f.second()
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	require.NoError(t, w.Store(run(scope, 4, tokens(8), 2, 1)))
	require.Equal(t, 8, f.finds(f.ep, scope, tokens(8)))
	require.Equal(t, 8, f.finds(other, scope, tokens(8)))
	require.Equal(t, 2, f.ix.Stats().Blocks)
}

// llm-d/llm-d-router#2390: 96 endpoints, 3,750 blocks, 13 GB for one lookup.
// llm-d/llm-d-router#1217: matches ended at 4,096 tokens without a word.
func TestLongPromptAtManyEndpoints(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 64})
	require.NoError(t, err)
	var p prefixindex.Prompt
	p.Reset(scope, tokens(240_000))
	var eps []prefixindex.Endpoint
	for i := range 96 {
		ep, err := ix.Join(string(rune('a' + i)))
		require.NoError(t, err)
		require.NoError(t, ix.Insert(ep, 0, &p, -1))
		eps = append(eps, ep)
	}
	var m prefixindex.Match
	require.Zero(t, testing.AllocsPerRun(10, func() { ix.Match(&p, &m) }))
	for _, ep := range eps {
		require.Equal(t, 240_000, m.Of(ep).GPU)
	}
}

// ai-dynamo/dynamo#4429: hundreds of gigabytes. smg-project/smg#2095: engines that stop
// sending removals.
func TestStoresWithoutRemovals(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 1000})
	c := &conversation{T: t}
	peak := int64(0)
	for id := range 10_000 {
		c.store(f.w, id, 10)
		if id == 1000 {
			peak = f.ix.Stats().Bytes
		}
	}
	s := f.ix.Stats()
	require.Equal(t, 1000, s.Holdings)
	require.EqualValues(t, 99_000, s.Evicted)
	require.LessOrEqual(t, s.Bytes, 2*peak, "bytes after a hundred times the capacity")
}

// kubernetes-sigs/gateway-api-inference-extension#1289: endpoints that had gone were
// never cleaned up.
func TestEndpointsThatHaveGoneLeaveNothing(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	c := &conversation{T: t}
	f.ix.Leave(f.ep)
	empty := f.ix.Stats().Bytes
	for round := range 100 {
		ep, err := f.ix.Join(string(rune('a' + round)))
		require.NoError(t, err)
		w, err := f.ix.Writer(ep, 0)
		require.NoError(t, err)
		c.store(w, round, 100)
	}
	full := f.ix.Stats()
	require.Equal(t, 10_000, full.Blocks)
	require.Equal(t, 100, f.ix.Retain(nil))
	s := f.ix.Stats()
	require.Zero(t, s.Endpoints+s.Owners+s.Blocks+s.Holdings+s.Handles)
	require.Less(t, s.Bytes-empty, (full.Bytes-empty)/4)
}

// kubernetes-sigs/gateway-api-inference-extension#2878: nobody knew what an index would
// take before it did.
func TestEstimateIsNearWhatIsTaken(t *testing.T) {
	for _, owners := range []int{1, 8} {
		ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
		require.NoError(t, err)
		c := &conversation{T: t}
		for i := range owners {
			ep, err := ix.Join(string(rune('a' + i)))
			require.NoError(t, err)
			w, err := ix.Writer(ep, 0)
			require.NoError(t, err)
			for id := range 100 {
				c.store(w, id, 100)
			}
		}
		s := ix.Stats()
		require.Equal(t, []int{10_000, 10_000 * owners}, []int{s.Blocks, s.Holdings})
		require.InEpsilon(t, s.Bytes, prefixindex.Estimate(s.Blocks, s.Holdings), 0.2, "%d owners", owners)
	}
}
