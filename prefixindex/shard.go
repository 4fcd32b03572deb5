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

// record says which slots hold a block: one at least.
type record struct {
	hash atomic.Uint64 // BlockHash; 0: free
	set  atomic.Uint64 // owner set
}

// table is one generation of a shard: records, probed linearly, and the words of the
// sets that do not fit into a record. It holds no pointers but these two. Only the
// shard's lock holder writes, and only in ways that a reader may see half of:
//
//   - A free record's set, which may be of another block yet, is written before its key.
//   - A set changes by one word at a time (ownerset.go).
//   - When a set has become empty, records behind it move up to close the gap. Each is in
//     both places before it leaves the old one, and moved counts what may lead a reader
//     astray: what it has found stands if the count is what it was before.
//   - No spill word gets another use. When records, spill words or garbage run out of
//     bounds, a rebuilt copy is published in tab and this one is left as it is: a reader
//     that still holds it sees every set as of that instant, which lies within its call.
//     The garbage collector frees it after.
type table struct {
	recs  []record
	spill []atomic.Uint64
	moved atomic.Uint64

	// For writers.
	live    int      // records in use
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

// findTries is how often a search is repeated because records have moved meanwhile:
// that is, somebody has removed a block from the same shard just then.
const findTries = 16

// find returns the set of a hash, 0 if there is none, or if records move at every try.
// There is always a free record to end the search.
func (t *table) find(hash uint64) uint64 {
	recs := t.recs
	for range findTries {
		before := t.moved.Load()
		set := uint64(0)
		for i := t.home(hash); ; i++ {
			if i >= uint64(len(recs)) {
				i = 0
			}
			key := recs[i].hash.Load()
			yield("record: key read")
			if key == hash {
				set = recs[i].set.Load()
			}
			if key == 0 || set != 0 { // an empty set is about to be filled, or was moved
				break
			}
		}
		if t.moved.Load() == before {
			return set
		}
	}
	return 0
}

// peek reads the record where the search for a hash begins.
func (r *records) peek(hash uint64) uint64 {
	t := r.table(hash)
	return t.recs[t.home(hash)].hash.Load()
}

// locate returns where the record of a hash is, or the free one that is to be its.
func (t *table) locate(hash uint64) (i uint64, found bool) {
	for i = t.home(hash); ; i++ {
		if i >= uint64(len(t.recs)) {
			i = 0
		}
		switch t.recs[i].hash.Load() {
		case hash:
			return i, true
		case 0:
			return i, false
		}
	}
}

// vacate takes a record out whose set has become empty, and closes the gap: each record
// behind it whose search would come by moves up.
func (t *table) vacate(empty uint64) {
	n := uint64(len(t.recs))
	behind := func(i, j uint64) uint64 { // how far j is behind i
		if j < i {
			j += n
		}
		return j - i
	}
	gap := empty
	for i := gap; ; {
		if i++; i >= n {
			i = 0
		}
		from, to := &t.recs[i], &t.recs[gap]
		hash := from.hash.Load()
		if hash == 0 {
			break
		}
		if behind(t.home(hash), i) < behind(gap, i) {
			continue
		}
		if gap == empty { // here others still find the old key: its set must be empty until counted
			to.hash.Store(hash)
			yield("record: key moved")
			t.moved.Add(1)
			yield("record: move counted")
			to.set.Store(from.set.Load())
		} else {
			to.set.Store(from.set.Load())
			yield("record: set moved")
			to.hash.Store(hash)
		}
		yield("record: record moved")
		t.moved.Add(1) // nobody who begins now looks for this key behind to
		gap = i
	}
	yield("record: before a record is free")
	t.recs[gap].hash.Store(0)
	if gap == empty {
		t.moved.Add(1)
	}
	t.live--
}

// records is the hash table of the index: all shards.
type records struct {
	shards [shards]shard
	bytes  atomic.Int64 // of all tables
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

// blocks counts the records.
func (r *records) blocks() int {
	n := 0
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += s.tab.Load().live
		s.mu.Unlock()
	}
	return n
}

// set puts slot into the set of hash, and reports false if it was there.
func (r *records) set(hash uint64, slot uint32) bool {
	s := r.shard(hash)
	s.mu.Lock()
	news := true
	for t := s.tab.Load(); ; {
		i, found := t.locate(hash)
		if found {
			if t.has(t.recs[i].set.Load(), slot) {
				news = false
				break
			}
			if t.add(&t.recs[i], slot) {
				break
			}
			t = r.rebuild(s, t, 0)
		} else {
			if float64(t.live+1) <= loadMost*float64(len(t.recs)) {
				t.recs[i].set.Store(uint64(slot) + 1)
				yield("record: before a key is written")
				t.recs[i].hash.Store(hash)
				t.live++
				break
			}
			t = r.rebuild(s, t, 1)
		}
	}
	s.mu.Unlock()
	return news
}

// has reports whether slot is in the set of hash, for a writer: find may miss it.
func (r *records) has(hash uint64, slot uint32) bool {
	s := r.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tab.Load()
	i, found := t.locate(hash)
	return found && t.has(t.recs[i].set.Load(), slot)
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
	if i, found := t.locate(hash); found {
		if rec := &t.recs[i]; t.remove(rec, slot) && rec.set.Load() == 0 {
			t.vacate(i)
		}
	}
	return t
}

// shard returns the shard of a hash.
func (r *records) shard(hash uint64) *shard { return &r.shards[hash>>(64-shardBits)] }

// rebuild publishes a copy of the shard's table without wasted words, each set in its
// smallest form, with room for more. O(records).
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
		yield("record: before a record is copied")
		i, _ := t.locate(hash)
		if set&kindMask != kindInline {
			set, _ = t.encode(old.members(set)) // spill was sized for it
		}
		t.recs[i].set.Store(set)
		t.recs[i].hash.Store(hash)
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

// each calls f for each record.
func (t *table) each(f func(hash, set uint64)) {
	for i := range t.recs {
		if hash := t.recs[i].hash.Load(); hash != 0 {
			f(hash, t.recs[i].set.Load())
		}
	}
}
