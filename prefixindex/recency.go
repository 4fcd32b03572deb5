package prefixindex

import "sync/atomic"

const (
	recencyBits  = 16
	recencyWords = 1 << recencyBits / 64

	// recencyEvery is how many lookups of one Match there are to each that marks.
	recencyEvery = 8

	// A mark lives through at least one eviction for every recencyLife blocks held by all
	// owners together: where they evict alike, each through that share of its own.
	recencyLife = 2
)

// recency remembers, coarsely, which blocks lookups ended at: what goes on being
// matched is not evicted, and no lookup writes to what others read but to set a bit
// that is not set yet. Blocks share bits, which protects a few too many. There are two
// generations; eviction looks at both, and starts a new one now and then.
type recency struct {
	marks   [2][recencyWords]atomic.Uint64
	newest  atomic.Uint32
	evicted atomic.Int64 // since the newest began
}

func recencyBit(hash uint64) (word uint64, bit uint64) {
	hash = hash * mixBlock >> (64 - recencyBits)
	return hash >> 6, 1 << (hash & 63)
}

// mark notes that a lookup found the block of a hash last.
func (r *recency) mark(hash uint64) {
	w, bit := recencyBit(hash)
	if m := &r.marks[r.newest.Load()&1][w]; m.Load()&bit == 0 {
		m.Or(bit)
	}
}

func (r *recency) marked(hash uint64) bool {
	w, bit := recencyBit(hash)
	return (r.marks[0][w].Load()|r.marks[1][w].Load())&bit != 0
}

// age counts an eviction, where all owners hold held blocks.
func (r *recency) age(held int64) {
	if r.evicted.Add(1) > max(held/recencyLife, 64) {
		r.turn()
	}
}

// turn begins a generation, in place of the older.
func (r *recency) turn() {
	r.evicted.Store(0)
	older := (r.newest.Load() + 1) & 1
	for i := range r.marks[older] {
		r.marks[older][i].Store(0)
	}
	r.newest.Store(older)
}
