package prefixindex

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	shardBits = 8
	shards    = 1 << shardBits

	// A table is rebuilt when more than loadMost of its records have a key, and begins
	// with loadLeast of them: a growth by a quarter. Little memory lies idle, and a
	// search for an absent key still ends after a few neighbouring records.
	loadMost  = 0.70
	loadLeast = 0.56
)

// shard is one part of the index's hash table. Readers only load tab; writers hold
// mu. The two are kept on cache lines of their own.
type shard struct {
	tab atomic.Pointer[table]
	_   [56]byte
	mu  sync.Mutex
	_   [56]byte
}

// record says which slots hold a block. A key, once there, stays for the lifetime of
// its table: a record whose set has become empty is dead until the key returns or the
// table is rebuilt without it.
type record struct {
	hash atomic.Uint64 // BlockHash; 0: free
	set  atomic.Uint64 // owner set
}

// table is one generation of a shard: records, probed linearly, and the words of the
// sets that do not fit into a record. It holds no pointers but these two. Only the
// shard's lock holder writes, and only in ways that a reader may see half of:
//
//   - A new record's set is written before its key.
//   - A set changes by one word at a time (ownerset.go).
//   - Nothing moves and no word gets another use. When records, spill words or
//     garbage run out of bounds, a rebuilt copy is published in tab and this one
//     is left as it is: a reader that still holds it sees every set as of that
//     instant, which lies within its call. The garbage collector frees it after.
type table struct {
	recs  []record
	spill []atomic.Uint64

	// For writers.
	keys    int      // records with a key
	live    int      // of these, with a set that is not empty
	used    int      // spill words handed out
	waste   int      // of these, given up
	want    int      // spill words that were missing last
	scratch []uint32 // members of one set
}

func newTable(records, spill int) *table {
	// What the allocator rounds up to is used, and thereby counted.
	recs := slices.Grow([]record(nil), max(records, 1))
	t := &table{recs: recs[:cap(recs)]}
	if spill > 0 {
		words := slices.Grow([]atomic.Uint64(nil), spill)
		t.spill = words[:cap(words)]
	}
	return t
}

func (t *table) bytes() int64 {
	return int64(unsafe.Sizeof(*t)) + int64(len(t.recs))*int64(unsafe.Sizeof(record{})) +
		8*int64(len(t.spill))
}

// home is where the search for a hash begins. The bits that chose the shard are not
// used again.
func (t *table) home(hash uint64) uint64 {
	hi, _ := bits.Mul64(hash<<shardBits, uint64(len(t.recs)))
	return hi
}

// find returns the set of a hash, 0 if there is none. There is always a free record
// to end the search.
func (t *table) find(hash uint64) uint64 {
	recs := t.recs
	for i := t.home(hash); ; i++ {
		if i >= uint64(len(recs)) {
			i = 0
		}
		switch recs[i].hash.Load() {
		case hash:
			return recs[i].set.Load()
		case 0:
			return 0
		}
	}
}

// locate returns the record of a hash, or the free one where it belongs.
func (t *table) locate(hash uint64) (rec *record, found bool) {
	for i := t.home(hash); ; i++ {
		if i >= uint64(len(t.recs)) {
			i = 0
		}
		switch t.recs[i].hash.Load() {
		case hash:
			return &t.recs[i], true
		case 0:
			return &t.recs[i], false
		}
	}
}

// records is the hash table of the index: all shards.
type records struct {
	shards [shards]shard
	bytes  atomic.Int64 // of all tables
	blocks atomic.Int64 // sets that are not empty
}

func (r *records) init() {
	empty := newTable(1, 0)
	for i := range r.shards {
		r.shards[i].tab.Store(empty)
	}
}

// table returns the current table for a hash. Lock-free.
func (r *records) table(hash uint64) *table {
	return r.shard(hash).tab.Load()
}

// set puts slot into the set of hash.
func (r *records) set(hash uint64, slot uint32) {
	s := r.shard(hash)
	s.mu.Lock()
	t := s.tab.Load()
	for {
		rec, found := t.locate(hash)
		before := t.live
		if !found {
			if float64(t.keys+1) > loadMost*float64(len(t.recs)) {
				t = r.rebuild(s, t, 1)
				continue
			}
			t.keys++
			t.live++
			rec.set.Store(uint64(slot) + 1)
			rec.hash.Store(hash)
		} else if !t.add(rec, slot) {
			t = r.rebuild(s, t, 0)
			continue
		}
		r.blocks.Add(int64(t.live - before))
		break
	}
	s.mu.Unlock()
}

// unset takes slot out of the set of hash, and gives memory back where it lies idle.
func (r *records) unset(hash uint64, slot uint32) {
	s := r.shard(hash)
	s.mu.Lock()
	if t := r.take(s, hash, slot); len(t.recs) > 16 && t.live*3 < len(t.recs) || t.waste > 64 && t.waste*2 > t.used {
		r.rebuild(s, t, 0)
	}
	s.mu.Unlock()
}

// take takes slot out of the set of hash, in the shard's table, which it returns. The
// caller holds the shard's lock.
func (r *records) take(s *shard, hash uint64, slot uint32) *table {
	t := s.tab.Load()
	if rec, found := t.locate(hash); found {
		before := t.live
		t.remove(rec, slot)
		r.blocks.Add(int64(t.live - before))
	}
	return t
}

// shard returns the shard of a hash.
func (r *records) shard(hash uint64) *shard { return &r.shards[hash>>(64-shardBits)] }

// rebuild publishes a copy of the shard's table without dead records and wasted
// words, each set in its smallest form, with room for more. O(records).
func (r *records) rebuild(s *shard, old *table, more int) *table {
	room := int(float64(old.live+more)/loadLeast) + 2
	need := 0
	old.each(func(_, set uint64) {
		if set&kindMask != kindInline {
			m := old.members(set)
			var top uint32
			for _, slot := range m {
				top = max(top, slot)
			}
			_, n := form(len(m), top)
			need += n
		}
	})
	spill := 0
	if need += old.want; need > 0 {
		spill = need + need/4 + 8
	}
	t := newTable(room, spill)
	t.scratch = old.scratch
	old.each(func(hash, set uint64) {
		yield("before a record is copied")
		rec, _ := t.locate(hash)
		if set&kindMask != kindInline {
			set, _ = t.encode(old.members(set)) // spill was sized for it
		}
		rec.set.Store(set)
		rec.hash.Store(hash)
		t.keys++
		t.live++
	})
	grown := t.bytes()
	if len(old.recs) > 1 {
		grown -= old.bytes()
	}
	r.bytes.Add(grown)
	s.tab.Store(t)
	return t
}

// each calls f for the keys whose sets are not empty.
func (t *table) each(f func(hash, set uint64)) {
	for i := range t.recs {
		if set := t.recs[i].set.Load(); set != 0 {
			f(t.recs[i].hash.Load(), set)
		}
	}
}
