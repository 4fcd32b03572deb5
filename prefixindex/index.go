package prefixindex

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Errors that methods of this package return, wrapped with the offending value.
var (
	// ErrFenced is the answer to a Writer whose epoch has ended: its endpoint
	// left, or a newer Writer was opened for the same cache. The call changed
	// nothing, and no later call on that Writer will.
	ErrFenced = errors.New("prefixindex: epoch ended")

	// ErrOptions means that an option, or a parameter of NewHasher, is out of its range.
	ErrOptions = errors.New("prefixindex: invalid option")

	// ErrArgument means that an argument is out of its range.
	ErrArgument = errors.New("prefixindex: invalid argument")

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
	// 1<<28, by default 1<<20. Set it to what the largest engine's cache holds. Engine
	// blocks may hold none of these, or one that others hold too: of one owner, as many
	// as 8,192, OwnerBlocks, and OwnerBlocks for each attention group are known, and the
	// parts of the blocks held; then those are forgotten that matter least.
	OwnerBlocks int

	// OwnerOrphans is the most engine blocks that one owner may have parked for
	// want of a known parent, in 4 KiB for each: 1 to 1<<28, by default 4,096; -1 parks
	// none.
	OwnerOrphans int

	// Copies is the most physical copies of a block that are counted for one
	// owner, tier and group: 1 to 255, by default 255. A removal takes one. Engines
	// keep, and announce, a physical copy for each request that computed a block
	// beside others; a smaller cap than their number loses blocks that are still
	// there. There is a cap because counters are bytes: CopiesCapped counts what goes
	// beyond.
	Copies int

	// MaxBytes is the most memory that the index needs, membership and what Go's
	// collector has yet to free apart: 1 MiB or more; zero is no bound. Beyond it, the
	// owners that need most give up some of what is parked or expected, then what holds no
	// block, then blocks, as OwnerBlocks has them do.
	MaxBytes int64

	// AssumedTTL ends the credit of blocks that Writer.Insert recorded and nobody
	// routed to since: no lookup that begins at their expiry or later reports them.
	// One that finds so many of them overdue, or their owner so busy, that it would have
	// to wait leaves that owner out (Stats.Withheld). Zero is no expiry: capacity alone
	// decides.
	AssumedTTL time.Duration

	// Clock tells the time; by default time.Now.
	Clock func() time.Time
}

// The bounds of an Index that no option moves.
const (
	maxMembers = 1 << 20
	maxOwners  = maxSlots / int(levels) // each may come to need a slot for each level
	maxRank    = 4095
)

func (o *Options) validate() error {
	switch {
	case o.BlockTokens < minBlockTokens || o.BlockTokens > maxBlockTokens:
		return fmt.Errorf("%w: Options.BlockTokens is %d, want %d to %d", ErrOptions,
			o.BlockTokens, minBlockTokens, maxBlockTokens)
	case o.OwnerBlocks < 1 || o.OwnerBlocks > 1<<28:
		return fmt.Errorf("%w: Options.OwnerBlocks is %d, want 1 to %d", ErrOptions, o.OwnerBlocks, 1<<28)
	case o.OwnerOrphans < -1 || o.OwnerOrphans > 1<<28:
		return fmt.Errorf("%w: Options.OwnerOrphans is %d, want -1 to %d", ErrOptions, o.OwnerOrphans, 1<<28)
	case o.Copies < 1 || o.Copies > 255:
		return fmt.Errorf("%w: Options.Copies is %d, want 1 to 255", ErrOptions, o.Copies)
	case o.MaxBytes != 0 && o.MaxBytes < 1<<20:
		return fmt.Errorf("%w: Options.MaxBytes is %d, want 0, or %d or more", ErrOptions, o.MaxBytes, 1<<20)
	case o.AssumedTTL < 0:
		return fmt.Errorf("%w: Options.AssumedTTL is %v, want 0 or more", ErrOptions, o.AssumedTTL)
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
func (e Endpoint) Slot() int {
	return int(uint32(e) & (1<<31 - 1)) // never negative, though int may have 32 bits
}

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

// String returns the view in a word: "never", "assumed", "live", "gap", "resyncing" or
// "stale".
func (v View) String() string {
	names := [...]string{"never", "assumed", "live", "gap", "resyncing", "stale"}
	if int(v) < len(names) {
		return names[v]
	}
	return "View(" + strconv.Itoa(int(v)) + ")"
}

// Index maps block hashes to the owners that hold the blocks. It is also the
// membership that hands out handles: an Index that nothing is ever stored in costs
// next to nothing, and serves routers by load alone. All methods are safe for
// concurrent use. It comes from New or Restore; the zero Index is of no use, and pointers
// given to its methods and to a Writer's must not be nil.
type Index struct {
	options Options
	hasher  Hasher

	records   records                // who holds which block
	roster    atomic.Pointer[roster] // who is a member, and what slots stand for
	holesMade atomic.Uint64          // see holes.go
	recency   recency                // which blocks lookups ended at
	owned     atomic.Int64           // bytes of all owners' contents
	held      atomic.Int64           // blocks that they hold
	nextDue   atomic.Int64           // when the next of what expires is due (due.go)
	dueMu     sync.Mutex             // held to make nextDue later, or an owner's due earlier
	withheld  atomic.Uint64          // owners that lookups left out
	names     sync.Map               // name: Endpoint

	mu         sync.Mutex // membership: guards what follows, and is held to publish a roster
	slots      numbers
	members    numbers // endpoint slots
	generation uint32
	past       Stats // counters of epochs that have ended

	enforcing sync.Mutex   // held by who enforces Options.MaxBytes
	stuck     atomic.Int64 // bytes up to which that is known to be of no use

	sweeping sync.Mutex  // held by who sweeps
	dead     []*contents // fenced and not yet swept; guarded by mu
}

// New returns an empty index. An error names the option, its value and range.
func New(o Options) (*Index, error) {
	o.BlockTokens = cmp.Or(o.BlockTokens, 16)
	o.OwnerBlocks = cmp.Or(o.OwnerBlocks, 1<<20)
	o.OwnerOrphans = cmp.Or(o.OwnerOrphans, 4096)
	o.Copies = cmp.Or(o.Copies, 255)
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
	if o.OwnerOrphans < 0 {
		o.OwnerOrphans = 0
	}
	ix := &Index{options: o, hasher: hasher}
	ix.slots.max = maxSlots
	ix.members.max = maxMembers
	ix.members.take() // no member has 0
	ix.records.init()
	ix.roster.Store(&emptyRoster)
	ix.nextDue.Store(never)
	return ix, nil
}

// Hasher returns the hasher that the index uses. O(1).
func (ix *Index) Hasher() Hasher { return ix.hasher }
