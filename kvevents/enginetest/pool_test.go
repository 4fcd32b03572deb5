package enginetest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// seq returns n tokens first, first+1, ...
func seq(first, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(first + i)
	}
	return tokens
}

// recorder keeps events as a consumer would see them, and applies them.
type recorder struct {
	events []enginetest.Event
	held   map[uint64]int
}

func (r *recorder) on(e *enginetest.Event) {
	c := *e
	c.Hashes = slices.Clone(e.Hashes)
	c.Tokens = slices.Clone(e.Tokens)
	r.events = append(r.events, c)
	for _, h := range c.Hashes {
		if c.Kind == enginetest.Stored {
			r.held[h]++
		} else if r.held[h]--; r.held[h] == 0 {
			delete(r.held, h)
		}
	}
	if c.Kind == enginetest.Cleared {
		clear(r.held)
	}
}

func (r *recorder) take() []enginetest.Event {
	events := r.events
	r.events = nil
	return events
}

func newPool(t *testing.T, blocks int) (*enginetest.Pool, *recorder) {
	rec := &recorder{held: make(map[uint64]int)}
	pool, err := enginetest.NewPool(enginetest.PoolOptions{Blocks: blocks, BlockTokens: 4, Seed: 7, OnEvent: rec.on})
	require.NoError(t, err)
	return pool, rec
}

func open(t *testing.T, p *enginetest.Pool, tokens []uint32, scope enginetest.Scope) *enginetest.Sequence {
	s, err := p.Open(tokens, scope)
	require.NoError(t, err)
	s.Compute()
	return s
}

func TestPoolHits(t *testing.T) {
	image := func(id string, offset, length int) enginetest.Scope {
		return enginetest.Scope{Items: []enginetest.Item{{ID: id, Offset: offset, Length: length}}}
	}
	long := seq(1, 12)
	tests := []struct {
		name         string
		first        []uint32
		firstScope   enginetest.Scope
		second       []uint32
		secondScope  enginetest.Scope
		hit, resides int
	}{
		{name: "nothing in common", first: long, second: seq(100, 12)},
		{name: "whole blocks only", first: long, second: append(seq(1, 7), 99, 99, 99), hit: 4, resides: 4},
		{name: "last block of a prompt is recomputed", first: long, second: long, hit: 8, resides: 12},
		{name: "one token more frees the last block", first: long, second: seq(1, 13), hit: 12, resides: 12},
		{name: "partial block is not cached", first: seq(1, 11), second: seq(1, 13), hit: 8, resides: 8},
		{name: "shorter than a block", first: seq(1, 3), second: seq(1, 3)},
		{name: "exactly a block", first: seq(1, 4), second: seq(1, 4), hit: 0, resides: 4},
		{name: "same block elsewhere in a chain", first: append(seq(50, 4), seq(1, 8)...), second: seq(1, 9)},
		{name: "adapter differs", first: long, firstScope: enginetest.Scope{Adapter: "a"}, second: long},
		{name: "adapters differ", first: long, firstScope: enginetest.Scope{Adapter: "a"}, second: long, secondScope: enginetest.Scope{Adapter: "b"}},
		{name: "adapter equal, id is not part of it", first: long, firstScope: enginetest.Scope{Adapter: "a", AdapterID: 1}, second: long, secondScope: enginetest.Scope{Adapter: "a", AdapterID: 2}, hit: 8, resides: 12},
		{name: "salt differs", first: long, firstScope: enginetest.Scope{Salt: "a"}, second: long, secondScope: enginetest.Scope{Salt: "b"}},
		{name: "salt equal", first: long, firstScope: enginetest.Scope{Salt: "a"}, second: long, secondScope: enginetest.Scope{Salt: "a"}, hit: 8, resides: 12},
		{name: "salt is not an adapter", first: long, firstScope: enginetest.Scope{Salt: "a"}, second: long, secondScope: enginetest.Scope{Adapter: "a"}},
		{name: "image differs, blocks before it hit", first: long, firstScope: image("x", 5, 2), second: long, secondScope: image("y", 5, 2), hit: 4, resides: 4},
		{name: "image moved within its block", first: long, firstScope: image("x", 5, 2), second: long, secondScope: image("x", 6, 2), hit: 4, resides: 4},
		{name: "image reaches into the next block", first: long, firstScope: image("x", 2, 2), second: long, secondScope: image("x", 2, 3), hit: 4, resides: 4},
		{name: "image equal", first: long, firstScope: image("x", 2, 4), second: long, secondScope: image("x", 2, 4), hit: 8, resides: 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pool, rec := newPool(t, 64)
			open(t, pool, tt.first, tt.firstScope).Free()
			require.Equal(t, tt.hit, pool.CachedTokens(tt.second, tt.secondScope))
			require.Equal(t, tt.resides, pool.Holds(tt.second, tt.secondScope))
			s := open(t, pool, tt.second, tt.secondScope)
			require.Equal(t, tt.hit, s.CachedTokens())
			require.Equal(t, rec.held, maps.Collect(pool.Resident()))
		})
	}
}

func TestPoolEvents(t *testing.T) {
	pool, rec := newPool(t, 4)

	a := open(t, pool, seq(1, 9), enginetest.Scope{}) // two full blocks and a part
	got := rec.take()
	require.Len(t, got, 1)
	require.Equal(t, enginetest.Stored, got[0].Kind)
	require.Equal(t, seq(1, 8), got[0].Tokens)
	require.Equal(t, 4, got[0].BlockTokens)
	require.False(t, got[0].HasParent)
	chain := got[0].Hashes
	require.Len(t, chain, 2)

	// Decoding fills the third block: announced, child of the second.
	require.NoError(t, a.Append(10))
	require.NoError(t, a.Append(11))
	require.Empty(t, rec.take())
	require.NoError(t, a.Append(12))
	got = rec.take()
	require.Len(t, got, 1)
	require.Equal(t, seq(9, 4), got[0].Tokens)
	require.True(t, got[0].HasParent)
	require.Equal(t, chain[1], got[0].Parent)
	require.Equal(t, 2, got[0].First)
	chain = append(chain, got[0].Hashes...)

	// The pool has one block left: too few for two, and nothing changes.
	_, err := pool.Open(seq(100, 5), enginetest.Scope{})
	require.ErrorIs(t, err, enginetest.ErrNoBlocks)
	_, free := pool.Blocks()
	require.Equal(t, 1, free)
	require.ErrorIs(t, pool.Reset(), enginetest.ErrInUse)
	require.Empty(t, rec.take())

	// Freed, the chain stays a hit, and is evicted from its end.
	a.Free()
	a.Free() // does nothing
	require.ErrorIs(t, a.Append(13), enginetest.ErrFreed)
	_, free = pool.Blocks()
	require.Equal(t, 4, free)
	require.Equal(t, 12, pool.Holds(seq(1, 12), enginetest.Scope{}))
	b := open(t, pool, seq(100, 9), enginetest.Scope{}) // one block unused, two evicted
	got = rec.take()
	require.Len(t, got, 3)
	require.Equal(t, enginetest.Removed, got[0].Kind)
	require.Equal(t, chain[2:3], got[0].Hashes)
	require.Equal(t, enginetest.Removed, got[1].Kind)
	require.Equal(t, chain[1:2], got[1].Hashes)
	require.Equal(t, enginetest.Stored, got[2].Kind)
	require.Equal(t, 4, pool.Holds(seq(1, 12), enginetest.Scope{}))
	require.EqualValues(t, 2, pool.Evictions())

	b.Free()
	require.NoError(t, pool.Reset())
	got = rec.take()
	require.Len(t, got, 1)
	require.Equal(t, enginetest.Cleared, got[0].Kind)
	require.Empty(t, maps.Collect(pool.Resident()))
	require.Zero(t, pool.CachedTokens(seq(1, 12), enginetest.Scope{}))
}

// A hit leaves the queue: it is neither evicted nor counted as free.
func TestPoolHitIsTakenOutOfTheFreeQueue(t *testing.T) {
	pool, _ := newPool(t, 4)
	open(t, pool, seq(1, 8), enginetest.Scope{}).Free()
	open(t, pool, seq(50, 8), enginetest.Scope{}).Free()

	s := open(t, pool, seq(1, 9), enginetest.Scope{}) // hits the older chain, one new block
	_, free := pool.Blocks()
	require.Equal(t, 1, free)
	_, err := pool.Open(seq(90, 8), enginetest.Scope{})
	require.ErrorIs(t, err, enginetest.ErrNoBlocks)
	require.Equal(t, 4, pool.Holds(seq(50, 8), enginetest.Scope{}), "its last block went to the new request")

	// Two blocks needed, one hit, and the hit itself was the second free one.
	_, err = pool.Open(append(seq(50, 4), 1, 2, 3, 4), enginetest.Scope{})
	require.ErrorIs(t, err, enginetest.ErrNoBlocks)
	s.Free()
}

func TestPoolCopies(t *testing.T) {
	pool, rec := newPool(t, 6)
	prompt := seq(1, 8)
	for range 3 { // each computes the last block again
		open(t, pool, prompt, enginetest.Scope{}).Free()
	}
	counts := slices.Sorted(maps.Values(maps.Collect(pool.Resident())))
	require.Equal(t, []int{1, 3}, counts)

	// One removal for each copy, the oldest first, and the hash stays a hit
	// until the last is gone.
	rec.take()
	s := open(t, pool, seq(50, 16), enginetest.Scope{})
	var removed int
	for _, e := range rec.take() {
		if e.Kind == enginetest.Removed {
			removed++
		}
	}
	require.Equal(t, 2, removed)
	require.Equal(t, 8, pool.Holds(prompt, enginetest.Scope{}))
	require.Equal(t, rec.held, maps.Collect(pool.Resident()))
	s.Free()
}

func TestPoolSeed(t *testing.T) {
	hashes := func(seed uint64) map[uint64]int {
		pool, err := enginetest.NewPool(enginetest.PoolOptions{Seed: seed})
		require.NoError(t, err)
		open(t, pool, seq(1, 64), enginetest.Scope{})
		return maps.Collect(pool.Resident())
	}
	require.Equal(t, hashes(1), hashes(1))
	for h := range hashes(1) {
		require.NotContains(t, hashes(2), h)
	}
}

func TestPoolOptions(t *testing.T) {
	for _, o := range []enginetest.PoolOptions{{Blocks: -1}, {BlockTokens: -16}, {BlockTokens: 1 << 20}} {
		_, err := enginetest.NewPool(o)
		require.ErrorIs(t, err, enginetest.ErrOptions)
	}
	pool, _ := newPool(t, 4)
	_, err := pool.Open(nil, enginetest.Scope{})
	require.ErrorIs(t, err, enginetest.ErrRequest)
}

// model is the same cache written without a thought for cost: a slice of
// blocks in order of reuse, and content as text.
type model struct {
	blocks []*modelBlock // all; order of the slice is arbitrary
	free   []*modelBlock // order of reuse
	born   int
}

type modelBlock struct {
	key  string // "" no content
	refs int
	born int // when it got its key: the oldest copy is the one hit
}

type modelSeq struct {
	scope  string
	tokens []uint32
	blocks []*modelBlock
}

func newModel(blocks int) *model {
	m := new(model)
	for range blocks {
		b := new(modelBlock)
		m.blocks = append(m.blocks, b)
		m.free = append(m.free, b)
	}
	return m
}

func key(scope string, tokens []uint32) string { return fmt.Sprint(scope, tokens) }

func (m *model) find(k string) *modelBlock {
	var oldest *modelBlock
	for _, b := range m.blocks {
		if b.key == k && (oldest == nil || b.born < oldest.born) {
			oldest = b
		}
	}
	return oldest
}

func (m *model) open(scope string, tokens []uint32) (s *modelSeq, hit int, removed []string, ok bool) {
	s = &modelSeq{scope: scope, tokens: slices.Clone(tokens)}
	for (hit+1)*4 < len(tokens) {
		b := m.find(key(scope, tokens[:(hit+1)*4]))
		if b == nil {
			break
		}
		s.blocks = append(s.blocks, b)
		hit++
	}
	need := (len(tokens)+3)/4 - hit
	avail := 0
	for _, b := range m.free {
		if !slices.Contains(s.blocks, b) {
			avail++
		}
	}
	if need > avail {
		return nil, 0, nil, false
	}
	for _, b := range s.blocks {
		if i := slices.Index(m.free, b); i >= 0 {
			m.free = slices.Delete(m.free, i, i+1)
		}
		b.refs++
	}
	for range need {
		removed = append(removed, m.grab(s)...)
	}
	return s, hit * 4, removed, true
}

func (m *model) grab(s *modelSeq) (removed []string) {
	i := max(0, slices.IndexFunc(m.free, func(b *modelBlock) bool { return b.key == "" }))
	b := m.free[i]
	m.free = slices.Delete(m.free, i, i+1)
	if b.key != "" {
		removed = append(removed, b.key)
	}
	b.key, b.refs = "", 1
	s.blocks = append(s.blocks, b)
	return removed
}

func (m *model) compute(s *modelSeq) (stored []string) {
	for i, b := range s.blocks {
		if (i+1)*4 <= len(s.tokens) && b.key == "" {
			m.born++
			b.key, b.born = key(s.scope, s.tokens[:(i+1)*4]), m.born
			stored = append(stored, b.key)
		}
	}
	return stored
}

func (m *model) release(s *modelSeq) {
	for _, b := range slices.Backward(s.blocks) {
		if b.refs--; b.refs == 0 {
			m.free = append(m.free, b)
		}
	}
}

// TestPoolAgainstModel plays random traffic on the pool and on the model, and
// compares every hit, every event, and the whole content after every step.
func TestPoolAgainstModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		blocks := 3 + rng.IntN(30)
		pool, rec := newPool(t, blocks)
		ref := newModel(blocks)
		names := make(map[uint64]string) // hash -> key, learned from Stored
		type pair struct {
			real     *enginetest.Sequence
			model    *modelSeq
			computed bool
		}
		var open []*pair
		scopes := []enginetest.Scope{{}, {Adapter: "a"}, {Salt: "a"}}

		// expect compares the events of one step with the model's.
		expect := func(removed, stored []string, s *modelSeq) {
			t.Helper()
			var gotRemoved, gotStored []string
			for _, e := range rec.take() {
				switch e.Kind {
				case enginetest.Removed:
					require.Len(t, e.Hashes, 1)
					gotRemoved = append(gotRemoved, names[e.Hashes[0]])
				case enginetest.Stored:
					require.Len(t, e.Tokens, 4*len(e.Hashes))
					require.Equal(t, s.tokens[4*e.First:4*(e.First+len(e.Hashes))], e.Tokens)
					if e.HasParent {
						require.Equal(t, key(s.scope, s.tokens[:4*e.First]), names[e.Parent])
					} else {
						require.Zero(t, e.First)
					}
					for i, h := range e.Hashes {
						names[h] = key(s.scope, s.tokens[:4*(e.First+i+1)])
						gotStored = append(gotStored, names[h])
					}
				default:
					require.Fail(t, "unexpected event", "%+v", e)
				}
			}
			require.Equal(t, removed, gotRemoved)
			require.Equal(t, stored, gotStored)
		}

		for range 600 {
			switch op := rng.IntN(10); {
			case op < 4:
				which := rng.IntN(len(scopes))
				prompt := make([]uint32, 1+rng.IntN(24))
				for i := range prompt { // few values: much is shared
					prompt[i] = uint32(i/5*10 + rng.IntN(8)/7)
				}
				name := fmt.Sprint(which)
				s, hit, removed, ok := ref.open(name, prompt)
				if ok {
					require.Equal(t, hit, pool.CachedTokens(prompt, scopes[which]))
				}
				got, err := pool.Open(prompt, scopes[which])
				require.Equal(t, ok, err == nil)
				if !ok {
					require.Empty(t, rec.take())
					continue
				}
				require.Equal(t, hit, got.CachedTokens())
				expect(removed, nil, s)
				open = append(open, &pair{real: got, model: s})
			case len(open) == 0:
			case op < 6:
				p := open[rng.IntN(len(open))]
				p.real.Compute()
				p.computed = true
				expect(nil, ref.compute(p.model), p.model)
			case op < 8:
				p := open[rng.IntN(len(open))]
				if !p.computed {
					continue
				}
				token := uint32(rng.IntN(2))
				var removed []string
				err := p.real.Append(token)
				if len(p.model.tokens) == 4*len(p.model.blocks) {
					if len(ref.free) == 0 {
						require.ErrorIs(t, err, enginetest.ErrNoBlocks)
						continue
					}
					removed = ref.grab(p.model)
				}
				require.NoError(t, err)
				p.model.tokens = append(p.model.tokens, token)
				expect(removed, ref.compute(p.model), p.model)
			default:
				i := rng.IntN(len(open))
				open[i].real.Free()
				ref.release(open[i].model)
				open = slices.Delete(open, i, i+1)
			}
			_, free := pool.Blocks()
			require.Equal(t, len(ref.free), free)
			want := make(map[string]int)
			for _, b := range ref.blocks {
				if b.key != "" {
					want[b.key]++
				}
			}
			got := make(map[string]int)
			for h, copies := range pool.Resident() {
				got[names[h]] = copies
			}
			require.Equal(t, want, got)
			require.Equal(t, rec.held, maps.Collect(pool.Resident()))
		}
	}
}

func BenchmarkPool(b *testing.B) {
	for _, prompt := range []int{512, 8192} {
		b.Run(fmt.Sprintf("prompt=%d/shape=evicting", prompt), func(b *testing.B) {
			pool, err := enginetest.NewPool(enginetest.PoolOptions{})
			require.NoError(b, err)
			tokens := seq(0, prompt)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				tokens[prompt/2] = uint32(i) // half a hit
				s, err := pool.Open(tokens, enginetest.Scope{})
				if err != nil {
					b.Fatal(err)
				}
				s.Compute()
				s.Free()
			}
		})
	}
}
