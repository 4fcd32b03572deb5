package kvevents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

func TestStoredRemovedCleared(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{1, 2}, nil, count(1, 8), 4))
	f.apply(stored([]uint64{3}, 2, count(9, 4), 4))
	require.Equal(t, 12, f.gpu(count(1, 14)))
	f.apply(removed([]uint64{3}))
	require.Equal(t, 8, f.gpu(count(1, 14)))
	f.apply(stored([]uint64{3}, 2, count(9, 4), 4), cleared, stored([]uint64{1}, nil, count(1, 4), 4))
	require.Equal(t, 4, f.gpu(count(1, 14)))
	s := f.applier.Stats()
	require.EqualValues(t, 4, s.Stored)
	require.EqualValues(t, 1, s.Removed)
	require.EqualValues(t, 1, s.Cleared)
	require.Equal(t, 1, s.Blocks.Blocks)
	require.EqualValues(t, 1, s.Blocks.Epochs)
}

// Positional and map events mixed in one batch are the same events.
func TestArrayAndMapEventsMixed(t *testing.T) {
	f := newFixture(t)
	f.apply(
		list{"BlockStored", list{1}, nil, count(1, 4), 4},
		stored([]uint64{2}, 1, count(5, 4), 4),
		pack(list{"BlockStored", list{3}, 2, count(9, 4), 4, nil, "GPU"}),
	)
	require.Equal(t, 12, f.gpu(count(1, 12)))
}

// The vectors leave the index as their text says.
func TestVectorsApplied(t *testing.T) {
	f := newFixture(t)
	f.payload(vector(t, "H4"))
	require.Equal(t, 8, f.gpu(count(1, 8)))
	f.payload(vector(t, "H7")) // a placeholder, a group that is skipped, copies elsewhere
	require.Equal(t, 8, f.held(base, count(1, 8)).CPU)
	f.payload(vector(t, "H3")) // stores a copy, removes one, clears all
	require.Equal(t, prefixindex.Held{Rank: -1}, f.held(base, count(1, 8)))
	f.payload(vector(t, "H10"))
	s := f.applier.Stats()
	require.EqualValues(t, 1, s.Unknown)
	require.EqualValues(t, 1, s.SkippedKind)
	require.EqualValues(t, 1, s.SkippedRemote)
	require.EqualValues(t, 1, s.Placements)
	require.EqualValues(t, 1, s.UnknownFields)
}

func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		name  string
		event any
		count func(s kvevents.ApplierStats) uint64
	}{
		{"sliding window", stored([]uint64{1}, nil, count(1, 4), 4, "group_idx", 0, "kv_cache_spec_kind", "sliding_window"), func(s kvevents.ApplierStats) uint64 { return s.SkippedKind }},
		{"kind of the future", stored([]uint64{1}, nil, count(1, 4), 4, "group_idx", 0, "kv_cache_spec_kind", "new"), func(s kvevents.ApplierStats) uint64 { return s.SkippedKind }},
		{"second group, no kind", stored([]uint64{1}, nil, count(1, 4), 4, "group_idx", 1), func(s kvevents.ApplierStats) uint64 { return s.SkippedKind }},
		{"removal of a group never seen", removed([]uint64{1}, "group_idx", 1), func(s kvevents.ApplierStats) uint64 { return s.SkippedKind }},
		{"fewer hashes than blocks", stored([]uint64{1}, nil, count(1, 8), 4), func(s kvevents.ApplierStats) uint64 { return s.SkippedSparse }},
		{"no hashes", stored(nil, nil, count(1, 8), 4), func(s kvevents.ApplierStats) uint64 { return s.SkippedSparse }},
		{"more hashes than tokens", stored([]uint64{1, 2}, nil, count(1, 4), 4), func(s kvevents.ApplierStats) uint64 { return s.Malformed }},
		{"block size 0 with tokens", stored([]uint64{1}, nil, count(1, 4), 0), func(s kvevents.ApplierStats) uint64 { return s.Malformed }},
		{"own parent", stored([]uint64{1}, 1, count(1, 4), 4), func(s kvevents.ApplierStats) uint64 { return s.Malformed }},
		{"hash twice", stored([]uint64{1, 1}, nil, count(1, 8), 4), func(s kvevents.ApplierStats) uint64 { return s.Malformed }},
		{"unknown medium", stored([]uint64{1}, nil, count(1, 4), 4, "medium", "TAPE"), func(s kvevents.ApplierStats) uint64 { return s.SkippedTier }},
		{"empty medium", stored([]uint64{1}, nil, count(1, 4), 4, "medium", ""), func(s kvevents.ApplierStats) uint64 { return s.SkippedTier }},
		{"shared storage", stored([]uint64{1}, nil, count(1, 4), 4, "medium", "SHARED_STORAGE"), func(s kvevents.ApplierStats) uint64 { return s.SkippedRemote }},
		{"remote", stored([]uint64{1}, nil, count(1, 4), 4, "locality", "REMOTE"), func(s kvevents.ApplierStats) uint64 { return s.SkippedRemote }},
		{"locality of the future", stored([]uint64{1}, nil, count(1, 4), 4, "locality", "NEAR"), func(s kvevents.ApplierStats) uint64 { return s.SkippedRemote }},
		{"remote removal", removed([]uint64{1}, "locality", "REMOTE"), func(s kvevents.ApplierStats) uint64 { return s.SkippedRemote }},
		{"owned by a secondary tier", stored([]uint64{1}, nil, count(1, 4), 4, "medium", "CPU", "ownership", "fs"), func(s kvevents.ApplierStats) uint64 { return s.SkippedOwned }},
		{"extras not understood", stored([]uint64{1}, nil, count(1, 4), 4, "extra_keys", list{list{dict{"type", "mm"}}}), func(s kvevents.ApplierStats) uint64 { return s.SkippedExtras }},
		{"media not understood", stored([]uint64{1}, nil, count(1, 4), 4, "block_mm_infos", list{1}), func(s kvevents.ApplierStats) uint64 { return s.SkippedExtras }},
		{"item that begins before the prompt", stored([]uint64{1}, nil, count(1, 4), 4, "extra_keys", list{list{list{"i", -1}}}), func(s kvevents.ApplierStats) uint64 { return s.SkippedExtras }},
		{"two salts", stored([]uint64{1}, nil, count(1, 4), 4, "extra_keys", list{list{"a", "b"}}), func(s kvevents.ApplierStats) uint64 { return s.SkippedExtras }},
		{"more bare strings than a block has items", stored([]uint64{1, 2}, nil, count(1, 8), 4, "extra_keys", list{nil, many(65, "a")}), func(s kvevents.ApplierStats) uint64 { return s.SkippedExtras }},
		{"salt in the middle", stored([]uint64{1, 2}, nil, count(1, 8), 4, "extra_keys", list{nil, list{"a"}}), func(s kvevents.ApplierStats) uint64 { return s.SkippedExtras }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.apply(stored([]uint64{100, 101}, nil, count(100, 8), 4))
			f.apply(removed([]uint64{101}), c.event, stored([]uint64{101}, 100, count(104, 4), 4))
			require.EqualValues(t, 1, c.count(f.applier.Stats()))
			require.Zero(t, f.held(base, count(1, 8)).Any)
			require.Equal(t, 8, f.gpu(count(100, 8)), "the events around it are applied")
		})
	}
}

// many returns n of v.
func many(n int, v any) list {
	l := make(list, n)
	for i := range l {
		l[i] = v
	}
	return l
}

// Items in descending order take no longer than in ascending order.
func TestManyItemsOfABlock(t *testing.T) {
	const n = 30_000
	took := func(offset func(i int) int) time.Duration {
		f := newFixture(t)
		items := make(list, n)
		for i := range items {
			items[i] = list{"i", offset(i)}
		}
		began := time.Now()
		f.apply(stored([]uint64{1}, nil, count(1, n+1), n+1, "extra_keys", list{items}))
		require.Zero(t, f.applier.Stats().SkippedExtras)
		return time.Since(began)
	}
	up := took(func(i int) int { return i })
	down := took(func(i int) int { return n - i })
	require.Less(t, down, 5*up+time.Second/2)
}

func TestBlockSizes(t *testing.T) {
	t.Run("larger than the index's", func(t *testing.T) {
		f := newFixture(t)
		f.apply(stored([]uint64{1, 2}, nil, count(1, 32), 16))
		require.Equal(t, 32, f.gpu(count(1, 33)))
		f.apply(removed([]uint64{2}))
		require.Equal(t, 16, f.gpu(count(1, 33)))
	})
	t.Run("smaller, in one event each", func(t *testing.T) {
		f := newFixtureOf(t, 16)
		f.apply(stored([]uint64{1}, nil, count(1, 4), 4))
		for i := range 7 {
			f.apply(stored([]uint64{uint64(i + 2)}, i+1, count(5+4*i, 4), 4))
		}
		require.Equal(t, 32, f.gpu(count(1, 40)))
	})
	t.Run("no multiple of each other", func(t *testing.T) {
		f := newFixtureOf(t, 16)
		f.apply(stored([]uint64{1, 2, 3, 4}, nil, count(1, 40), 10))
		require.Equal(t, 32, f.gpu(count(1, 40)))
	})
	t.Run("mixed in a chain", func(t *testing.T) {
		f := newFixtureOf(t, 16)
		f.apply(stored([]uint64{1}, nil, count(1, 8), 8), stored([]uint64{2}, 1, count(9, 32), 32))
		require.Equal(t, 32, f.gpu(count(1, 40)))
		// And again, now that the group's usual size is known.
		f.apply(stored([]uint64{3}, nil, count(101, 8), 8), stored([]uint64{4}, 3, count(109, 32), 32))
		require.Equal(t, 32, f.gpu(count(101, 40)))
	})
	t.Run("learned: smaller ones of unknown place are not kept", func(t *testing.T) {
		f := newFixture(t)
		f.apply(stored([]uint64{1}, nil, count(1, 256), 256, "group_idx", 0, "kv_cache_spec_kind", "mla_attention"))
		f.apply(stored([]uint64{7}, 6, count(1, 4), 4, "group_idx", 0, "kv_cache_spec_kind", "mla_attention"))
		s := f.applier.Stats()
		require.EqualValues(t, 1, s.SkippedSize)
		require.EqualValues(t, 1, s.Stored)
		require.Zero(t, s.Blocks.Orphans)
		f.apply(stored([]uint64{6}, nil, count(300, 4), 4, "group_idx", 0, "kv_cache_spec_kind", "mla_attention"))
		require.Equal(t, 4, f.gpu(append(count(300, 4), count(1, 4)...)))
	})
	t.Run("speculative decoding sends pairs", func(t *testing.T) {
		f := newFixture(t)
		f.payload(vector(t, "H9"))
		require.Equal(t, 4, f.held(base, count(1, 4)).CPU)
	})
}

func TestGroups(t *testing.T) {
	f := newFixture(t)
	full := []any{"group_idx", 1, "kv_cache_spec_kind", "full_attention"}
	window := []any{"group_idx", 0, "kv_cache_spec_kind", "sliding_window", "kv_cache_spec_sliding_window", 128}
	f.apply(stored([]uint64{1, 2}, nil, count(1, 8), 4, full...))
	f.apply(stored([]uint64{1, 2}, nil, count(1, 8), 4, window...))
	f.apply(removed([]uint64{2}, "group_idx", 0)) // the window moves on
	require.Equal(t, 8, f.gpu(count(1, 8)))
	f.apply(removed([]uint64{2}, "group_idx", 1))
	require.Equal(t, 4, f.gpu(count(1, 8)))
	f.apply(stored([]uint64{2}, nil, list{}, 0, "group_idx", 1, "medium", "CPU")) // kind as learned
	require.Equal(t, 8, f.held(base, count(1, 8)).CPU)
	require.EqualValues(t, 2, f.applier.Stats().SkippedKind)
}

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		medium        any
		gpu, cpu, any int
	}{
		{nil, 8, 8, 8},
		{"GPU", 8, 8, 8},
		{"gpu", 8, 8, 8},
		{"CPU", 4, 8, 8},
		{"cpu", 4, 8, 8},
		{"CPU_PINNED", 4, 8, 8},
		{"CPU_TIER1", 4, 8, 8},
		{"CPU_TIER2", 4, 4, 8},
		{"DISK", 4, 4, 8},
		{"FS", 4, 4, 8},
		{"OBJ", 4, 4, 8},
		{"STORAGE", 4, 4, 8},
		{"EXTERNAL", 4, 4, 4},
		{"SHARED_STORAGE", 4, 4, 4},
		{"OBJECT_STORE", 4, 4, 4},
		{"CPU_TIER9", 4, 4, 4},
		{strings.Repeat("GPU", 100), 4, 4, 4},
	} {
		f := newFixture(t)
		f.apply(stored([]uint64{1}, nil, count(1, 4), 4), stored([]uint64{2}, 1, count(5, 4), 4, "medium", c.medium))
		h := f.held(base, count(1, 8))
		require.Equal(t, []int{c.gpu, c.cpu, c.any}, []int{h.GPU, h.CPU, h.Any}, "%v", c.medium)
		f.apply(removed([]uint64{2}, "medium", c.medium))
		require.Equal(t, 4, f.held(base, count(1, 8)).Any, "%v", c.medium)
	}
}

func TestScopes(t *testing.T) {
	tokens := count(1, 8)
	hex64 := strings.Repeat("0123456789abcdef", 4)
	image := func(at int, id string) prefixindex.Extra { return prefixindex.Extra{At: at, ID: id} }
	positional := func(name any, keys any) any {
		return list{"BlockStored", list{1, 2}, nil, tokens, 4, nil, "GPU", name, keys}
	}
	type expect struct {
		scope  prefixindex.Scope
		extras []prefixindex.Extra
		want   int
	}
	for _, c := range []struct {
		name   string
		event  any
		expect []expect
	}{
		{"adapter by name", stored([]uint64{1, 2}, nil, tokens, 4, "lora_id", 3, "lora_name", "x", "extra_keys", list{list{"x"}, list{"x"}}), []expect{
			{prefixindex.Scope{Model: "m", Adapter: "x"}, nil, 8},
			{prefixindex.Scope{Model: "m", Salt: "x"}, nil, 0},
			{base, nil, 0},
			{base, []prefixindex.Extra{image(0, "x")}, 0},
		}},
		{"adapter by number", stored([]uint64{1, 2}, nil, tokens, 4, "lora_id", 7), []expect{
			{prefixindex.Scope{Model: "m", Adapter: "lora-id:7"}, nil, 8},
			{base, nil, 0},
		}},
		{"salt", stored([]uint64{1, 2}, nil, tokens, 4, "extra_keys", list{list{"x"}, nil}), []expect{
			{prefixindex.Scope{Model: "m", Salt: "x"}, nil, 8},
			{prefixindex.Scope{Model: "m", Adapter: "x"}, nil, 0},
			{base, nil, 0},
		}},
		{"salt that looks like a digest", stored([]uint64{1, 2}, nil, tokens, 4, "extra_keys", list{list{hex64}, nil}), []expect{
			{prefixindex.Scope{Model: "m", Salt: hex64}, nil, 8},
		}},
		{"adapter and salt of one name", stored([]uint64{1, 2}, nil, tokens, 4, "lora_name", "x", "extra_keys", list{list{"x", "x"}, list{"x"}}), []expect{
			{prefixindex.Scope{Model: "m", Adapter: "x", Salt: "x"}, nil, 8},
			{prefixindex.Scope{Model: "m", Adapter: "x"}, nil, 0},
		}},
		{"salt by key", stored([]uint64{1, 2}, nil, tokens, 4, "cache_salt", "x"), []expect{
			{prefixindex.Scope{Model: "m", Salt: "x"}, nil, 8},
			{base, nil, 0},
		}},
		{"salt in a map in slot 7", list{"BlockStored", list{1, 2}, nil, tokens, 4, nil, "GPU", dict{"cache_salt", "x"}}, []expect{
			{prefixindex.Scope{Model: "m", Salt: "x"}, nil, 8},
			{base, nil, 0},
		}},
		{"image with offsets", stored([]uint64{1, 2}, nil, tokens, 4, "extra_keys", list{list{list{"img", 2}}, list{list{"img", -2}}}), []expect{
			{base, []prefixindex.Extra{image(2, "img")}, 8},
			{base, []prefixindex.Extra{image(2, "other")}, 0},
			{base, nil, 0},
		}},
		{"image in the second block", stored([]uint64{1, 2}, nil, tokens, 4, "extra_keys", list{nil, list{list{"img", 1}}}), []expect{
			{base, []prefixindex.Extra{image(5, "img")}, 8},
			{base, []prefixindex.Extra{image(5, "other")}, 4},
			{base, nil, 4},
		}},
		{"image that the block only looks ahead to", stored([]uint64{1, 2}, nil, tokens, 4, "extra_keys", list{list{list{"img", 4}}, list{list{"img", 0}}}), []expect{
			{base, []prefixindex.Extra{image(4, "img")}, 8},
			{base, nil, 4},
		}},
		{"images, salt, adapter, embeddings", stored([]uint64{1, 2}, nil, tokens, 4, "lora_name", "l", "extra_keys",
			list{list{"l", list{"a", 0}, list{"b", 3}, "s", []byte("digest")}, list{"l", list{"b", -1}, list{"c", 0}}}), []expect{
			{prefixindex.Scope{Model: "m", Adapter: "l", Salt: "s"}, []prefixindex.Extra{
				image(0, "a"), {At: 0, Kind: prefixindex.ExtraEmbeds, ID: "digest"}, image(3, "b"), image(4, "c"),
			}, 8},
			{prefixindex.Scope{Model: "m", Adapter: "l", Salt: "s"}, []prefixindex.Extra{image(0, "a"), image(3, "b"), image(4, "c")}, 0},
		}},
		{"image without offset", positional(nil, list{nil, list{"img"}}), []expect{
			{base, []prefixindex.Extra{image(4, "img")}, 8},
			{base, nil, 4},
		}},
		{"image without offset over two blocks", positional(nil, list{list{hex64}, list{hex64}}), []expect{
			{base, []prefixindex.Extra{image(0, hex64)}, 8},
			{base, nil, 0},
		}},
		{"image without offset, salt, and adapter", positional("l", list{list{"l", hex64, "s"}, list{"l", hex64}}), []expect{
			{prefixindex.Scope{Model: "m", Adapter: "l", Salt: "s"}, []prefixindex.Extra{image(0, hex64)}, 8},
			{base, nil, 0},
		}},
		{"adapter taken for an image", positional("adapter-116", list{list{"adapter-116"}, list{"adapter-116"}}), []expect{
			{prefixindex.Scope{Model: "m", Adapter: "adapter-116"}, nil, 8},
			{base, nil, 0},
		}},
		{"images whose names share their end", positional(nil, list{nil, list{"aaaa0001"}}), []expect{
			{base, []prefixindex.Extra{image(4, "bbbb0001")}, 4},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.apply(c.event)
			for _, e := range c.expect {
				require.Equal(t, e.want, f.held(e.scope, tokens, e.extras...).GPU, "%+v %+v", e.scope, e.extras)
			}
		})
	}
}

// An image that goes on in the next event belongs to the block in which it began.
func TestImageOverEvents(t *testing.T) {
	hex64 := strings.Repeat("ab", 32)
	for name, keys := range map[string][2]list{
		"with offsets":    {{list{list{hex64, 1}}}, {list{list{hex64, -3}}}},
		"without offsets": {{list{hex64}}, {list{hex64}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.apply(list{"BlockStored", list{1}, nil, count(1, 4), 4, nil, "GPU", nil, keys[0]})
			f.apply(list{"BlockStored", list{2}, 1, count(5, 4), 4, nil, "GPU", nil, keys[1]})
			f.apply(list{"BlockStored", list{3}, 2, count(9, 4), 4, nil, "GPU", nil, list{nil}})
			require.Equal(t, 12, f.held(base, count(1, 12), prefixindex.Extra{ID: hex64}).GPU)
			require.Zero(t, f.gpu(count(1, 12)))
		})
	}
}

// A salted chain whose root is not known stays unindexed until it is.
func TestSaltOfAnUnknownParent(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{2}, 1, count(5, 4), 4, "extra_keys", list{nil}))
	require.Zero(t, f.gpu(count(5, 4)))
	require.Zero(t, f.gpu(count(1, 8)))
	f.apply(stored([]uint64{1}, nil, count(1, 4), 4, "extra_keys", list{list{"t1"}}))
	require.Equal(t, 8, f.held(prefixindex.Scope{Model: "m", Salt: "t1"}, count(1, 8)).GPU)
	require.Zero(t, f.held(prefixindex.Scope{Model: "m", Salt: "t2"}, count(1, 8)).GPU)
	require.Zero(t, f.gpu(count(1, 8)))
}

// Offload events do not say what their blocks depend on: the name does.
func TestOffloadWithoutExtras(t *testing.T) {
	salted := prefixindex.Scope{Model: "m", Salt: "s"}
	f := newFixture(t)
	f.apply(stored([]uint64{1, 2}, nil, count(1, 8), 4, "group_idx", 0, "extra_keys", list{list{"s"}, nil}))
	f.apply(stored([]uint64{1}, nil, count(1, 4), 4, "group_idx", 0, "medium", "CPU"))
	f.apply(stored([]uint64{2}, 1, count(5, 4), 4, "group_idx", 0, "medium", "CPU"))
	f.apply(removed([]uint64{1, 2}, "group_idx", 0))
	require.Equal(t, 8, f.held(salted, count(1, 8)).CPU)
	require.Zero(t, f.held(base, count(1, 8)).Any)
	// A block never seen on GPU could be anything.
	f.apply(stored([]uint64{9}, nil, count(1, 4), 4, "group_idx", 0, "medium", "CPU"))
	require.Zero(t, f.held(base, count(1, 8)).Any)
	s := f.applier.Stats()
	require.EqualValues(t, 3, s.Untold)
	require.EqualValues(t, 1, s.Blocks.PlacedUnknown)
	require.Zero(t, s.Blocks.Conflicts)
}

// A chunk is given back whole or not at all.
func TestChunkedOffload(t *testing.T) {
	for name, more := range map[string][]any{
		"described":     {"medium", "CPU"},
		"by name alone": {"medium", "CPU", "group_idx", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.apply(stored([]uint64{1, 2, 3, 4}, nil, count(1, 16), 4, "group_idx", 0, "extra_keys", list{nil, nil, nil, nil}))
			f.apply(stored([]uint64{1, 2, 3, 4}, nil, count(1, 16), 4, more...))
			f.apply(removed([]uint64{1, 2, 3, 4}, "group_idx", 0))
			require.Zero(t, f.held(base, count(1, 12)).CPU)
			require.Equal(t, 16, f.held(base, count(1, 16)).CPU)
		})
	}
	t.Run("names of several chunks", func(t *testing.T) {
		f := newFixture(t)
		f.apply(stored([]uint64{1, 2, 3, 4}, nil, count(1, 16), 4))
		f.apply(list{"BlockStored", list{1, 2, 3}, nil, list{}, 4, nil, "CPU"}, removed([]uint64{1, 2, 3, 4}))
		require.Equal(t, 8, f.held(base, count(1, 8)).CPU)
	})
	t.Run("pages of SGLang", func(t *testing.T) {
		f := newFixture(t)
		f.apply(stored([]uint64{1, 2, 3, 4}, nil, count(1, 16), 4, "medium", "CPU_PINNED"))
		require.Equal(t, 12, f.held(base, count(1, 12)).CPU)
	})
}

func TestRanks(t *testing.T) {
	rank := func(n int) func(*kvevents.ApplierOptions) {
		return func(o *kvevents.ApplierOptions) { o.Rank = n }
	}
	relay := func(o *kvevents.ApplierOptions) { o.Ranks = kvevents.RankPayload }
	for _, c := range []struct {
		name           string
		set            []func(*kvevents.ApplierOptions)
		payload        any // nil or a number
		want           int
		other, ignored uint64
		skipped        uint64
	}{
		{"the same", []func(*kvevents.ApplierOptions){rank(2)}, 2, 2, 0, 0, 0},
		{"none", []func(*kvevents.ApplierOptions){rank(2)}, nil, 2, 0, 0, 0},
		{"another", nil, 3, 0, 0, 1, 0},
		{"0 from every rank, as of SGLang", []func(*kvevents.ApplierOptions){rank(2)}, 0, 2, 0, 1, 0},
		{"one that cannot be, which nobody asked", nil, 4096, 0, 0, 1, 0},
		{"0 from a relay", []func(*kvevents.ApplierOptions){rank(2), relay}, 0, 0, 1, 0, 0},
		{"another from a relay", []func(*kvevents.ApplierOptions){relay}, 3, 3, 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.set...)
			f.payload(pack(list{1.5, list{stored([]uint64{1}, nil, count(1, 4), 4)}, c.payload}))
			require.Equal(t, c.want, f.held(base, count(1, 4)).Rank)
			s := f.applier.Stats()
			require.Equal(t, c.other, s.OtherRank)
			require.Equal(t, c.ignored, s.RankIgnored)
			require.Equal(t, c.skipped, s.SkippedRank)
		})
	}
	t.Run("a new epoch is one for all ranks of the stream", func(t *testing.T) {
		f := newFixture(t, relay)
		f.payload(batchOf(0, stored([]uint64{1}, nil, count(1, 4), 4)))
		f.payload(batchOf(3, stored([]uint64{1}, nil, count(1, 4), 4)))
		require.NoError(t, f.applier.SetView(prefixindex.ViewLive))
		require.Equal(t, prefixindex.ViewLive, f.ix.View(f.ep, 3))
		f.payload(batchOf(3, removed([]uint64{1})))
		require.Equal(t, 4, f.gpu(count(1, 4)))
		require.NoError(t, f.applier.Begin())
		require.Zero(t, f.gpu(count(1, 4)))
		s := f.applier.Stats()
		require.EqualValues(t, 2, s.Blocks.Stored)
		require.EqualValues(t, 4, s.Blocks.Epochs)
		require.Zero(t, s.Blocks.Blocks)
	})
}

// What a payload says of its rank opens no epoch of an owner that another feeder looks
// after, nor one that nothing is known of.
func TestRanksOfOthers(t *testing.T) {
	relay := func(o *kvevents.ApplierOptions) { o.Ranks, o.OtherRanks = kvevents.RankPayload, 3 }
	one := stored([]uint64{1}, nil, count(1, 4), 4)
	t.Run("two sockets, both configured as rank 0 of a relay", func(t *testing.T) {
		f := newFixture(t, relay)
		second, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: f.ix, Endpoint: f.ep, Model: "m", Ranks: kvevents.RankPayload})
		require.NoError(t, err)
		f.payload(batchOf(0, one))
		require.NoError(t, f.applier.SetView(prefixindex.ViewLive))
		var b kvevents.Batch
		require.NoError(t, new(kvevents.Decoder).Decode(batchOf(3, one), &b))
		require.NoError(t, second.Apply(&b))
		f.payload(batchOf(0, stored([]uint64{2}, 1, count(5, 4), 4)))
		require.Equal(t, 8, f.gpu(count(1, 8)))
	})
	t.Run("a rank that another feeds", func(t *testing.T) {
		f := newFixture(t, relay)
		w, err := f.ix.Writer(f.ep, 1)
		require.NoError(t, err)
		require.NoError(t, w.SetView(prefixindex.ViewLive))
		f.payload(batchOf(1, one))
		require.EqualValues(t, 1, f.applier.Stats().SkippedRank)
		require.NoError(t, w.Clear(), "its epoch goes on")
	})
	t.Run("a rank that another takes over", func(t *testing.T) {
		f := newFixture(t, relay)
		f.payload(batchOf(0, one))
		f.payload(batchOf(1, one))
		w, err := f.ix.Writer(f.ep, 1)
		require.NoError(t, err)
		f.payload(batchOf(1, one))
		require.NoError(t, f.applier.SetView(prefixindex.ViewLive))
		require.NoError(t, f.applier.Begin())
		f.payload(batchOf(1, one))
		require.NoError(t, w.Clear(), "its epoch goes on")
		require.EqualValues(t, 1, f.applier.Stats().SkippedRank)
	})
	t.Run("many ranks", func(t *testing.T) {
		f := newFixture(t, relay)
		for rank := range 4096 {
			f.payload(batchOf(rank, one))
		}
		require.Equal(t, 4, f.ix.Stats().Owners)
		require.EqualValues(t, 4092, f.applier.Stats().SkippedRank)
	})
	t.Run("ranks that cannot be", func(t *testing.T) {
		f := newFixture(t, relay)
		for _, rank := range []int{-1, 4096} {
			require.NoError(t, f.applier.Apply(&kvevents.Batch{Rank: rank, HasRank: true, Events: make([]kvevents.Event, 1)}))
		}
		require.EqualValues(t, 2, f.applier.Stats().Malformed)
	})
}

// Batches that no Decoder made may hold anything.
func TestBatchesMadeByHand(t *testing.T) {
	hashes, tokens := []prefixindex.EngineHash{1}, count(1, 4)
	event := func(set func(e *kvevents.Event)) kvevents.Event {
		e := kvevents.Event{Kind: kvevents.Stored, Hashes: hashes, Tokens: tokens, BlockTokens: 4}
		set(&e)
		return e
	}
	extra := func(block int) kvevents.Event {
		return event(func(e *kvevents.Event) { e.Extras = []kvevents.Extra{{Block: block, ID: []byte("x")}} })
	}
	for name, e := range map[string]kvevents.Event{
		"extra of a block that is not there": extra(1),
		"extra of a block before the first":  extra(-1),
		"negative block size":                event(func(e *kvevents.Event) { e.BlockTokens = -4 }),
		"negative group, stored":             event(func(e *kvevents.Event) { e.Group = -1 }),
		"negative group, removed":            {Kind: kvevents.Removed, Hashes: hashes, Group: -1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			require.NoError(t, f.applier.Apply(&kvevents.Batch{Events: []kvevents.Event{e}}))
			require.EqualValues(t, 1, f.applier.Stats().Malformed)
		})
	}
	t.Run("names alone", func(t *testing.T) {
		f := newFixture(t)
		e := kvevents.Event{Kind: kvevents.Stored, Hashes: hashes, Group: -1}
		require.NoError(t, f.applier.Apply(&kvevents.Batch{Events: []kvevents.Event{e}}))
		require.EqualValues(t, 1, f.applier.Stats().Malformed)
		require.Zero(t, f.applier.Stats().Placements)
	})
}

func TestApplierAfterTheEndpointLeft(t *testing.T) {
	f := newFixture(t)
	f.apply(stored([]uint64{1}, nil, count(1, 4), 4))
	f.ix.Leave(f.ep)
	require.NoError(t, f.decoder.Decode(batch(removed([]uint64{1})), &f.batch))
	require.ErrorIs(t, f.applier.Apply(&f.batch), prefixindex.ErrFenced)
	require.ErrorIs(t, f.applier.Begin(), prefixindex.ErrNotJoined)
}

func TestApplierOptions(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	for _, c := range []struct {
		o    kvevents.ApplierOptions
		want string
	}{
		{kvevents.ApplierOptions{Endpoint: ep}, "Index is nil"},
		{kvevents.ApplierOptions{Index: ix}, "Endpoint 0x0"},
		{kvevents.ApplierOptions{Index: ix, Endpoint: ep, Rank: -1}, "Rank is -1, want 0 to 4095"},
		{kvevents.ApplierOptions{Index: ix, Endpoint: ep, Rank: 4096}, "Rank is 4096"},
		{kvevents.ApplierOptions{Index: ix, Endpoint: ep, Ranks: 9}, "Ranks is 9, want 0 or 1"},
		{kvevents.ApplierOptions{Index: ix, Endpoint: ep, OtherRanks: -1}, "OtherRanks is -1, want 0 to 4095"},
	} {
		_, err := kvevents.NewApplier(c.o)
		require.ErrorContains(t, err, c.want)
	}
}
