package prefixindex

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Errors that methods of this package return, wrapped with the offending value.
var (
	// ErrFenced is the answer to a Writer whose epoch has ended: its endpoint
	// left, or a newer Writer was opened for the same cache. The call changed
	// nothing, and no later call on that Writer will.
	ErrFenced = errors.New("prefixindex: epoch ended")

	// ErrNotJoined means that the handle does not belong to a current member.
	ErrNotJoined = errors.New("prefixindex: endpoint has not joined")

	// ErrFull means that the index takes no more owners.
	ErrFull = errors.New("prefixindex: too many owners")

	// ErrSpan means that a span or removal contradicts itself. Nothing of it was
	// applied.
	ErrSpan = errors.New("prefixindex: malformed span")

	// ErrEvents means that the owner is fed by its engine's events, which know
	// better than what was routed there.
	ErrEvents = errors.New("prefixindex: owner is fed by events")
)

// Options configures an Index. The zero Options are good defaults.
type Options struct {
	// BlockTokens is the number of tokens in a block: 4 to 1,024, by default 16.
	// It need not be the engines' block size, which may be smaller or larger and
	// may differ between engines; a divisor of theirs loses nothing.
	BlockTokens int

	// Seed keys the block hashes. Zero draws a random one; give one only where
	// processes exchange hashes.
	Seed uint64

	// OwnerBlocks is the most blocks that one owner is credited with: 1 to
	// 1<<28, by default 1<<20. Set it to what the largest engine's cache holds.
	OwnerBlocks int

	// OwnerOrphans is the most engine blocks that one owner may have parked for
	// want of a known parent: 1 to 1<<28, by default 4,096; -1 parks none.
	OwnerOrphans int

	// Copies is the most physical copies of a block that are counted for one
	// owner, tier and group: 1 to 255, by default 2. A removal takes one. The cap
	// is what lets a count heal that an engine's repeated announcements inflated.
	Copies int

	// AssumedTTL ends the credit of blocks that Writer.Insert recorded and nobody
	// routed to since: no lookup that begins at their expiry or later reports them.
	// Stats counts them until then or until the next write of their owner. Zero is no
	// expiry: capacity alone decides.
	AssumedTTL time.Duration

	// Clock tells the time; by default time.Now.
	Clock func() time.Time
}

// The bounds of an Index that no option moves.
const (
	maxMembers = 1 << 20
	maxOwners  = 1 << 16
	maxRank    = 4095
)

func (o *Options) validate() error {
	switch {
	case o.BlockTokens < minBlockTokens || o.BlockTokens > maxBlockTokens:
		return fmt.Errorf("prefixindex: Options.BlockTokens is %d, want %d to %d",
			o.BlockTokens, minBlockTokens, maxBlockTokens)
	case o.OwnerBlocks < 1 || o.OwnerBlocks > 1<<28:
		return fmt.Errorf("prefixindex: Options.OwnerBlocks is %d, want 1 to %d", o.OwnerBlocks, 1<<28)
	case o.OwnerOrphans < -1 || o.OwnerOrphans > 1<<28:
		return fmt.Errorf("prefixindex: Options.OwnerOrphans is %d, want -1 to %d", o.OwnerOrphans, 1<<28)
	case o.Copies < 1 || o.Copies > 255:
		return fmt.Errorf("prefixindex: Options.Copies is %d, want 1 to 255", o.Copies)
	case o.AssumedTTL < 0:
		return fmt.Errorf("prefixindex: Options.AssumedTTL is %v, want 0 or more", o.AssumedTTL)
	}
	return nil
}

// Endpoint is the handle of a member: a slot and a generation. Handles of one
// index are equal if they are of the same life of the same endpoint, and of two
// with one slot the larger is the later. The zero Endpoint is none.
type Endpoint uint64

// Slot returns a small number that no other current endpoint of the index has,
// for tables of one's own. Slots are used again after an endpoint has left; the
// handle as a whole is not. Slot of the zero Endpoint is 0, which no member has.
//
// O(1).
func (e Endpoint) Slot() int { return int(uint32(e)) }

// Tier is where a copy of a block lives.
type Tier uint8

// The tiers, nearest first. A match counts a tier together with all nearer ones.
const (
	TierGPU    Tier = iota
	TierCPU         // host memory
	TierDisk        // storage of the endpoint
	TierShared      // storage that several endpoints reach
)

// View is how far the picture of an owner can be trusted.
type View uint8

// The views.
const (
	ViewNever     View = iota // nothing was ever heard of this owner
	ViewAssumed               // no events by design: what was routed there is assumed to be cached
	ViewLive                  // events have arrived without a gap
	ViewGap                   // some were lost for good: blocks may be missing, or remain by mistake
	ViewResyncing             // some were lost and are being fetched again
	ViewStale                 // no word for too long
)

// Index maps block hashes to the owners that hold the blocks. It is also the
// membership that hands out handles: an Index that nothing is ever stored in costs
// next to nothing, and serves routers by load alone. All methods are safe for
// concurrent use.
type Index struct {
	options Options
	hasher  Hasher

	// One lock guards everything below, and what owners hold.
	mu     sync.RWMutex
	slots  []slot // by Endpoint.Slot; the first is of no member
	free   []int  // slots without a member
	names  map[string]*member
	owners int
	blocks map[BlockHash]int // how many owners hold a block
	past   Stats             // counters of epochs that have ended
}

// slot is a member's place, or a place that is free for one.
type slot struct {
	member     *member
	generation uint32 // of the member, or of the last one
}

// member is an endpoint from its joining to its leaving.
type member struct {
	endpoint Endpoint
	name     string
	owners   []*owner // by rank
}

// owner is one KV cache. Its epoch is the current one.
type owner struct {
	member *member
	rank   int
	epoch  *epoch
}

// New returns an empty index. An error names the option, its value and range.
func New(o Options) (*Index, error) {
	o.BlockTokens = cmp.Or(o.BlockTokens, 16)
	o.OwnerBlocks = cmp.Or(o.OwnerBlocks, 1<<20)
	o.OwnerOrphans = cmp.Or(o.OwnerOrphans, 4096)
	o.Copies = cmp.Or(o.Copies, 2)
	if err := o.validate(); err != nil {
		return nil, err
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	hasher, err := NewHasher(o.BlockTokens, o.Seed)
	if err != nil {
		return nil, err
	}
	return &Index{
		options: o,
		hasher:  hasher,
		slots:   make([]slot, 1),
		names:   make(map[string]*member),
		blocks:  make(map[BlockHash]int),
	}, nil
}

// Hasher returns the hasher that the index uses. O(1).
func (ix *Index) Hasher() Hasher { return ix.hasher }

// Join makes name a member and returns its handle; for a current member that is
// the handle it has. A name that joins after it left begins a new generation,
// with nothing cached. Use a name that a replaced server does not inherit where
// there is one, such as a pod UID: an address may come back as another server. A
// host that learns of endpoints by address keeps the map from one to the other.
//
// O(1). Errors are ErrFull beyond a million members, and an empty name.
func (ix *Index) Join(name string) (Endpoint, error) {
	if name == "" {
		return 0, errors.New("prefixindex: the name of an endpoint is empty")
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if m := ix.names[name]; m != nil {
		return m.endpoint, nil
	}
	if len(ix.names) >= maxMembers {
		return 0, fmt.Errorf("%w: %q would be member %d", ErrFull, name, maxMembers+1)
	}
	var n int
	if last := len(ix.free) - 1; last >= 0 {
		n, ix.free = ix.free[last], ix.free[:last]
	} else {
		n = len(ix.slots)
		ix.slots = append(ix.slots, slot{})
	}
	s := &ix.slots[n]
	s.generation++
	s.member = &member{endpoint: Endpoint(s.generation)<<32 | Endpoint(n), name: name}
	ix.names[name] = s.member
	return s.member.endpoint, nil
}

// Leave ends the endpoint's generation: once it has returned, no lookup names
// the endpoint and its Writers return ErrFenced. A handle of no current member
// changes nothing.
//
// O(own blocks).
func (ix *Index) Leave(e Endpoint) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if m := ix.member(e); m != nil {
		ix.leave(m)
	}
}

func (ix *Index) leave(m *member) {
	for _, o := range m.owners {
		ix.end(o.epoch)
	}
	ix.owners -= len(m.owners)
	delete(ix.names, m.name)
	n := m.endpoint.Slot()
	ix.slots[n].member = nil
	if ix.slots[n].generation < 1<<32-1 { // else no later handle could tell
		ix.free = append(ix.free, n)
	}
}

// end fences an epoch.
func (ix *Index) end(e *epoch) {
	e.ended = true
	e.empty()
	ix.past.add(&e.stats)
}

// member returns the current member that e is the handle of, or nil.
func (ix *Index) member(e Endpoint) *member {
	if n := e.Slot(); n < len(ix.slots) {
		if m := ix.slots[n].member; m != nil && m.endpoint == e {
			return m
		}
	}
	return nil
}

// owner returns the owner of a rank, or where in m.owners it would be.
func (m *member) owner(rank int) (*owner, int) {
	at, ok := slices.BinarySearchFunc(m.owners, rank, func(o *owner, rank int) int { return o.rank - rank })
	if !ok {
		return nil, at
	}
	return m.owners[at], at
}

// hold and release keep count of the owners of a block.
func (ix *Index) hold(b BlockHash) { ix.blocks[b]++ }

func (ix *Index) release(b BlockHash) {
	if ix.blocks[b]--; ix.blocks[b] == 0 {
		delete(ix.blocks, b)
	}
}

// Retain makes every endpoint leave whose name is not in names, and reports how
// many left. It lets nobody join.
//
// O(members + names), and O(own blocks) of each that leaves.
func (ix *Index) Retain(names []string) int {
	stay := make(map[string]bool, len(names))
	for _, name := range names {
		stay[name] = true
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	left := 0
	for name, m := range ix.names {
		if !stay[name] {
			ix.leave(m)
			left++
		}
	}
	return left
}

// Find returns the handle of a current member.
//
// O(1), no allocation.
func (ix *Index) Find(name string) (Endpoint, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if m := ix.names[name]; m != nil {
		return m.endpoint, true
	}
	return 0, false
}

// Name returns the name under which e joined, or "" if it is no current member.
//
// O(1), no allocation.
func (ix *Index) Name(e Endpoint) string {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if m := ix.member(e); m != nil {
		return m.name
	}
	return ""
}

// Endpoints yields the current members and their names, in no order.
//
// O(members). It sees a membership of some instant of the call to Endpoints.
func (ix *Index) Endpoints() iter.Seq2[Endpoint, string] {
	ix.mu.RLock()
	members := make([]*member, 0, len(ix.names))
	for _, m := range ix.names {
		members = append(members, m)
	}
	ix.mu.RUnlock()
	return func(yield func(Endpoint, string) bool) {
		for _, m := range members {
			if !yield(m.endpoint, m.name) {
				return
			}
		}
	}
}

// View returns what the feeder of an owner last said of it; ViewNever for an
// owner that has no Writer.
//
// O(log ranks), no allocation.
func (ix *Index) View(e Endpoint, rank int) View {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if m := ix.member(e); m != nil {
		if o, _ := m.owner(rank); o != nil {
			return o.epoch.view
		}
	}
	return ViewNever
}

// Insert is Writer.Insert for routers: it records what was routed to an owner that
// sends no events, opening its epoch if it has none. Errors are ErrNotJoined,
// ErrFull, a rank out of range, and ErrEvents if Store was ever called in this epoch.
//
// O(blocks).
func (ix *Index) Insert(e Endpoint, rank int, p *Prompt, blocks int) error {
	now := ix.options.Clock()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	o, err := ix.open(e, rank, false)
	if err != nil {
		return err
	}
	if o.epoch.fed {
		return fmt.Errorf("%w: %q rank %d", ErrEvents, o.member.name, rank)
	}
	o.epoch.expire(now)
	o.epoch.insert(p, blocks, now)
	return nil
}

// open returns the owner of a rank of e: with a new epoch if fresh, else with the one
// it has, if it has one.
func (ix *Index) open(e Endpoint, rank int, fresh bool) (*owner, error) {
	m := ix.member(e)
	if m == nil {
		return nil, fmt.Errorf("%w: handle %#x", ErrNotJoined, uint64(e))
	}
	if rank < 0 || rank > maxRank {
		return nil, fmt.Errorf("prefixindex: rank is %d, want 0 to %d", rank, maxRank)
	}
	o, at := m.owner(rank)
	if o != nil {
		if fresh {
			ix.end(o.epoch)
			o.epoch = newEpoch(ix, o)
		}
		return o, nil
	}
	if ix.owners >= maxOwners {
		return nil, fmt.Errorf("%w: %q rank %d would be owner %d", ErrFull, m.name, rank, maxOwners+1)
	}
	o = &owner{member: m, rank: rank}
	o.epoch = newEpoch(ix, o)
	m.owners = slices.Insert(m.owners, at, o)
	ix.owners++
	return o, nil
}

// Stats returns counts of what the index holds and has done. O(owners), and what has
// expired.
func (ix *Index) Stats() Stats {
	now := ix.options.Clock()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	s := ix.past
	for _, m := range ix.names {
		for _, o := range m.owners {
			e := o.epoch
			e.expire(now)
			s.add(&e.stats)
			s.Holdings += e.holdings
			s.Handles += len(e.handles)
			s.Orphans += e.orphans
		}
	}
	s.Endpoints, s.Owners, s.Blocks = len(ix.names), ix.owners, len(ix.blocks)
	return s
}

// Stats describes an Index, or, from Writer.Stats, one epoch of one owner.
// Counters only grow within what they describe, except the first group.
type Stats struct {
	Endpoints int // members
	Owners    int // owners with a current Writer
	Blocks    int // distinct block hashes held; of an owner: blocks it holds on any tier
	Holdings  int // sum over owners of the blocks each holds on any tier
	Handles   int // engine blocks that a removal or a child could name, parked ones included
	Orphans   int // engine blocks parked for want of their parent

	Stored         uint64 // engine blocks stored, first copies
	Copies         uint64 // further copies counted
	CopiesCapped   uint64 // copies beyond Options.Copies, not counted
	Inserted       uint64 // blocks recorded without events, the first time
	Removed        uint64 // engine blocks removed, a copy each
	RemovedUnknown uint64 // removals that named nothing held
	Placed         uint64 // blocks given a further tier by name alone
	PlacedUnknown  uint64 // such names that nothing was known of
	Parked         uint64 // engine blocks parked
	Adopted        uint64 // parked blocks whose parent appeared
	ParkedDropped  uint64 // parked blocks given up: no room, or the epoch ended
	Conflicts      uint64 // a known engine hash announced with other contents; the old ones stay
	Evicted        uint64 // blocks that Options.OwnerBlocks pushed out
	Expired        uint64 // blocks that Options.AssumedTTL ended
	Malformed      uint64 // spans and removals refused with ErrSpan
	Fenced         uint64 // calls refused with ErrFenced
	Clears         uint64 // caches emptied by Writer.Clear
	Epochs         uint64 // Writers opened
}

// add adds the counters of t.
func (s *Stats) add(t *Stats) {
	s.Stored += t.Stored
	s.Copies += t.Copies
	s.CopiesCapped += t.CopiesCapped
	s.Inserted += t.Inserted
	s.Removed += t.Removed
	s.RemovedUnknown += t.RemovedUnknown
	s.Placed += t.Placed
	s.PlacedUnknown += t.PlacedUnknown
	s.Parked += t.Parked
	s.Adopted += t.Adopted
	s.ParkedDropped += t.ParkedDropped
	s.Conflicts += t.Conflicts
	s.Evicted += t.Evicted
	s.Expired += t.Expired
	s.Malformed += t.Malformed
	s.Fenced += t.Fenced
	s.Clears += t.Clears
	s.Epochs += t.Epochs
}
