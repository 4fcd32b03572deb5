package kvevents_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/prefixindex"
)

// A random workload of adapters, salts and images on an engine's pool: what the index
// learns of it from the wire, in every form, is what the pool holds.
func TestIndexFollowsAnEngine(t *testing.T) {
	for _, form := range []enginetest.Form{enginetest.FormMap, enginetest.FormPositional, enginetest.FormMedium, enginetest.FormFirst} {
		for _, sizes := range [][2]int{{16, 16}, {4, 16}, {16, 4}, {24, 16}, {64, 16}} {
			t.Run(fmt.Sprintf("form=%d/engine=%d/index=%d", form, sizes[0], sizes[1]), func(t *testing.T) {
				// The older forms do not tell salts and images apart, nor adapters by name.
				plain := form == enginetest.FormMedium || form == enginetest.FormFirst
				followEngine(t, enginetest.Wire{Form: form, Digests: form == enginetest.FormMap && sizes[0] == 4}, sizes[0], sizes[1], plain)
			})
		}
	}
}

func followEngine(t *testing.T, wire enginetest.Wire, engineBlock, indexBlock int, plain bool) {
	r := rand.New(rand.NewPCG(1, uint64(engineBlock)))
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: indexBlock})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	applier, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: ep, Model: "m"})
	require.NoError(t, err)
	var decoded kvevents.Batch
	var payload []byte
	pool, err := enginetest.NewPool(enginetest.PoolOptions{
		Blocks: 4096 / engineBlock, BlockTokens: engineBlock,
		OnEvent: func(e *enginetest.Event) {
			payload = wire.Append(payload[:0], &enginetest.Batch{Time: time.Unix(1, 0), Events: []enginetest.Event{*e}})
			require.NoError(t, new(kvevents.Decoder).Decode(payload, &decoded))
			require.NoError(t, applier.Apply(&decoded))
		},
	})
	require.NoError(t, err)

	type prompt struct {
		tokens []uint32
		scope  enginetest.Scope
	}
	fresh := func() prompt {
		n := 1 + r.IntN(400)
		if r.IntN(2) == 0 {
			n = (n + engineBlock - 1) / engineBlock * engineBlock // its last block will have two copies
		}
		p := prompt{tokens: make([]uint32, n)}
		for i := range p.tokens {
			p.tokens[i] = r.Uint32N(200_000)
		}
		if plain {
			return p
		}
		if r.IntN(3) == 0 {
			p.scope.AdapterID = 1 + r.IntN(2)
			p.scope.Adapter = fmt.Sprint("adapter-", p.scope.AdapterID)
		}
		if r.IntN(3) == 0 {
			p.scope.Salt = fmt.Sprint("tenant-", r.IntN(2))
		}
		for at := r.IntN(100); r.IntN(3) > 0 && at+2 < len(p.tokens); {
			length := 1 + r.IntN(min(60, len(p.tokens)-at-1))
			p.scope.Items = append(p.scope.Items, enginetest.Item{ID: fmt.Sprint("image-", r.IntN(3)), Offset: at, Length: length})
			at += length + r.IntN(50)
		}
		return p
	}
	// variant is like p up to some point: another tail, scope, or image.
	variant := func(p prompt) prompt {
		v := prompt{append([]uint32{}, p.tokens...), p.scope}
		v.scope.Items = append([]enginetest.Item{}, p.scope.Items...)
		switch n := r.IntN(6); {
		case n == 0:
			v.tokens[r.IntN(len(v.tokens))]++
		case n == 1:
			v.tokens = append(v.tokens, fresh().tokens...)
		case n == 2 && !plain:
			v.scope.Salt = fmt.Sprint("tenant-", r.IntN(3))
		case n == 3 && !plain:
			v.scope.Adapter, v.scope.AdapterID = "", 0
		case n == 4 && len(v.scope.Items) > 0:
			v.scope.Items[r.IntN(len(v.scope.Items))].ID = "image-x"
		}
		return v
	}
	check := func(p prompt) {
		held := pool.Holds(p.tokens, p.scope)
		extras := make([]prefixindex.Extra, 0, len(p.scope.Items))
		for _, item := range p.scope.Items {
			extras = append(extras, prefixindex.Extra{At: item.Offset, ID: item.ID})
		}
		got := heldBy(ix, ep, prefixindex.Scope{Model: "m", Adapter: p.scope.Adapter, Salt: p.scope.Salt}, p.tokens, extras...).GPU
		// Blocks of the engine that are larger than the index's may be known in part.
		require.GreaterOrEqual(t, got, held/indexBlock*indexBlock)
		require.LessOrEqual(t, got/engineBlock*engineBlock, held)
	}

	var known []prompt
	var open []*enginetest.Sequence
	for range 200 {
		p := fresh()
		if len(known) > 0 && r.IntN(3) > 0 {
			p = variant(known[r.IntN(len(known))])
		}
		known = append(known, p)
		if s, err := pool.Open(p.tokens, p.scope); err == nil {
			s.Compute()
			for range r.IntN(40) {
				if s.Append(r.Uint32N(200_000)) != nil {
					break
				}
			}
			open = append(open, s)
		}
		for len(open) > 0 && r.IntN(3) > 0 {
			i := r.IntN(len(open))
			open[i].Free()
			open = append(open[:i], open[i+1:]...)
		}
		if r.IntN(100) == 0 {
			for _, s := range open {
				s.Free()
			}
			open = nil
			require.NoError(t, pool.Reset())
		}
		check(p)
		for range 5 {
			check(known[r.IntN(len(known))])
			check(variant(known[r.IntN(len(known))]))
		}
	}
	s := applier.Stats()
	require.Zero(t, s.Malformed+s.Unknown+s.SkippedExtras+s.SkippedSize+s.SkippedSparse+s.SkippedKind, "%+v", s)
	require.Zero(t, s.Blocks.Conflicts+s.Blocks.RemovedUnknown+s.Blocks.PlacedUnknown, "%+v", s)
	require.Zero(t, s.Blocks.Orphans)
	require.Positive(t, s.Blocks.Copies)
	require.Positive(t, pool.Evictions())
}
