package enginetest_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// The payloads were made with an encoder written from msgspec's source, for
// the event schemas of the vLLM versions named.
func TestWireGolden(t *testing.T) {
	at := time.Unix(1750000000, 500e6)
	const b0, b1 = 0x1e0b2e028ef071cb, 0xefad121d154ab2d6
	first := enginetest.Event{Kind: enginetest.Stored, Hashes: []uint64{b0}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4}
	second := enginetest.Event{Kind: enginetest.Stored, Hashes: []uint64{b1}, Parent: b0, HasParent: true, First: 1, Tokens: []uint32{5, 6, 7, 8}, BlockTokens: 4}
	removed := func(h uint64, medium string) enginetest.Event {
		return enginetest.Event{Kind: enginetest.Removed, Hashes: []uint64{h}, Medium: medium}
	}
	cleared := enginetest.Event{Kind: enginetest.Cleared}
	negative := int64(-4611686018427387905)
	tests := []struct {
		name  string
		form  enginetest.Form
		batch enginetest.Batch
		want  string
	}{
		{
			name: "first release, signed hashes",
			form: enginetest.FormFirst,
			batch: enginetest.Batch{Rank: 3, Events: []enginetest.Event{{
				Kind: enginetest.Stored, Hashes: []uint64{6510615555426900570, uint64(negative)},
				Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8}, BlockTokens: 4,
			}}},
			want: `92cb41da13b8602000009196ab426c6f636b53746f72656492cf5a5a5a5a5a5a5a5ad3bfffffffffffffffc098010203
				040506070804c0`,
		},
		{
			name:  "arrays up to the medium",
			form:  enginetest.FormMedium,
			batch: enginetest.Batch{Rank: 1, Events: []enginetest.Event{first, removed(b0, "")}},
			want: `93cb41da13b8602000009297ab426c6f636b53746f72656491cf1e0b2e028ef071cbc0940102030404c0a347505593ac
				426c6f636b52656d6f76656491cf1e0b2e028ef071cba347505501`,
		},
		{
			name:  "arrays of vLLM 0.22 and 0.23",
			form:  enginetest.FormPositional,
			batch: enginetest.Batch{Events: []enginetest.Event{second, removed(b1, ""), cleared}},
			want: `93cb41da13b860200000939cab426c6f636b53746f72656491cfefad121d154ab2d6cf1e0b2e028ef071cb9405060708
				04c0a3475055c091c000ae66756c6c5f617474656e74696f6ec094ac426c6f636b52656d6f76656491cfefad121d154a
				b2d6a34750550091b0416c6c426c6f636b73436c656172656400`,
		},
		{
			name: "maps of vLLM 0.24",
			batch: enginetest.Batch{Events: []enginetest.Event{{
				Kind: enginetest.Stored, Hashes: []uint64{b0, b1}, Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8}, BlockTokens: 4,
			}}},
			want: `93cb41da13b860200000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392cf1e0b2e02
				8ef071cbcfefad121d154ab2d6b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473980102030405
				060708aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65
				787472615f6b65797392c0c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f
				617474656e74696f6e00`,
		},
		{
			name:  "map removals on two tiers and a reset",
			batch: enginetest.Batch{Events: []enginetest.Event{removed(b0, ""), removed(b0, "CPU"), cleared}},
			want: `93cb41da13b8602000009384a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cf1e0b2e
				028ef071cba66d656469756da3475055a967726f75705f6964780084a474797065ac426c6f636b52656d6f766564ac62
				6c6f636b5f68617368657391cf1e0b2e028ef071cba66d656469756da3435055a967726f75705f6964780081a4747970
				65b0416c6c426c6f636b73436c656172656400`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.batch.Time = at
			want := strings.Join(strings.Fields(tt.want), "")
			got := enginetest.Wire{Form: tt.form}.Append([]byte{0xaa}, &tt.batch)
			require.Equal(t, "aa"+want, hex.EncodeToString(got))
		})
	}
}

// The scope's part of a block: adapter, items by their offset from the block's
// start, and, in block 0 alone, the salt.
func TestWireScope(t *testing.T) {
	e := enginetest.Event{
		Kind: enginetest.Stored, Hashes: []uint64{1, 2, 3}, Tokens: make([]uint32, 12), BlockTokens: 4,
		Scope: &enginetest.Scope{
			Adapter: "ad", AdapterID: 7, Salt: "salt",
			Items: []enginetest.Item{{ID: "img", Offset: 3, Length: 2}, {ID: "two", Offset: 4, Length: 4}},
		},
	}
	got := hex.EncodeToString(enginetest.Wire{}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}}))
	extras := hex.EncodeToString([]byte("\xaaextra_keys\x93" +
		"\x93\xa2ad\x92\xa3img\x03\xa4salt" +
		"\x93\xa2ad\x92\xa3img\xff\x92\xa3two\x00" +
		"\x91\xa2ad"))
	require.Contains(t, got, extras)
	require.Contains(t, got, hex.EncodeToString([]byte("\xa7lora_id\x07")))
	require.Contains(t, got, hex.EncodeToString([]byte("\xa9lora_name\xa2ad")))

	// The same blocks from the second on: no salt.
	e.First, e.HasParent, e.Hashes, e.Tokens = 1, true, e.Hashes[1:], e.Tokens[4:]
	got = hex.EncodeToString(enginetest.Wire{}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}}))
	require.NotContains(t, got, hex.EncodeToString([]byte("salt")))
	require.Contains(t, got, hex.EncodeToString([]byte("\x92\xa3img\xff")))
}

func TestWireDigests(t *testing.T) {
	e := enginetest.Event{Kind: enginetest.Removed, Hashes: []uint64{0x1e0b2e028ef071cb}}
	for _, form := range []enginetest.Form{enginetest.FormMap, enginetest.FormPositional, enginetest.FormMedium} {
		got := enginetest.Wire{Form: form, Digests: true}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}})
		i := bytes.Index(got, []byte("\xc4\x20"))
		require.Positive(t, i)
		require.Equal(t, "1e0b2e028ef071cb", hex.EncodeToString(got[i+26:i+34]))
	}
}

// Lengths and values around every change of msgpack form.
func TestWireIntegerForms(t *testing.T) {
	for _, tt := range []struct {
		token uint32
		want  string
	}{{127, "7f"}, {128, "cc80"}, {255, "ccff"}, {256, "cd0100"}, {65535, "cdffff"}, {65536, "ce00010000"}} {
		e := enginetest.Event{Kind: enginetest.Stored, Hashes: []uint64{1}, Tokens: []uint32{tt.token}, BlockTokens: 1}
		got := enginetest.Wire{}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}})
		require.Contains(t, hex.EncodeToString(got), hex.EncodeToString([]byte("token_ids"))+"91"+tt.want+"aa")
	}
	for _, tt := range []struct {
		n    int
		want string
	}{{31, "bf"}, {32, "d920"}, {255, "d9ff"}, {256, "da0100"}, {65536, "db00010000"}} {
		e := enginetest.Event{Kind: enginetest.Removed, Hashes: []uint64{1}, Medium: strings.Repeat("x", tt.n)}
		got := enginetest.Wire{}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}})
		require.Contains(t, hex.EncodeToString(got), hex.EncodeToString([]byte("medium"))+tt.want+"78")
	}
	for _, tt := range []struct {
		offset int
		want   string
	}{{-32, "e0"}, {-33, "d0df"}, {-128, "d080"}, {-129, "d1ff7f"}, {-32768, "d18000"}, {-32769, "d2ffff7fff"}} {
		e := enginetest.Event{
			Kind: enginetest.Stored, Hashes: []uint64{1}, Tokens: []uint32{1}, BlockTokens: 1, First: -tt.offset,
			Scope: &enginetest.Scope{Items: []enginetest.Item{{ID: "i", Length: 1 << 20}}},
		}
		got := enginetest.Wire{}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}})
		require.Contains(t, hex.EncodeToString(got), "a169"+tt.want+"a9")
	}
	for _, tt := range []struct {
		n    int
		want string
	}{{15, "9f"}, {16, "dc0010"}, {65535, "dcffff"}, {65536, "dd00010000"}} {
		e := enginetest.Event{Kind: enginetest.Stored, Hashes: []uint64{1}, Tokens: make([]uint32, tt.n), BlockTokens: tt.n}
		got := hex.EncodeToString(enginetest.Wire{}.Append(nil, &enginetest.Batch{Events: []enginetest.Event{e}}))
		require.Contains(t, got, hex.EncodeToString([]byte("token_ids"))+tt.want+"00")
	}
}
