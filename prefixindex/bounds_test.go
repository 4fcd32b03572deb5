package prefixindex_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// conversation stores and removes chains of blocks of 4 tokens that no other shares.
type conversation struct {
	*testing.T
	span    prefixindex.Span
	removal prefixindex.Removal
}

func (c *conversation) fill(id, blocks int) {
	c.span.Hashes, c.span.Tokens = c.span.Hashes[:0], c.span.Tokens[:0]
	for i := range blocks {
		c.span.Hashes = append(c.span.Hashes, prefixindex.EngineHash(id)<<20|prefixindex.EngineHash(i+1))
		c.span.Tokens = append(c.span.Tokens, uint32(id), uint32(i), 7, 7)
	}
	c.span.BlockTokens, c.span.Scope = 4, scope
}

func (c *conversation) store(w *prefixindex.Writer, id, blocks int) {
	c.fill(id, blocks)
	require.NoError(c, w.Store(&c.span))
}

func (c *conversation) remove(w *prefixindex.Writer, id, blocks int) {
	c.fill(id, blocks)
	c.removal.Hashes = c.span.Hashes
	require.NoError(c, w.Remove(&c.removal))
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestMemoryIsBoundedAndToldAndReturned feeds ten times what Options.MaxBytes has room
// for, looks at the heap on the way, and takes everything out again.
func TestMemoryIsBoundedAndToldAndReturned(t *testing.T) {
	const limit = 24 << 20
	c := &conversation{T: t}
	c.fill(0, 64)
	before := heap()
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, MaxBytes: limit})
	require.NoError(t, err)
	var eps []prefixindex.Endpoint
	var writers []*prefixindex.Writer
	for _, name := range []string{"a", "b", "c"} {
		ep, err := ix.Join(name)
		require.NoError(t, err)
		w, err := ix.Writer(ep, 0)
		require.NoError(t, err)
		eps, writers = append(eps, ep), append(writers, w)
	}
	told := func(when string) {
		grown, bytes := heap()-before, ix.Stats().Bytes
		// What is too small to be counted may be 128 KiB.
		require.InDelta(t, grown, bytes, max(0.05*float64(grown), 128<<10), "%s: the heap grew by %d bytes, Stats.Bytes is %d", when, grown, bytes)
		require.LessOrEqual(t, float64(grown), 1.05*limit, when)
		t.Logf("%s: heap +%d, Bytes %d, %d blocks", when, grown, bytes, ix.Stats().Blocks)
	}
	id := 0
	feed := func(share float64) {
		for blocks := 0.0; blocks < share*limit/70; blocks += 64 {
			id++
			c.store(writers[id%3], id, 64)
		}
	}
	feed(0.01)
	told("1 %")
	feed(0.09)
	told("10 %")
	feed(0.9)
	told("100 %")
	feed(9)
	told("1,000 %")
	s := ix.Stats()
	require.NotZero(t, s.Evicted)
	require.Greater(t, s.Bytes, int64(limit)/2, "the bound is used")
	peak := heap() - before

	for i := range id {
		c.remove(writers[(i+1)%3], i+1, 64)
	}
	require.Zero(t, ix.Stats().Blocks)
	left := heap() - before
	require.Less(t, float64(left), 0.05*float64(peak), "left of %d bytes after removing all", peak)
	told("all removed")

	feed(0.5)
	for _, ep := range eps {
		ix.Leave(ep)
	}
	require.Zero(t, ix.Stats().Blocks)
	require.Less(t, float64(heap()-before), 0.05*float64(peak), "left after all have left")
	runtime.KeepAlive(ix)
}

// TestMemoryOfWhatExpiredComesBackWithStats has an owner expire that nothing is written
// to any more, in part by lookups.
func TestMemoryOfWhatExpiredComesBackWithStats(t *testing.T) {
	now := time.Unix(1000, 0)
	before := heap()
	ix, err := prefixindex.New(prefixindex.Options{
		BlockTokens: 4, AssumedTTL: time.Minute, Clock: func() time.Time { return now },
	})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	var p prefixindex.Prompt
	var m prefixindex.Match
	toks := make([]uint32, 4000)
	for i := range 300 {
		toks[0] = uint32(i)
		p.Reset(scope, toks)
		require.NoError(t, ix.Insert(ep, 0, &p, -1))
	}
	peak, told := heap()-before, ix.Stats().Bytes
	require.InDelta(t, peak, told, 0.05*float64(peak)+128<<10)
	now = now.Add(time.Minute)
	for range 10 {
		ix.Match(&p, &m)
	}
	s := ix.Stats()
	require.Zero(t, s.Blocks)
	require.Less(t, float64(s.Bytes), 0.05*float64(peak))
	require.Less(t, float64(heap()-before), 0.05*float64(peak))
	runtime.KeepAlive(ix)
}

// TestStoreKeepsNothingOfTheSpan looks for what a large span leaves behind.
func TestStoreKeepsNothingOfTheSpan(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	store := func() (weak.Pointer[uint32], weak.Pointer[prefixindex.Extra]) {
		span := &prefixindex.Span{BlockTokens: 6, Scope: scope}
		for i := range 100_000 {
			span.Hashes = append(span.Hashes, prefixindex.EngineHash(i+1))
			span.Tokens = append(span.Tokens, 1, 2, 3, 4, 5, uint32(i))
			span.Extras = append(span.Extras, prefixindex.Extra{At: 6 * i})
		}
		require.NoError(t, f.w.Store(span))
		return weak.Make(&span.Tokens[0]), weak.Make(&span.Extras[0])
	}
	toks, extras := store()
	grown := heap()
	require.Nil(t, toks.Value())
	require.Nil(t, extras.Value())
	told := f.ix.Stats().Bytes
	require.NoError(t, f.w.Clear())
	require.Zero(t, f.ix.Stats().Blocks)
	require.InDelta(t, grown-heap(), told, 0.1*float64(told))
}

// TestWhatIsOnlyReadSurvives stores twice their capacity of other blocks in all owners
// while a prefix is looked up now and then.
func TestWhatIsOnlyReadSurvives(t *testing.T) {
	for _, c := range []struct {
		owners int
		read   bool
	}{{1, true}, {1, false}, {16, true}, {64, true}, {64, false}} {
		t.Run(fmt.Sprintf("owners=%d/read=%v", c.owners, c.read), func(t *testing.T) {
			writes := &conversation{T: t}
			ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, OwnerBlocks: 1000})
			require.NoError(t, err)
			var eps []prefixindex.Endpoint
			var ws []*prefixindex.Writer
			for i := range c.owners {
				ep, err := ix.Join(fmt.Sprint(i))
				require.NoError(t, err)
				w, err := ix.Writer(ep, 0)
				require.NoError(t, err)
				writes.store(w, 1, 10)
				eps, ws = append(eps, ep), append(ws, w)
			}
			var p prefixindex.Prompt
			var m prefixindex.Match
			p.Reset(scope, append([]uint32(nil), writes.span.Tokens...))
			for id := 2; id < 202; id++ {
				for _, w := range ws {
					writes.store(w, id, 10)
				}
				if c.read {
					ix.Match(&p, &m)
					for _, ep := range eps {
						require.Equal(t, 40, m.Of(ep).Any, "%q after %d others", ix.Name(ep), id-1)
					}
				}
			}
			ix.Match(&p, &m)
			for i, ep := range eps {
				if !c.read {
					require.Less(t, m.Of(ep).Any, 20, "what nobody asks for goes")
				}
				require.EqualValues(t, 1010, ws[i].Stats().Evicted)
				require.Equal(t, 1000, ws[i].Stats().Holdings)
			}
		})
	}
}

// TestOneOwnersReadsCostOthersNothing has an owner of which all is read, what it is about
// to store too, give up blocks, beside one of which a prefix is read.
func TestOneOwnersReadsCostOthersNothing(t *testing.T) {
	writes := &conversation{T: t}
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, OwnerBlocks: 100})
	require.NoError(t, err)
	var eps [3]prefixindex.Endpoint
	var ws [3]*prefixindex.Writer
	for i := range ws {
		eps[i], err = ix.Join(fmt.Sprint(i))
		require.NoError(t, err)
		ws[i], err = ix.Writer(eps[i], 0)
		require.NoError(t, err)
	}
	look := func(id int) int {
		var p prefixindex.Prompt
		var m prefixindex.Match
		writes.fill(id, 10)
		p.Reset(scope, writes.span.Tokens)
		ix.Match(&p, &m) // the first of a Match leaves a mark
		return m.Of(eps[1]).Any
	}
	writes.store(ws[1], 1, 10)
	for id := 2; id < 202; id++ {
		require.Equal(t, 40, look(1), "after %d others", id-2)
		writes.store(ws[2], id, 10)
		for k := range 12 {
			look(id - k)
		}
		writes.store(ws[0], id, 10)
		writes.store(ws[1], 1000+id, 10)
	}
	require.Equal(t, 40, look(1))
}

// TestEvictionSparesHeads fills an owner with chains that share a head.
func TestEvictionSparesHeads(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, OwnerBlocks: 100})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	w, err := ix.Writer(ep, 0)
	require.NoError(t, err)
	head := tokens(4 * 20)
	store := func(from int, hash prefixindex.EngineHash, parent prefixindex.EngineHash, toks []uint32) {
		s := &prefixindex.Span{Tokens: toks, BlockTokens: 4, Scope: scope, Parent: parent, HasParent: parent != 0}
		for i := range len(toks) / 4 {
			s.Hashes = append(s.Hashes, hash+prefixindex.EngineHash(i))
		}
		require.NoError(t, w.Store(s))
	}
	store(0, 1, 0, head)
	for turn := range 50 {
		tail := make([]uint32, 40)
		for i := range tail {
			tail[i] = uint32(1000 + turn)
		}
		store(20, prefixindex.EngineHash(1000*(turn+1)), 20, tail)
		require.LessOrEqual(t, w.Stats().Holdings, 100)
		var p prefixindex.Prompt
		var m prefixindex.Match
		p.Reset(scope, append(append([]uint32(nil), head...), tail...))
		ix.Match(&p, &m)
		require.GreaterOrEqual(t, m.Of(ep).Any, 80, "the head that all turns share, turn %d", turn)
	}
	require.EqualValues(t, 20+500-100, w.Stats().Evicted)
	// The engine's own removals of what was pushed out are no surprise.
	for turn := range 50 {
		r := &prefixindex.Removal{}
		for i := range 10 {
			r.Hashes = append(r.Hashes, prefixindex.EngineHash(1000*(turn+1)+i))
		}
		require.NoError(t, w.Remove(r))
	}
	require.Zero(t, w.Stats().RemovedUnknown)
	require.Equal(t, 20, w.Stats().Holdings)
}

// TestEvictedParentStillPlacesItsChildren keeps a conversation going at an engine that
// still has what the index had no room for.
func TestEvictedParentStillPlacesItsChildren(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, OwnerBlocks: 8})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	w, err := ix.Writer(ep, 0)
	require.NoError(t, err)
	for i := range 30 {
		s := &prefixindex.Span{
			Hashes: []prefixindex.EngineHash{prefixindex.EngineHash(i + 1)},
			Parent: prefixindex.EngineHash(i), HasParent: i > 0,
			Tokens: tokens(4*i + 4)[4*i:], BlockTokens: 4, Scope: scope,
		}
		require.NoError(t, w.Store(s))
	}
	s := w.Stats()
	require.Zero(t, s.Parked)
	require.Equal(t, 8, s.Holdings)
	require.Equal(t, 30, s.Handles)
}

// TestOwnersThatHoldNothingUnderMaxBytes has a budget that membership alone uses up.
func TestOwnersThatHoldNothingUnderMaxBytes(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	for i := range 3000 {
		ep, err := ix.Join(fmt.Sprint(i))
		require.NoError(t, err)
		w, err := ix.Writer(ep, 0)
		require.NoError(t, err)
		require.NoError(t, w.SetView(prefixindex.ViewLive))
	}
	require.Greater(t, ix.Stats().Bytes, int64(1<<20))
}

// TestSpanWhoseLengthOverflowsIsRefused has more tokens than a 32-bit int counts.
func TestSpanWhoseLengthOverflowsIsRefused(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	s := &prefixindex.Span{
		Hashes:      make([]prefixindex.EngineHash, 4097),
		Tokens:      make([]uint32, 1<<20),
		BlockTokens: 1 << 20,
	}
	for i := range s.Hashes {
		s.Hashes[i] = prefixindex.EngineHash(i + 1)
	}
	require.ErrorIs(t, f.w.Store(s), prefixindex.ErrSpan)
}
