package prefixindex

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLookupsTakeNoLock holds every lock there is while lookups run.
func TestLookupsTakeNoLock(t *testing.T) {
	ix, err := New(Options{BlockTokens: 4})
	require.NoError(t, err)
	e, err := ix.Join("a")
	require.NoError(t, err)
	w, err := ix.Writer(e, 0)
	require.NoError(t, err)
	var p Prompt
	p.Reset(Scope{}, make([]uint32, 40))
	require.NoError(t, w.Insert(&p, -1))

	ix.mu.Lock()
	ix.sweeping.Lock()
	ix.enforcing.Lock()
	w.mu.Lock()
	w.batch.Lock()
	for i := range ix.records.shards {
		ix.records.shards[i].mu.Lock()
	}
	done := make(chan Held)
	go func() {
		var m Match
		ix.Match(&p, &m)
		_, _ = ix.Find("a")
		_ = ix.Name(e)
		_ = ix.View(e, 0)
		done <- m.Of(e)
	}()
	select {
	case h := <-done:
		require.Equal(t, 40, h.GPU)
	case <-time.After(10 * time.Second):
		t.Fatal("a lookup waits for a writer")
	}
}

// TestRoutersAreNotLate begins an epoch while an Insert and an Expect wait for the old one.
func TestRoutersAreNotLate(t *testing.T) {
	ix, err := New(Options{BlockTokens: 4})
	require.NoError(t, err)
	e, err := ix.Join("a")
	require.NoError(t, err)
	old, err := ix.Writer(e, 0)
	require.NoError(t, err)
	old.mu.Lock()
	done := make(chan error)
	for _, call := range []func(*Prompt) error{
		func(p *Prompt) error { return ix.Insert(e, 0, p, -1) },
		func(p *Prompt) error { return ix.Expect(e, 0, p, 0, time.Minute) },
	} {
		go func() {
			var p Prompt
			p.Reset(Scope{}, make([]uint32, 8))
			done <- call(&p)
		}()
	}
	time.Sleep(10 * time.Millisecond) // they wait for the lock, or at worst never meet the old epoch
	_, err = ix.Writer(e, 0)
	require.NoError(t, err)
	old.mu.Unlock()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	s := ix.Stats()
	require.EqualValues(t, 2, s.Inserted)
	require.EqualValues(t, 2, s.Expected)
	require.Zero(t, s.Fenced)
}

// TestExpiryWaitsForNoLock has all blocks of an owner expire, and some of another's,
// while locks are held: lookups leave the first out, and end them once they can.
func TestExpiryWaitsForNoLock(t *testing.T) {
	now := time.Unix(1000, 0)
	ix, err := New(Options{BlockTokens: 4, AssumedTTL: time.Minute, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	e, err := ix.Join("a")
	require.NoError(t, err)
	var p, q Prompt
	var m Match
	p.Reset(Scope{}, make([]uint32, 40))
	q.Reset(Scope{Model: "q"}, make([]uint32, 80))
	require.NoError(t, ix.Insert(e, 0, &p, -1))
	now = now.Add(50 * time.Second)
	require.NoError(t, ix.Insert(e, 0, &q, -1))
	require.NoError(t, ix.Expect(e, 1, &p, 0, time.Second))
	now = now.Add(30 * time.Second)
	w, _, err := ix.Resume(e, 0)
	require.NoError(t, err)

	look := func(p *Prompt) (gpu int) {
		t.Helper()
		done := make(chan int)
		go func() {
			ix.Match(p, &m)
			done <- m.Rank(e, 0).GPU
		}()
		select {
		case gpu = <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("a lookup waits for a lock")
		}
		return gpu
	}
	lock := func(what ...*sync.Mutex) (unlock func()) {
		for _, mu := range what {
			mu.Lock()
		}
		return func() {
			for _, mu := range what {
				mu.Unlock()
			}
		}
	}
	var shards []*sync.Mutex
	for i := range ix.records.shards {
		shards = append(shards, &ix.records.shards[i].mu)
	}
	for _, held := range [][]*sync.Mutex{{&w.mu}, shards, {&ix.dueMu, &ix.mu, &w.mu, &ix.sweeping}} {
		unlock := lock(held...)
		require.Zero(t, look(&p), "expired")
		require.Zero(t, look(&q), "left out")
		require.Zero(t, look(&p), "expired")
		unlock()
	}
	require.EqualValues(t, 9, ix.withheld.Load())
	require.Equal(t, 80, look(&q), "the locks are free")
	require.Zero(t, look(&p))
	s := ix.Stats()
	require.EqualValues(t, 9, s.Withheld)
	require.EqualValues(t, 20, s.Expired)
	require.Equal(t, 20, s.Blocks)
}

// TestLookupEndsSome has more expire than one lookup will sweep.
func TestLookupEndsSome(t *testing.T) {
	now := time.Unix(1000, 0)
	ix, err := New(Options{BlockTokens: 4, AssumedTTL: time.Minute, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	e, err := ix.Join("a")
	require.NoError(t, err)
	var p, q Prompt
	var m Match
	p.Reset(Scope{}, make([]uint32, 4*(2*lookupEnds+10)))
	q.Reset(Scope{Model: "q"}, make([]uint32, 40))
	require.NoError(t, ix.Insert(e, 0, &p, -1))
	now = now.Add(time.Second)
	require.NoError(t, ix.Insert(e, 0, &q, -1))
	now = now.Add(time.Minute - time.Second)
	for _, left := range []int{lookupEnds + 20, 20} {
		ix.Match(&q, &m)
		require.Zero(t, m.Of(e).Any)
		require.Equal(t, left, ix.records.blocks())
	}
	ix.Match(&q, &m)
	require.Equal(t, 40, m.Of(e).Any)
	require.Equal(t, 10, ix.records.blocks())

	// Many owners at once make it no longer.
	for _, name := range []string{"b", "c", "d"} {
		e, err := ix.Join(name)
		require.NoError(t, err)
		p.Reset(Scope{Adapter: name}, make([]uint32, 4*(lookupEnds-10)))
		require.NoError(t, ix.Insert(e, 0, &p, -1))
	}
	now = now.Add(time.Second)
	require.NoError(t, ix.Insert(e, 0, &q, -1))
	before := ix.Stats().Expired
	now = now.Add(time.Minute - time.Second)
	ended := func() uint64 {
		ix.Match(&q, &m)
		n := uint64(0)
		for s := range ix.roster.Load().seats() {
			n += s.writer.stats.Expired
		}
		return n - before
	}
	for _, want := range []uint64{lookupEnds, 2 * lookupEnds, 3 * (lookupEnds - 10)} {
		require.Equal(t, want, ended())
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { ix.Match(&q, &m) }))
}

// TestSlabsHoldNoPointers looks at the types of what there are millions of.
func TestSlabsHoldNoPointers(t *testing.T) {
	var find func(reflect.Type) bool
	find = func(x reflect.Type) bool {
		switch x.Kind() {
		case reflect.Array:
			return find(x.Elem())
		case reflect.Struct:
			for i := range x.NumField() {
				if find(x.Field(i).Type) {
					return true
				}
			}
			return false
		default:
		}
		return x.Kind() >= reflect.Chan && x.Kind() != reflect.Struct || x.Kind() == reflect.Uintptr
	}
	for _, x := range []any{record{}, entry{}, far{}, part{}, tail{}, int64(0), uint32(0)} {
		require.False(t, find(reflect.TypeOf(x)), "%T has a pointer", x)
	}
	require.EqualValues(t, 28, reflect.TypeOf(entry{}).Size())
	require.EqualValues(t, 16, reflect.TypeOf(record{}).Size())
}

// TestRecordsMoveBesideLookups has records of one shard come and go, so that others move
// up, while they are looked up: each is found, or not, and with no other's set.
func TestRecordsMoveBesideLookups(t *testing.T) {
	const (
		keys   = 100 // of which the first
		stable = 40  // stay
	)
	hash := func(key int) uint64 { return avalanche(uint64(key)+1) >> shardBits }
	var r records
	r.init()
	for key := range keys {
		r.set(hash(key), uint32(key))
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				for key := range keys {
					if set := r.table(hash(key)).find(hash(key)); set != uint64(key)+1 && (set != 0 || key < stable) {
						t.Errorf("key %d has set %#x", key, set)
						return
					}
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && !t.Failed(); {
		key := stable + rnd.IntN(keys-stable)
		r.unset(hash(key), uint32(key))
		r.set(hash(key), uint32(key))
		for other := range uint64(16) { // or searches would be given up
			r.set((other+1)<<(64-shardBits), 1)
		}
	}
	stop.Store(true)
	readers.Wait()
	for key := range keys {
		r.unset(hash(key), uint32(key))
	}
	require.Equal(t, 16, r.blocks())
}

// TestOwnerSetForms grows a set from nothing to the whole fleet and back, through all
// its forms, and compares it with a map after each step.
func TestOwnerSetForms(t *testing.T) {
	const hash = 0x1234567890abcdef
	for _, stride := range []uint32{1, 7, 150} {
		var r records
		r.init()
		want := map[uint32]bool{}
		words := int(stride*300>>6) + 1
		mask, out := make([]uint64, words), make([]uint64, words)
		for i := range mask {
			mask[i] = ^uint64(0)
		}
		check := func() {
			t.Helper()
			table := r.table(hash)
			set := table.find(hash)
			require.Equal(t, len(want) > 0, table.intersect(set, mask, out))
			for slot := range uint32(words * 64) {
				in := out[slot>>6]>>(slot&63)&1 != 0
				require.Equal(t, want[slot], in, "slot %d", slot)
				if slot%stride == 0 {
					require.Equal(t, in, table.has(set, slot))
				}
			}
			if words == 1 {
				require.Equal(t, out[0], table.intersect64(set, mask[0]))
			}
		}
		for i := range uint32(300) {
			r.set(hash, i*stride)
			want[i*stride] = true
			if i < 20 || i%37 == 0 {
				check()
			}
		}
		for i := range uint32(300) {
			i = i * 7 % 300
			r.unset(hash, i*stride)
			delete(want, i*stride)
			if len(want) < 20 || i%37 == 0 {
				check()
			}
		}
		require.Zero(t, r.blocks())
	}
}

// TestSearchOfOneWordIsTheSearch compares the search for up to 64 slots with the one
// for any number, for owners with runs of all lengths.
func TestSearchOfOneWordIsTheSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		ix, err := New(Options{BlockTokens: 4})
		require.NoError(t, err)
		var p Prompt
		blocks := 2 + random.IntN(100)
		p.Reset(Scope{}, make([]uint32, 4*blocks))
		want := map[int]uint32{}
		for slot := range 1 + random.IntN(64) {
			e, err := ix.Join(strconv.Itoa(slot))
			require.NoError(t, err)
			run := 1 + random.IntN(blocks)
			if random.IntN(3) == 0 {
				run = blocks
			}
			require.NoError(t, ix.Insert(e, 0, &p, run))
			want[slot] = uint32(run)
		}
		for _, known := range []int{1, blocks} { // hashes
			var q Prompt
			var m Match
			reset := func() {
				q.Reset(Scope{}, p.tokens)
				q.grow(ix.hasher, known)
				clear(m.runs)
			}
			ix.Match(&p, &m)
			s := chainSearch{ix: ix, prompt: &q, match: &m, blocks: blocks}
			reset()
			s.search64(m.found[0])
			small := slices.Clone(m.runs)
			reset()
			mask := m.search.masks[:1]
			mask[0] = m.found[0]
			s.search(mask)
			require.Equal(t, m.runs, small)
			for slot, run := range want {
				require.Equal(t, run, small[slot])
			}
		}
	}
}

// TestSetIsReadLate reads sets by the words that led to them before members came and
// went, and words of lists from before a change with others from after it. Whoever was
// a member all along must be seen, and nobody who never was.
func TestSetIsReadLate(t *testing.T) {
	const hash, slots = 0x1234567890abcdef, 24
	type look struct {
		table       *table
		set         uint64
		always, any map[uint32]bool
	}
	for _, stride := range []uint32{1, 150} { // bitmaps, and lists
		var r records
		r.init()
		members := map[uint32]bool{}
		words := int(stride*slots>>6) + 1
		mask, out := make([]uint64, words), make([]uint64, words)
		for i := range mask {
			mask[i] = ^uint64(0)
		}
		var looks []look
		random := rand.New(rand.NewPCG(1, uint64(stride)))
		forms := map[uint64]bool{}
		for step := range 3000 {
			slot := stride * random.Uint32N(slots)
			if step/100%2 == 0 == members[slot] { // grows, then shrinks
				continue
			}
			table := r.table(hash)
			set := table.find(hash)
			forms[set&kindMask] = true
			looks = append(looks, look{table, set, maps.Clone(members), maps.Clone(members)})
			looks = looks[max(0, len(looks)-50):]
			var before []uint64
			if set&kindMask == kindList {
				for i := range table.spilled(set) {
					before = append(before, table.spilled(set)[i].Load())
				}
			}
			if members[slot] {
				r.unset(hash, slot)
				delete(members, slot)
			} else {
				r.set(hash, slot)
				members[slot] = true
			}
			for _, l := range looks {
				l.any[slot] = true
				delete(l.always, slot)
				l.table.intersect(l.set, mask, out)
				for s := uint32(0); s < stride*slots; s += stride {
					if in := out[s>>6]>>(s&63)&1 != 0; in && !l.any[s] || !in && l.always[s] {
						t.Fatalf("slot %d is seen: %v", s, in)
					}
				}
			}
			for torn := range before {
				var seen []uint32
				for i := range before {
					if i < torn {
						seen = appendLanes(seen, before[i])
					} else {
						seen = appendLanes(seen, table.spilled(set)[i].Load())
					}
				}
				for s := range looks[len(looks)-1].always {
					if !slices.Contains(seen, s) {
						t.Fatalf("slot %d is not seen: the change came before word %d", s, torn)
					}
				}
			}
		}
		require.Len(t, forms, 2)
	}
}

// TestRemovalLeavesNoScratch removes more blocks at once than scratch is kept for.
func TestRemovalLeavesNoScratch(t *testing.T) {
	ix, err := New(Options{})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	w, err := ix.Writer(ep, 0)
	require.NoError(t, err)
	require.NoError(t, w.Store(&Span{Hashes: []EngineHash{1}, Tokens: make([]uint32, 16), BlockTokens: 16}))
	require.NoError(t, w.Remove(&Removal{Hashes: make([]EngineHash, 1<<20)}))
	require.LessOrEqual(t, cap(w.contents.found), mostScratch)
}

// TestManyAliases stores many engine blocks that part within: each has a piece that ends
// the same block.
func TestManyAliases(t *testing.T) {
	ix, err := New(Options{})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	w, err := ix.Writer(ep, 0)
	require.NoError(t, err)
	const n = 10_000
	tokens := make([]uint32, 32)
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for _, i := range order {
		tokens[16] = uint32(i)
		require.NoError(t, w.Store(&Span{Hashes: []EngineHash{EngineHash(i)}, Tokens: tokens, BlockTokens: 32}))
	}
	require.Equal(t, 1+1+n, w.contents.tips.live, "the scope, the first half, the others")
	for i := range EngineHash(n) {
		require.Equal(t, int(n-i)+1, w.Stats().Holdings)
		require.NoError(t, w.Remove(&Removal{Hashes: []EngineHash{i}}))
	}
	require.Zero(t, w.Stats().Holdings)
}
