package prefixindex

import (
	"errors"
	"iter"
	"time"
)

var errUnbuilt = errors.New("prefixindex: not built")

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

	// ErrSpan means that a span contradicts itself. Nothing of it was applied.
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
	// want of a known parent: by default 4,096; -1 parks none.
	OwnerOrphans int

	// Copies is the most physical copies of a block that are counted for one
	// owner, tier and group: 1 to 255, by default 2. A removal takes one. The cap
	// is what lets a count heal that an engine's repeated announcements inflated.
	Copies int

	// AssumedTTL ends the credit of blocks that Writer.Insert recorded and nobody
	// routed to since. Zero is no expiry: capacity alone decides.
	AssumedTTL time.Duration

	// Clock tells the time; by default time.Now.
	Clock func() time.Time
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
type Index struct{}

// New returns an empty index. An error names the option, its value and range.
func New(o Options) (*Index, error) { return nil, errUnbuilt }

// Hasher returns the hasher that the index uses. O(1).
func (ix *Index) Hasher() Hasher { return Hasher{} }

// Join makes name a member and returns its handle; for a current member that is
// the handle it has. A name that joins after it left begins a new generation,
// with nothing cached. Use a name that a replaced server does not inherit where
// there is one, such as a pod UID: an address may come back as another server. A
// host that learns of endpoints by address keeps the map from one to the other.
//
// O(1). It takes the lock of the membership, which no lookup takes.
func (ix *Index) Join(name string) (Endpoint, error) { return 0, errUnbuilt }

// Leave ends the endpoint's generation: once it has returned, no lookup names
// the endpoint and its Writers return ErrFenced. A handle of no current member
// changes nothing.
//
// O(ranks) until the fence; the memory follows in steps, O(own blocks) in all.
func (ix *Index) Leave(e Endpoint) {}

// Retain makes every endpoint leave whose name is not in names, and reports how
// many left. It lets nobody join.
//
// O(members + names).
func (ix *Index) Retain(names []string) int { return 0 }

// Find returns the handle of a current member.
//
// O(1), lock-free, no allocation.
func (ix *Index) Find(name string) (Endpoint, bool) { return 0, false }

// Name returns the name under which e joined, or "" if it is no current member.
//
// O(1), lock-free, no allocation.
func (ix *Index) Name(e Endpoint) string { return "" }

// Endpoints yields the current members and their names, in no order.
//
// O(members). It sees a membership of some instant of the call to Endpoints.
func (ix *Index) Endpoints() iter.Seq2[Endpoint, string] { return nil }

// View returns what the feeder of an owner last said of it; ViewNever for an
// owner that has no Writer.
//
// O(1), lock-free, no allocation.
func (ix *Index) View(e Endpoint, rank int) View { return ViewNever }

// Insert is Writer.Insert for routers: it records what was routed to an owner that
// sends no events, opening its epoch if it has none. Errors are ErrNotJoined,
// ErrFull, and ErrEvents if Store was ever called in this epoch.
//
// O(blocks); takes the owner's lock.
func (ix *Index) Insert(e Endpoint, rank int, p *Prompt, blocks int) error { return errUnbuilt }

// Match fills m with how much of p each owner holds, hashing as many of p's
// blocks as the search needs. What m held before is gone.
//
// It runs on the caller's goroutine. Safe beside every other method; p and m
// belong to the caller until it returns. No allocation once p and m have grown.
func (ix *Index) Match(p *Prompt, m *Match) {}

// Stats returns counts of what the index holds and has done. O(owners).
func (ix *Index) Stats() Stats { return Stats{} }

// Stats describes an Index, or, from Writer.Stats, one epoch of one owner.
// Counters only grow within what they describe, except the first group.
type Stats struct {
	Endpoints int // members
	Owners    int // owners with a current Writer
	Blocks    int // distinct block hashes held; of an owner: blocks it holds on any tier
	Holdings  int // sum over owners of the blocks each holds on any tier
	Handles   int // engine blocks that a removal or a child could name
	Orphans   int // engine blocks parked for want of their parent

	Stored         uint64 // engine blocks stored, first copies
	Copies         uint64 // further copies counted
	CopiesCapped   uint64 // copies beyond Options.Copies, not counted
	Inserted       uint64 // blocks recorded without events
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
	Malformed      uint64 // spans refused with ErrSpan
	Fenced         uint64 // calls refused with ErrFenced
	Clears         uint64 // caches emptied by Writer.Clear
	Epochs         uint64 // Writers opened
}
