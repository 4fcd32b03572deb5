package kvevents_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// What users of other routers reported, reduced. Each test names what broke, and where.

// llm-d/llm-d-kv-cache#593: the event was decoded, logged and ignored.
func TestClearIsOfOneEndpointOnly(t *testing.T) {
	f := newFixture(t)
	other, err := f.ix.Join("b")
	require.NoError(t, err)
	b, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: f.ix, Endpoint: other, Model: "m"})
	require.NoError(t, err)
	f.apply(stored([]uint64{1}, nil, count(1, 4), 4))
	require.NoError(t, b.Apply(decode(t, kvevents.Decoder{}, batch(stored([]uint64{1}, nil, count(1, 4), 4)))))
	f.apply(cleared)
	require.Zero(t, f.gpu(count(1, 4)))
	require.Equal(t, 4, heldBy(f.ix, other, base, count(1, 4)).GPU)
}

// llm-d/llm-d-router#1736: batches that waited re-added what the removal of an endpoint
// had taken away.
func TestBatchThatWaitedWhileTheEndpointLeft(t *testing.T) {
	ix, ep, _ := run(t, frame(0, stored([]uint64{1}, nil, count(1, 4), 4)))
	frames := 0
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: ep, Model: "m",
		Source: kvevents.SourceFunc(func(context.Context) (kvevents.Frame, error) {
			frames++
			switch frames {
			case 1:
				return frame(0, stored([]uint64{1}, nil, count(1, 4), 4)), nil
			case 2:
				ix.Leave(ep)
				return frame(1, stored([]uint64{2}, 1, count(5, 4), 4)), nil
			}
			return kvevents.Frame{}, io.EOF
		}),
	})
	require.NoError(t, err)
	require.Error(t, sub.Run(context.Background()))
	again, err := ix.Join("a")
	require.NoError(t, err)
	require.Zero(t, heldBy(ix, ep, base, count(1, 8)).Any)
	require.Zero(t, heldBy(ix, again, base, count(1, 8)).Any)
}

// llm-d/llm-d-kv-cache#372: blocks whose parent predates the router's restart were
// dropped, and all below them. #663 there: hung on the root instead, they were credited
// to prompts that they do not begin.
func TestBlocksOfUnknownParent(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{3}, 1, count(5, 4), 4), stored([]uint64{4}, 3, count(9, 4), 4))
	require.Zero(t, f.gpu(count(5, 8)), "a block from the middle begins no prompt")
	require.Zero(t, f.gpu(count(1, 12)))
	require.Equal(t, 2, f.applier.Stats().Blocks.Orphans)
	f.apply(stored([]uint64{1}, nil, count(1, 4), 4))
	require.Equal(t, 12, f.gpu(count(1, 12)))
	require.Zero(t, f.applier.Stats().Blocks.Orphans)
}

// llm-d/llm-d-router#2362: window groups announce a long span and few hashes, which were
// mapped to the wrong positions.
func TestSparseGroupBesideADenseOne(t *testing.T) {
	f := newFixtureOf(t, 16)
	f.apply(
		stored([]uint64{1}, nil, count(1, 256), 256, "group_idx", 0, "kv_cache_spec_kind", "mla_attention"),
		stored([]uint64{2}, nil, count(1, 256), 64, "group_idx", 1, "kv_cache_spec_kind", "sliding_window_mla"),
		stored([]uint64{2}, nil, count(1000, 256), 64, "group_idx", 1, "kv_cache_spec_kind", "sliding_window_mla"),
	)
	require.Equal(t, 256, f.gpu(count(1, 300)))
	require.Zero(t, f.gpu(count(1000, 300)))
	require.EqualValues(t, 2, f.applier.Stats().SkippedKind)
}

// llm-d/llm-d-router#2153: pages smaller than the router's blocks made no key at all.
func TestPagesSmallerThanBlocks(t *testing.T) {
	f := newFixtureOf(t, 64)
	for i := range 4 {
		f.apply(stored([]uint64{uint64(i + 1)}, map[bool]any{true: nil, false: i}[i == 0], count(1+16*i, 16), 16))
		require.Equal(t, (i+1)/4*64, f.gpu(count(1, 64)))
	}
	other := append(count(1, 48), count(500, 16)...)
	require.Zero(t, f.gpu(other))
	f.apply(stored([]uint64{5}, 3, count(500, 16), 16))
	require.Equal(t, 64, f.gpu(other))
	require.Equal(t, 64, f.gpu(count(1, 64)))
}

// llm-d/llm-d-kv-cache#511: removing one small block threw away more than it should, and
// trailing tokens were dropped.
func TestRemovalOfASmallBlock(t *testing.T) {
	f := newFixtureOf(t, 16)
	f.apply(stored([]uint64{1, 2, 3, 4}, nil, count(1, 64), 16))
	f.apply(removed([]uint64{4}))
	require.Equal(t, 48, f.gpu(count(1, 64)))

	f = newFixtureOf(t, 64)
	f.apply(stored([]uint64{1, 2, 3}, nil, count(1, 300), 100))
	require.Equal(t, 256, f.gpu(count(1, 300)))
	f.apply(removed([]uint64{3}))
	require.Equal(t, 192, f.gpu(count(1, 300)))
}

// llm-d/llm-d-router#2229: the ranks behind one address were one owner, and the removal
// of one evicted the other's copy. ai-dynamo/dynamo#10972: only the last of several
// publishers of one process survived.
func TestRanksAreOwnersOfTheirOwn(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	ep, err := ix.Join("10.0.0.1:8000")
	require.NoError(t, err)
	for rank := range 4 {
		frames := []kvevents.Frame{{Payload: batchOf(rank, stored([]uint64{1}, nil, count(1, 4), 4))}}
		if rank == 1 {
			frames = append(frames, kvevents.Frame{Seq: 1, Payload: batchOf(rank, removed([]uint64{1}))})
		}
		sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
			Index: ix, Endpoint: ep, Rank: rank, Model: "m", Source: script(io.EOF, frames...),
		})
		require.NoError(t, err)
		require.NoError(t, sub.Run(context.Background()))
	}
	var p prefixindex.Prompt
	var m prefixindex.Match
	p.Reset(base, count(1, 4))
	ix.Match(&p, &m)
	for rank, want := range []int{4, 0, 4, 4} {
		require.Equal(t, want, m.Rank(ep, rank).GPU, "rank %d", rank)
	}
}

// vllm-project/vllm#55092: the removal of one of two copies took the block away.
func TestTwoCopiesOneRemoved(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{1, 2, 3, 4, 5, 6, 7}, nil, count(1, 28), 4), stored([]uint64{3}, 2, count(9, 4), 4))
	f.apply(removed([]uint64{3}))
	require.Equal(t, 28, f.gpu(count(1, 28)))
	f.apply(removed([]uint64{3}))
	require.Equal(t, 8, f.gpu(count(1, 28)))
}

// ai-dynamo/dynamo#14652: an unknown hash stopped the rest of a removal.
func TestRemovalWithAnUnknownHash(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{1, 2, 3}, nil, count(1, 12), 4))
	f.apply(removed([]uint64{99, 2, 3}))
	require.Equal(t, 4, f.gpu(count(1, 12)))
	require.EqualValues(t, 1, f.applier.Stats().Blocks.RemovedUnknown)
}

// sgl-project/sglang#13488: chains with repeated hashes made loops, and one consumer
// answered by wiping the worker (ai-dynamo/dynamo#6569).
func TestRepeatedHashes(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{7}, nil, count(100, 4), 4))
	f.apply(stored([]uint64{1, 1}, nil, count(1, 8), 4), stored([]uint64{2}, 2, count(1, 4), 4))
	require.Zero(t, f.gpu(count(1, 8)))
	require.Equal(t, 4, f.gpu(count(100, 4)))
	require.EqualValues(t, 2, f.applier.Stats().Malformed)
	require.Zero(t, f.applier.Stats().Cleared)
}

// llm-d/llm-d-kv-cache#147: engines name the same tokens differently, from process to
// process.
func TestEngineNamesDoNotMatter(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	for name, hash := range map[string]uint64{"a": 1, "b": 1 << 63} {
		ep, err := ix.Join(name)
		require.NoError(t, err)
		applier, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: ep, Model: "m"})
		require.NoError(t, err)
		require.NoError(t, applier.Apply(decode(t, kvevents.Decoder{}, batch(stored([]uint64{hash}, nil, count(1, 4), 4)))))
		require.Equal(t, 4, heldBy(ix, ep, base, count(1, 4)).GPU)
	}
}

// llm-d/llm-d-kv-cache#561: offload events carry hashes without tokens and a block size
// of 0, by which some consumers divided; the removal on one tier took the other.
func TestPlaceholdersGiveATier(t *testing.T) {
	for name, placeholder := range map[string]any{
		"block size 0":           stored([]uint64{1, 2}, nil, list{}, 0, "medium", "CPU"),
		"true block size":        stored([]uint64{1, 2}, nil, list{}, 4, "medium", "CPU"),
		"digests beside numbers": stored(nil, nil, list{}, 4, "medium", "CPU", "block_hashes", list{unhex("00000000000000000000000000000000000000000000000000000000000000" + "01"), unhex("ffffffffffffffff0000000000000002")}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.apply(stored([]uint64{1, 2}, nil, count(1, 8), 4))
			f.apply(placeholder)
			f.apply(removed([]uint64{1, 2}))
			h := f.held(base, count(1, 8))
			require.Equal(t, []int{0, 8}, []int{h.GPU, h.CPU})
			f.apply(removed([]uint64{1, 2}, "medium", "CPU"))
			require.Zero(t, f.held(base, count(1, 8)).Any)
		})
	}
}

// vllm-project/vllm#46544: the removal on GPU comes before the store on CPU, and nothing
// holds the block in between.
func TestTierMoveWithTheRemovalFirst(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{1, 2}, nil, count(1, 8), 4))
	f.apply(removed([]uint64{1, 2}))
	require.Zero(t, f.held(base, count(1, 8)).Any)
	f.apply(stored([]uint64{1, 2}, nil, list{}, 0, "medium", "CPU"))
	require.Equal(t, 8, f.held(base, count(1, 8)).CPU)
}

// ai-dynamo/dynamo#11783: what one rank remembered swallowed another's removal.
func TestRanksRememberApart(t *testing.T) {
	f := newFixture(t, func(o *kvevents.ApplierOptions) { o.Ranks = kvevents.RankPayload })
	sliding := []any{"group_idx", 0, "kv_cache_spec_kind", "sliding_window"}
	f.payload(batchOf(1, stored([]uint64{123}, nil, count(1, 4), 4, "group_idx", 0)))
	f.payload(batchOf(0, stored([]uint64{123}, nil, count(1, 4), 4, sliding...)))
	f.payload(batchOf(0, removed([]uint64{123}, "group_idx", 0)))
	require.Equal(t, 4, f.gpu(count(1, 4)))
	f.payload(batchOf(1, removed([]uint64{123}, "group_idx", 0)))
	require.Zero(t, f.gpu(count(1, 4)))
}
