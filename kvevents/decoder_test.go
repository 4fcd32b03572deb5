package kvevents_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// The names of the first two blocks in vectors.
const (
	h0 prefixindex.EngineHash = 0x1e0b2e028ef071cb
	h1 prefixindex.EngineHash = 0xefad121d154ab2d6
)

func signed(v int64) prefixindex.EngineHash { return prefixindex.EngineHash(v) }

func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := hex.DecodeString(vectors[name])
	require.NoError(t, err)
	require.NotEmpty(t, b)
	return b
}

func decode(t testing.TB, d kvevents.Decoder, payload []byte) *kvevents.Batch {
	t.Helper()
	var b kvevents.Batch
	require.NoError(t, d.Decode(payload, &b))
	return &b
}

func one(hashes ...prefixindex.EngineHash) []prefixindex.EngineHash { return hashes }

func TestVectors(t *testing.T) {
	gpu, cpu := []byte("GPU"), []byte("CPU")
	full := []byte("full_attention")
	for _, c := range []struct {
		name    string
		rank    int // -1: none
		events  []kvevents.Event
		unknown int
		fields  int
	}{
		{name: "H1", rank: -1, events: []kvevents.Event{
			{Kind: kvevents.Stored, Hashes: one(6510615555426900570, signed(-4611686018427387905)), Tokens: count(1, 8), BlockTokens: 4},
		}},
		{name: "H2", rank: 1, events: []kvevents.Event{
			{Kind: kvevents.Stored, Hashes: one(h0), Tokens: count(1, 4), BlockTokens: 4, Medium: gpu},
			{Kind: kvevents.Removed, Hashes: one(h0), Medium: gpu},
		}},
		{name: "H3", rank: 0, events: []kvevents.Event{
			{
				Kind: kvevents.Stored, Hashes: one(h1), Parent: h0, HasParent: true, Tokens: count(5, 4), BlockTokens: 4,
				Medium: gpu, HasExtras: true, HasGroup: true, SpecKind: full,
			},
			{Kind: kvevents.Removed, Hashes: one(h1), Medium: gpu, HasGroup: true},
			{Kind: kvevents.Cleared},
		}},
		{name: "H4", rank: 0, events: []kvevents.Event{
			{
				Kind: kvevents.Stored, Named: true, Hashes: one(h0, h1), Tokens: count(1, 8), BlockTokens: 4,
				Medium: gpu, HasExtras: true, HasGroup: true, SpecKind: full,
			},
		}},
		{name: "H5", rank: 0, events: []kvevents.Event{
			{
				Kind: kvevents.Stored, Named: true, Hashes: one(h0), Tokens: []uint32{1, 2, 151655, 151655}, BlockTokens: 4,
				LoRAID: 7, HasLoRAID: true, LoRAName: []byte("adapter-a"), Medium: gpu, HasExtras: true,
				Extras: []kvevents.Extra{
					{ID: []byte("adapter-a")},
					{Shape: kvevents.ExtraItem, ID: []byte("mmhash0"), Offset: -3, HasOffset: true},
					{ID: []byte("tenant-a")},
					{Shape: kvevents.ExtraDigest, ID: unhex("804e6a0a978d599015792e2aed8279eefe7a9ca6b81f572c31da48fe2d2c0fa9")},
				},
				HasGroup: true, SpecKind: full,
			},
		}},
		{name: "H6", rank: 0, events: []kvevents.Event{
			{Kind: kvevents.Removed, Named: true, Hashes: one(h0), Medium: gpu, HasGroup: true},
			{Kind: kvevents.Removed, Named: true, Hashes: one(h0), Medium: cpu, HasGroup: true},
			{Kind: kvevents.Cleared, Named: true},
		}},
		{name: "H7", rank: 0, events: []kvevents.Event{
			{Kind: kvevents.Stored, Named: true, Hashes: one(h1), Medium: cpu, HasGroup: true},
			{
				Kind: kvevents.Stored, Named: true, Hashes: one(h1), Tokens: count(1, 8), BlockTokens: 4, Medium: gpu,
				HasExtras: true, Group: 1, HasGroup: true, SpecKind: []byte("sliding_window"), Window: 128,
			},
			{
				Kind: kvevents.Stored, Named: true, Hashes: one(h0), Tokens: count(1, 4), BlockTokens: 4, Medium: []byte("STORAGE"),
				HasGroup: true, SpecKind: full, Locality: []byte("REMOTE"),
			},
		}},
		{name: "H8", rank: -1, events: []kvevents.Event{
			{
				Kind: kvevents.Stored, Hashes: one(signed(-3488128144981237669)), Tokens: count(1, 4), BlockTokens: 4,
				Medium: gpu, Salt: []byte("tenant-a"),
			},
			{Kind: kvevents.Removed, Hashes: one(signed(-3488128144981237669)), Medium: gpu},
		}},
		{name: "H9", rank: -1, events: []kvevents.Event{
			{
				Kind: kvevents.Stored, Named: true, Hashes: one(signed(-638950109823820341)), Tokens: count(1, 4), BlockTokens: 4,
				Medium: []byte("CPU_PINNED"),
			},
		}},
		{name: "H10", rank: 0, unknown: 1, fields: 1, events: []kvevents.Event{
			{Kind: kvevents.Removed, Named: true, Hashes: one(9)},
			{Kind: kvevents.Stored, Hashes: one(5), Tokens: count(1, 2), BlockTokens: 2},
			{Kind: kvevents.Removed, Hashes: one(5)},
		}},
		{name: "H11", rank: 0, events: []kvevents.Event{{Kind: kvevents.Cleared, Named: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := decode(t, kvevents.Decoder{}, vector(t, c.name))
			require.Equal(t, time.Unix(1750000000, 500_000_000), b.Time)
			require.Equal(t, c.rank >= 0, b.HasRank)
			require.Equal(t, max(c.rank, 0), b.Rank)
			require.Len(t, b.Events, len(c.events))
			for i := range c.events {
				require.Equal(t, c.events[i], b.Events[i])
			}
			require.Equal(t, c.unknown, b.Unknown)
			require.Equal(t, c.fields, b.UnknownFields)
			require.Zero(t, b.Malformed)
		})
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestHashesOfEveryForm(t *testing.T) {
	digest := unhex("c9d58ba695280d69b243e1e0df813136ca9196b286fb1a021e0b2e028ef071cb")
	for _, c := range []struct {
		name string
		d    kvevents.Decoder
		hash any
		want uint64
	}{
		{"fixint", kvevents.Decoder{}, 100, 100},
		{"negative fixint", kvevents.Decoder{}, -5, math.MaxUint64 - 4},
		{"uint8", kvevents.Decoder{}, 200, 200},
		{"uint16", kvevents.Decoder{}, 60000, 60000},
		{"uint32", kvevents.Decoder{}, uint32(4000000000), 4000000000},
		{"uint64", kvevents.Decoder{}, uint64(1)<<63 + 1, 1<<63 + 1},
		{"int8", kvevents.Decoder{}, -100, math.MaxUint64 - 99},
		{"int16", kvevents.Decoder{}, -20000, math.MaxUint64 - 19999},
		{"int32", kvevents.Decoder{}, -2000000000, math.MaxUint64 - 1999999999},
		{"int64", kvevents.Decoder{}, int64(math.MinInt64), 1 << 63},
		{"wide zero", kvevents.Decoder{}, raw{0xcf, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
		{"32 bytes", kvevents.Decoder{}, digest, uint64(h0)},
		{"16 bytes", kvevents.Decoder{}, digest[16:], uint64(h0)},
		{"8 bytes", kvevents.Decoder{}, digest[24:], uint64(h0)},
		{"2 bytes", kvevents.Decoder{}, digest[30:], 0x71cb},
		{"64 bytes", kvevents.Decoder{}, append(bytes.Repeat([]byte{7}, 32), digest...), uint64(h0)},
		{"first 8 of 32 bytes", kvevents.Decoder{HeadBytes: true}, digest, 0xc9d58ba695280d69},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := decode(t, c.d, batch(list{"BlockRemoved", list{c.hash}}, list{"BlockStored", list{c.hash}, c.hash, list{1}, 1}))
			require.Len(t, b.Events, 2)
			want := prefixindex.EngineHash(c.want)
			require.Equal(t, one(want), b.Events[0].Hashes)
			require.Equal(t, one(want), b.Events[1].Hashes)
			require.Equal(t, want, b.Events[1].Parent)
			require.True(t, b.Events[1].HasParent)
		})
	}
}

// One bad event costs that event only, wherever it goes wrong.
func TestBadEvents(t *testing.T) {
	good := stored([]uint64{5}, nil, count(1, 4), 4)
	for name, bad := range map[string]any{
		"nil":                         nil,
		"number":                      7,
		"text":                        "BlockStored",
		"empty array":                 list{},
		"empty map":                   dict{},
		"no tag":                      dict{"block_hashes", list{1}},
		"tag of another type":         list{1, list{2}},
		"tag is bytes":                list{[]byte("BlockRemoved"), list{2}},
		"key is no text":              dict{"type", "BlockRemoved", 1, 2},
		"short array":                 list{"BlockStored", list{1}, nil, list{1}},
		"no hashes":                   dict{"type", "BlockRemoved", "medium", "GPU"},
		"nil hashes":                  list{"BlockRemoved", nil},
		"no tokens":                   dict{"type", "BlockStored", "block_hashes", list{1}, "block_size", 4},
		"hashes are no list":          list{"BlockRemoved", 7},
		"hash is a float":             list{"BlockRemoved", list{1, 1.5}},
		"hash is text":                list{"BlockRemoved", list{"abcdefgh"}},
		"hash is empty":               list{"BlockRemoved", list{[]byte{}}},
		"hash is nil":                 list{"BlockRemoved", list{nil}},
		"parent is a float":           list{"BlockStored", list{1}, 1.5, list{1}, 1},
		"token is negative":           list{"BlockStored", list{1}, nil, list{1, -1}, 2},
		"token of 33 bits":            list{"BlockStored", list{1}, nil, list{int64(1) << 32}, 1},
		"token is text":               list{"BlockStored", list{1}, nil, list{"a"}, 1},
		"cell of three":               list{"BlockStored", list{1}, nil, list{list{1, 2, 3}}, 1},
		"cell of text":                list{"BlockStored", list{1}, nil, list{list{1, "a"}}, 1},
		"block size is negative":      list{"BlockStored", list{1}, nil, list{1}, -1},
		"block size of 33 bits":       list{"BlockStored", list{1}, nil, list{1}, int64(1) << 32},
		"block size is text":          list{"BlockStored", list{1}, nil, list{1}, "16"},
		"lora id is a float":          list{"BlockStored", list{1}, nil, list{1}, 1, 1.5},
		"medium is a number":          list{"BlockRemoved", list{1}, 3},
		"lora name is a number":       list{"BlockStored", list{1}, nil, list{1}, 1, nil, nil, 4},
		"group is negative":           list{"BlockRemoved", list{1}, nil, -1},
		"group is huge":               list{"BlockRemoved", list{1}, nil, int64(1) << 40},
		"extras are no list":          list{"BlockStored", list{1}, nil, list{1}, 1, nil, nil, nil, "x"},
		"extras of a block no list":   list{"BlockStored", list{1}, nil, list{1}, 1, nil, nil, nil, list{"x"}},
		"extras for too many blocks":  list{"BlockStored", list{1}, nil, list{1}, 1, nil, nil, nil, list{nil, list{"x"}}},
		"extras for too few blocks":   list{"BlockStored", list{1, 2}, nil, list{1, 2}, 1, nil, nil, nil, list{list{"x"}}},
		"locality is a number":        removed([]uint64{1}, "locality", 1),
		"bytes that are no event":     []byte{1, 2, 3},
		"bytes with an event and all": append(pack(list{"BlockRemoved", list{1}}), 0xc0),
		"bytes in bytes":              pack(pack(list{"BlockRemoved", list{1}})),
		"hashes beyond the limit":     list{"BlockRemoved", raw(append([]byte{0xdd, 0, 0x1e, 0x84, 0x81}, make([]byte, 2_000_001)...))},
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(t, kvevents.Decoder{}, batch(good, bad, good, cleared))
			require.Equal(t, 1, b.Malformed)
			require.Zero(t, b.Unknown)
			require.Len(t, b.Events, 3)
			for _, e := range b.Events[:2] {
				require.Equal(t, one(5), e.Hashes)
				require.Equal(t, count(1, 4), e.Tokens)
			}
			require.Equal(t, kvevents.Cleared, b.Events[2].Kind)
		})
	}
}

func TestPayloadsThatAreNoBatch(t *testing.T) {
	deep := bytes.Repeat([]byte{0x91}, 6<<20)
	huge := []byte{0xff, 0xff, 0xff, 0xff}
	for name, payload := range map[string][]byte{
		"nothing":                 {},
		"nil":                     pack(nil),
		"number":                  pack(1),
		"one slot":                pack(list{1.5}),
		"time is text":            pack(list{"now", list{}}),
		"events are a map":        pack(list{1.5, dict{}}),
		"events are nil":          pack(list{1.5, nil}),
		"map without events":      pack(dict{"ts", 1.5}),
		"map with events twice":   pack(dict{"events", list{}, "events", list{}}),
		"map with a number's key": pack(dict{1, 2, "events", list{}}),
		"more after the batch":    append(batch(cleared), 0xc0),
		"6 MB of arrays":          deep,
		"2^32 slots":              append([]byte{0xdd}, huge...),
		"2^32 keys":               append([]byte{0xdf}, huge...),
		"2^32 events":             append([]byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd}, huge...),
		"2^32 hashes":             append([]byte{0x92, 0xc0, 0x91, 0x92, 0xa0 | 12, 'B', 'l', 'o', 'c', 'k', 'R', 'e', 'm', 'o', 'v', 'e', 'd', 0xdd}, huge...),
		"text of 2^32 bytes":      append([]byte{0x92, 0xdb}, huge...),
		"a byte that is no type":  {0x92, 0xc0, 0xc1},
		"too many events":         pack(list{1.5, raw(append([]byte{0xdd, 0, 1, 0x86, 0xa1}, make([]byte, 100_001)...))}),
		"too large":               make([]byte, 64<<20+1),
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(t, kvevents.Decoder{}, vector(t, "H4"))
			err := new(kvevents.Decoder).Decode(payload, b)
			require.ErrorIs(t, err, kvevents.ErrPayload)
			require.Empty(t, b.Events)
			require.Zero(t, b.Unknown+b.Malformed)
		})
	}
	t.Run("truncated", func(t *testing.T) {
		for name := range vectors {
			whole := vector(t, name)
			for n := range whole {
				var b kvevents.Batch
				require.ErrorIs(t, new(kvevents.Decoder).Decode(whole[:n], &b), kvevents.ErrPayload, "%s cut to %d", name, n)
				require.Empty(t, b.Events)
			}
		}
	})
}

func TestEnvelopes(t *testing.T) {
	for _, c := range []struct {
		name    string
		payload any
		rank    int
		time    time.Time
	}{
		{"two slots", list{1.5, list{cleared}}, -1, time.Unix(1, 5e8)},
		{"three slots", list{1.5, list{cleared}, 3}, 3, time.Unix(1, 5e8)},
		{"six slots", list{1.5, list{cleared}, 3, "x", dict{"a", list{1}}, nil}, 3, time.Unix(1, 5e8)},
		{"rank nil", list{1.5, list{cleared}, nil}, -1, time.Unix(1, 5e8)},
		{"rank is text", list{1.5, list{cleared}, "3"}, -1, time.Unix(1, 5e8)},
		{"rank is negative", list{1.5, list{cleared}, -3}, -1, time.Unix(1, 5e8)},
		{"time is an integer", list{7, list{cleared}}, -1, time.Unix(7, 0)},
		{"time is nil", list{nil, list{cleared}}, -1, time.Time{}},
		{"time is not a number", list{math.NaN(), list{cleared}}, -1, time.Time{}},
		{"time is infinite", list{math.Inf(1), list{cleared}}, -1, time.Time{}},
		{"map", dict{"data_parallel_rank", 2, "other", list{1, dict{"x", 1}}, "events", list{cleared}, "ts", 1.5}, 2, time.Unix(1, 5e8)},
		{"map of SGLang", dict{"ts", 1.5, "events", list{cleared}, "attn_dp_rank", 2}, 2, time.Unix(1, 5e8)},
		{"array16", raw(append([]byte{0xdc, 0, 2}, pack(list{1.5, list{cleared}})[1:]...)), -1, time.Unix(1, 5e8)},
		{"array32", raw(append([]byte{0xdd, 0, 0, 0, 2}, pack(list{1.5, list{cleared}})[1:]...)), -1, time.Unix(1, 5e8)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := decode(t, kvevents.Decoder{}, pack(c.payload))
			require.Equal(t, c.rank >= 0, b.HasRank)
			require.Equal(t, max(c.rank, 0), b.Rank)
			require.Equal(t, c.time, b.Time)
			require.Len(t, b.Events, 1)
		})
	}
}

func TestDialects(t *testing.T) {
	wide := stored([]uint64{1}, 2, count(1, 4), 4)
	wide = append(wide, "session_id", "s", "lookahead_token_ids", list{list{5}}, "locality", "LOCAL", "ownership", "fs", "new_one", list{1})
	for len(wide) < 40 { // as a type with more than 15 fields: map16
		wide = append(wide, "more"+string(rune('a'+len(wide))), nil)
	}
	tail := list{"BlockStored", list{1}, nil, list{1, 2}, 2, nil, "GPU", nil, list{nil}, 0, "full_attention", nil, "new", list{1}, nil}
	tagLast := dict{"block_hashes", list{1}, "medium", "CPU", "x", list{list{}}, "type", "BlockRemoved"}
	for _, c := range []struct {
		name  string
		d     kvevents.Decoder
		event any
		want  kvevents.Event
	}{
		{"map16 and unknown keys", kvevents.Decoder{}, wide, kvevents.Event{
			Kind: kvevents.Stored, Named: true, Hashes: one(1), Parent: 2, HasParent: true, Tokens: count(1, 4), BlockTokens: 4,
			Medium: []byte("GPU"), Locality: []byte("LOCAL"), Ownership: []byte("fs"),
		}},
		{"slots of the future", kvevents.Decoder{}, tail, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1), Tokens: count(1, 2), BlockTokens: 2, Medium: []byte("GPU"),
			HasExtras: true, HasGroup: true, SpecKind: []byte("full_attention"),
		}},
		{"tag at the end", kvevents.Decoder{}, tagLast, kvevents.Event{
			Kind: kvevents.Removed, Named: true, Hashes: one(1), Medium: []byte("CPU"),
		}},
		{"event in bytes", kvevents.Decoder{}, pack(list{"BlockRemoved", list{7}, "SHARED_STORAGE"}), kvevents.Event{
			Kind: kvevents.Removed, Hashes: one(7), Medium: []byte("SHARED_STORAGE"),
		}},
		{"map in bytes", kvevents.Decoder{}, pack(removed([]uint64{7})), kvevents.Event{
			Kind: kvevents.Removed, Named: true, Hashes: one(7), Medium: []byte("GPU"),
		}},
		{"name in the number's slot", kvevents.Decoder{}, list{"BlockStored", list{1}, nil, list{1}, 1, "adapter"}, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1), Tokens: count(1, 1), BlockTokens: 1, LoRAName: []byte("adapter"),
		}},
		{"text in slot 7", kvevents.Decoder{}, list{"BlockStored", list{1}, nil, list{1}, 1, nil, "GPU", "x"}, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1), Tokens: count(1, 1), BlockTokens: 1, Medium: []byte("GPU"), LoRAName: []byte("x"),
		}},
		{"salt in slot 7", kvevents.Decoder{SaltSlot: true}, list{"BlockStored", list{1}, nil, list{1}, 1, nil, "GPU", "x"}, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1), Tokens: count(1, 1), BlockTokens: 1, Medium: []byte("GPU"), Salt: []byte("x"),
		}},
		{"salt by key", kvevents.Decoder{}, stored([]uint64{1}, nil, count(1, 4), 4, "cache_salt", "x"), kvevents.Event{
			Kind: kvevents.Stored, Named: true, Hashes: one(1), Tokens: count(1, 4), BlockTokens: 4, Medium: []byte("GPU"), Salt: []byte("x"),
		}},
		{"parent 0", kvevents.Decoder{}, list{"BlockStored", list{1}, 0, list{1}, 1}, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1), HasParent: true, Tokens: count(1, 1), BlockTokens: 1,
		}},
		{"parent 0 for none", kvevents.Decoder{ZeroParent: true}, list{"BlockStored", list{1}, 0, list{1}, 1}, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1), Tokens: count(1, 1), BlockTokens: 1,
		}},
		{"media items of another engine", kvevents.Decoder{}, stored([]uint64{1}, nil, count(1, 4), 4, "block_mm_infos", list{dict{"mm_hash", 1}}), kvevents.Event{
			Kind: kvevents.Stored, Named: true, Hashes: one(1), Tokens: count(1, 4), BlockTokens: 4, Medium: []byte("GPU"), Opaque: true,
		}},
		{"no media items", kvevents.Decoder{}, stored([]uint64{1}, nil, count(1, 4), 4, "block_mm_infos", list{nil}), kvevents.Event{
			Kind: kvevents.Stored, Named: true, Hashes: one(1), Tokens: count(1, 4), BlockTokens: 4, Medium: []byte("GPU"),
		}},
		{"extras of every shape", kvevents.Decoder{}, list{"BlockStored", list{1, 2, 3}, nil, list{1, 2, 3}, 1, nil, nil, nil, list{
			nil, list{"a", list{"b", -2}, []byte{1}}, list{dict{"type", "mm"}, 4, list{"a", "b"}, nil},
		}}, kvevents.Event{
			Kind: kvevents.Stored, Hashes: one(1, 2, 3), Tokens: count(1, 3), BlockTokens: 1, HasExtras: true,
			Extras: []kvevents.Extra{
				{Block: 1, ID: []byte("a")},
				{Block: 1, Shape: kvevents.ExtraItem, ID: []byte("b"), Offset: -2, HasOffset: true},
				{Block: 1, Shape: kvevents.ExtraDigest, ID: []byte{1}},
				{Block: 2, Shape: kvevents.ExtraOther},
				{Block: 2, Shape: kvevents.ExtraOther},
				{Block: 2, Shape: kvevents.ExtraOther},
				{Block: 2, Shape: kvevents.ExtraOther},
			},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := decode(t, c.d, batch(c.event))
			require.Zero(t, b.Malformed)
			require.Len(t, b.Events, 1)
			require.Equal(t, c.want, b.Events[0])
		})
	}
}

// Events of one batch keep their lists while the batch's memory grows.
func TestBatchIsReused(t *testing.T) {
	var events []any
	for i := range 200 {
		keys := make(list, i%7)
		for j := range keys {
			keys[j] = list{"x", list{"y", i}}
		}
		hashes := make([]uint64, len(keys))
		for j := range hashes {
			hashes[j] = uint64(1000*i + j)
		}
		events = append(events, stored(hashes, nil, count(i, 4*len(keys)), 4, "extra_keys", keys), list{"BlockRemoved", 3})
	}
	payload := batch(events...)
	var b kvevents.Batch
	for range 3 {
		require.NoError(t, new(kvevents.Decoder).Decode(payload, &b))
		require.Equal(t, 200, b.Malformed)
		require.Len(t, b.Events, 200)
		for i, e := range b.Events {
			require.Len(t, e.Hashes, i%7)
			require.Len(t, e.Extras, 2*(i%7))
			for j, h := range e.Hashes {
				require.EqualValues(t, 1000*i+j, h)
				require.Equal(t, kvevents.Extra{Block: j, ID: []byte("x")}, e.Extras[2*j])
				require.Equal(t, i, e.Extras[2*j+1].Offset)
			}
			require.Equal(t, count(i, 4*(i%7)), append([]uint32{}, e.Tokens...))
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	for name := range vectors {
		payload := vector(t, name)
		var d kvevents.Decoder
		var b kvevents.Batch
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := d.Decode(payload, &b); err != nil {
				t.Fatal(err)
			}
		}), name)
	}
}
