package prefixindex_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/prefixindex"
)

// goldenCase is a prompt and the hashes it has had since they were defined. Snapshots
// and processes that exchange hashes rely on them: a case that fails means that the
// definition changed, not that the file is old.
type goldenCase struct {
	Name        string
	Seed        string // decimal: JSON numbers lose digits
	BlockTokens int
	Scope       prefixindex.Scope
	Tokens      []uint32            `json:",omitempty"`
	Text        string              `json:",omitempty"` // instead of tokens: a prompt of bytes
	Extras      []prefixindex.Extra `json:",omitempty"`
	Hashes      []string            // hexadecimal: the root, then the blocks
}

func (c *goldenCase) hasher(t *testing.T) prefixindex.Hasher {
	seed, err := strconv.ParseUint(c.Seed, 10, 64)
	require.NoError(t, err)
	h, err := prefixindex.NewHasher(c.BlockTokens, seed)
	require.NoError(t, err)
	return h
}

func (c *goldenCase) compute(t *testing.T) []string {
	h := c.hasher(t)
	var p prefixindex.Prompt
	if c.Text != "" {
		p.ResetBytes(c.Scope, []byte(c.Text))
	} else {
		p.Reset(c.Scope, c.Tokens, c.Extras...)
	}
	s := []string{fmt.Sprintf("%016x", h.Root(c.Scope))}
	for _, b := range h.Hashes(&p) {
		s = append(s, fmt.Sprintf("%016x", b))
	}
	return s
}

func TestHashesStayAsDefined(t *testing.T) {
	data, err := os.ReadFile("testdata/hashes.json")
	require.NoError(t, err)
	var cases []goldenCase
	require.NoError(t, json.Unmarshal(data, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { require.Equal(t, c.Hashes, c.compute(t)) })
	}
}

// TestHashesMeanWhatIsWritten recomputes hashes from the definition in words, byte by
// byte, without the shortcuts that the hasher takes.
func TestHashesMeanWhatIsWritten(t *testing.T) {
	word := binary.LittleEndian.AppendUint64
	field := func(b []byte, domain byte, s string) []byte {
		return append(word(append(b, domain), uint64(len(s))), s...)
	}
	avalanche := func(x uint64) uint64 {
		x = (x ^ x>>33) * 14029467366897019727
		x = (x ^ x>>29) * 1609587929392839161
		return x ^ x>>32
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(4, 64).Draw(t, "size")
		seed := rapid.Uint64().Draw(t, "seed")
		scope := prefixindex.Scope{
			Model: rapid.String().Draw(t, "model"), Adapter: rapid.String().Draw(t, "adapter"), Salt: rapid.String().Draw(t, "salt"),
		}
		tokens := rapid.SliceOfN(rapid.Uint32(), size, size).Draw(t, "tokens")
		extra := prefixindex.Extra{At: 2, Kind: prefixindex.ExtraKind(rapid.IntRange(0, 2).Draw(t, "kind")), ID: rapid.String().Draw(t, "id")}

		b := word([]byte{'t'}, uint64(size))
		b = field(b, 'm', scope.Model)
		b = field(b, 'a', scope.Adapter)
		b = field(b, 's', scope.Salt)
		d := xxhash.NewWithSeed(seed)
		_, err := d.Write(b)
		require.NoError(t, err)
		root := d.Sum64()

		b = nil
		for _, tok := range tokens {
			b = binary.LittleEndian.AppendUint32(b, tok)
		}
		next := avalanche(root*11400714785074694791 + xxhash.Sum64(b))
		b = field(word([]byte{'x'}, uint64(extra.Kind)), 'x', extra.ID)
		withExtra := avalanche(next*14029467366897019727 + xxhash.Sum64(b))

		h, err := prefixindex.NewHasher(size, seed)
		require.NoError(t, err)
		require.EqualValues(t, root, h.Root(scope))
		require.EqualValues(t, next, h.Next(h.Root(scope), tokens, nil))
		require.EqualValues(t, withExtra, h.Next(h.Root(scope), tokens, []prefixindex.Extra{extra}))
	})
}

func TestHasherRefusesBlockSizes(t *testing.T) {
	for _, n := range []int{-1, 0, 3, 1025} {
		_, err := prefixindex.NewHasher(n, 1)
		require.ErrorContains(t, err, fmt.Sprintf("blockTokens is %d, want 4 to 1024", n))
	}
}

func TestHashOfAPartBlockIsNobodys(t *testing.T) {
	h, err := prefixindex.NewHasher(4, 1)
	require.NoError(t, err)
	for _, n := range []int{0, 3, 5, 8} {
		require.Zero(t, h.Next(h.Root(scope), tokens(n), nil), "%d tokens", n)
	}
	require.Zero(t, prefixindex.Hasher{}.Next(1, nil, nil))
}

// A block cannot be chosen such that what comes before it no longer matters.
func TestNoBlockErasesItsParent(t *testing.T) {
	h, err := prefixindex.NewHasher(4, 1)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.SliceOfN(rapid.Uint32(), 4, 4).Draw(t, "block")
		p, q := rapid.Uint64().Draw(t, "parent"), rapid.Uint64().Draw(t, "other parent")
		if p != q {
			require.NotEqual(t, h.Next(prefixindex.BlockHash(p), block, nil), h.Next(prefixindex.BlockHash(q), block, nil))
		}
	})
}

func TestScopeFieldsAreDomains(t *testing.T) {
	x := func(kind prefixindex.ExtraKind) []prefixindex.Extra {
		return []prefixindex.Extra{{At: 0, Kind: kind, ID: "x"}}
	}
	seen := map[prefixindex.BlockHash]string{}
	h, err := prefixindex.NewHasher(4, 1)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		scope  prefixindex.Scope
		extras []prefixindex.Extra
	}{
		"plain":              {scope: prefixindex.Scope{Model: "m"}},
		"adapter x":          {scope: prefixindex.Scope{Model: "m", Adapter: "x"}},
		"salt x":             {scope: prefixindex.Scope{Model: "m", Salt: "x"}},
		"adapter and salt x": {scope: prefixindex.Scope{Model: "m", Adapter: "x", Salt: "x"}},
		"model mx":           {scope: prefixindex.Scope{Model: "mx"}},
		"image x":            {scope: prefixindex.Scope{Model: "m"}, extras: x(prefixindex.ExtraMedia)},
		"embeddings x":       {scope: prefixindex.Scope{Model: "m"}, extras: x(prefixindex.ExtraEmbeds)},
		"opaque x":           {scope: prefixindex.Scope{Model: "m"}, extras: x(prefixindex.ExtraOpaque)},
		"two images x":       {scope: prefixindex.Scope{Model: "m"}, extras: append(x(prefixindex.ExtraMedia), x(prefixindex.ExtraMedia)...)},
	} {
		b := h.Next(h.Root(c.scope), tokens(4), c.extras)
		require.Empty(t, seen[b], "%s has the hash of another", name)
		seen[b] = name
	}
}

func TestHashingAllocatesNothing(t *testing.T) {
	h, err := prefixindex.NewHasher(16, 1)
	require.NoError(t, err)
	s := prefixindex.Scope{Model: "m", Adapter: "a", Salt: "s"}
	block, extras := tokens(16), []prefixindex.Extra{{ID: "image"}}
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Next(h.Root(s), block, extras) }))
}

func TestHashIsThatOfABlock(t *testing.T) {
	h, err := prefixindex.NewHasher(16, 1)
	require.NoError(t, err)
	tokens := make([]uint32, 100)
	var whole, p prefixindex.Prompt
	whole.Reset(prefixindex.Scope{}, tokens)
	p.Reset(prefixindex.Scope{}, tokens)
	all := h.Hashes(&whole)
	require.Len(t, all, 6)
	require.Equal(t, all[3], h.Hash(&p, 4))
	require.Equal(t, all[5], h.Hash(&p, 7), "there are 6")
	require.Zero(t, h.Hash(&p, 0))
	p.Reset(prefixindex.Scope{}, tokens[:15])
	require.Zero(t, h.Hash(&p, 1))
}
