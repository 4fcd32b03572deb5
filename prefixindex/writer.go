package prefixindex

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// EngineHash is an engine's own name for a block: an opaque handle, unique only
// within one epoch of one owner and group.
type EngineHash uint64

// Span is a run of consecutive blocks of one chain that an engine announced.
// The index reads it during the call only and keeps nothing of it.
type Span struct {
	// Hashes names the blocks in chain order.
	Hashes []EngineHash

	// Parent is the block before Hashes[0]. Without HasParent the span begins a
	// prompt.
	Parent    EngineHash
	HasParent bool

	// Tokens are those of all blocks, BlockTokens for each hash. BlockTokens is
	// the engine's block size, which need not be the index's.
	//
	// Without tokens the span only places blocks: it gives Tier to those of
	// Hashes that the owner has announced before, on whatever tier, and counts
	// the others.
	Tokens      []uint32
	BlockTokens int

	// Scope is that of a span without parent. Others inherit their parent's, and
	// the field is not read.
	Scope Scope

	// Extras begin in the span; At counts from the span's first token. In order.
	Extras []Extra

	// Tier is where the copies live.
	Tier Tier

	// Group is the engine's attention group, 0 to 1<<31-1; copies of different groups are
	// counted apart, and a block is held while one group has it.
	Group int

	// Whole says that the tier gives the span back as a whole or not at all, as
	// chunked offload does. Credit on such a tier comes in multiples of the longest
	// such span that the epoch has seen.
	Whole bool
}

// Removal removes one copy of each block from one tier and group. The index reads
// it during the call only.
type Removal struct {
	Hashes []EngineHash
	Tier   Tier
	Group  int
}

// Writer writes one epoch of one owner. All methods are safe for concurrent use
// and take the owner's lock; Writers of different owners run in parallel. Once
// the epoch has ended they return ErrFenced and change nothing; so do a nil and a zero
// Writer.
type Writer struct {
	ix       *Index
	endpoint Endpoint
	name     string
	rank     int
	ended    atomic.Bool
	view     atomic.Uint32
	bytes    atomic.Int64 // of contents, as far as in Index.owned
	held     atomic.Int64 // blocks, as far as in Index.held
	due      atomic.Int64 // when the next of what expires is due

	assumedDue atomic.Int64 // when the next block of Insert is

	chunk [tiers]atomic.Int64 // longest Whole span seen, in tokens

	batch  sync.Mutex // held while a batch is applied: no snapshot is taken then
	cursor []byte     // guarded by batch

	mu       sync.Mutex // the owner's lock: guards what follows
	contents *contents
	fed      bool // Store was called: the engine says what it holds
	stats    Stats
	merged   bool     // the epoch has ended and Index.past includes stats
	seen     []uint32 // scratch of validate
}

// maxEngineBlockTokens bounds an engine's block size, in tokens.
const maxEngineBlockTokens = 1 << 20

// validate reports the first contradiction in s.
func (w *Writer) validate(s *Span) error {
	if err := validatePlace(s.Tier, s.Group); err != nil {
		return err
	}
	minBlock := 1
	if len(s.Tokens) == 0 {
		minBlock = 0 // not needed to place by name
	}
	switch n := len(s.Tokens); {
	case s.BlockTokens < minBlock || s.BlockTokens > maxEngineBlockTokens:
		return fmt.Errorf("%w: BlockTokens is %d, want %d to %d",
			ErrSpan, s.BlockTokens, minBlock, maxEngineBlockTokens)
	case n > 0 && (n%s.BlockTokens != 0 || n/s.BlockTokens != len(s.Hashes)): // the product may overflow
		return fmt.Errorf("%w: Tokens has %d, want %d for each of %d hashes", ErrSpan, n, s.BlockTokens, len(s.Hashes))
	}
	for _, x := range s.Extras {
		if n := len(s.Tokens); n > 0 && (x.At < 0 || x.At >= n) {
			return fmt.Errorf("%w: Extra.At is %d, want 0 to %d", ErrSpan, x.At, n-1)
		}
	}
	i := -1
	if s.HasParent && len(s.Tokens) > 0 {
		i = slices.Index(s.Hashes, s.Parent)
	}
	if i < 0 {
		i = w.repeated(s.Hashes)
	}
	if i >= 0 {
		return fmt.Errorf("%w: Hashes[%d], %#x, occurs before it or is the parent", ErrSpan, i, uint64(s.Hashes[i]))
	}
	return nil
}

// repeated returns the index of the first hash that occurs before it, or -1.
func (w *Writer) repeated(hashes []EngineHash) int {
	width := bits.Len(uint(2 * len(hashes)))
	w.seen = slices.Grow(w.seen[:0], 1<<width)[:1<<width]
	clear(w.seen)
	for i, hash := range hashes {
		at := uint64(hash) * mixBlock >> (64 - width)
		for w.seen[at] != 0 {
			if hashes[w.seen[at]-1] == hash {
				return i
			}
			at = (at + 1) & (1<<width - 1)
		}
		w.seen[at] = uint32(i + 1)
	}
	return -1
}

func validatePlace(t Tier, group int) error {
	if t > TierShared {
		return fmt.Errorf("%w: Tier is %d, want 0 to %d", ErrSpan, t, TierShared)
	}
	if group < 0 || group > math.MaxInt32 {
		return fmt.Errorf("%w: Group is %d, want 0 to %d", ErrSpan, group, math.MaxInt32)
	}
	return nil
}

// Writer begins a new epoch of the cache of one data-parallel rank (0 to 4,095)
// of e, and ends the one before: once Writer has returned, no lookup reports
// what that held. The new epoch is empty and its view is ViewNever. Errors are
// ErrNotJoined, ErrFull, and a rank out of range.
//
// O(1) until the fence, and a word for each 64 members; sweeping what the old epoch
// held is done in steps by later writes.
func (ix *Index) Writer(e Endpoint, rank int) (*Writer, error) {
	w, err := ix.open(e, rank, true)
	ix.sweep(sweepStep)
	return w, err
}

// begin takes the lock, checks the fence and sweeps out what has expired by now, which
// it returns. Unless there is an error, the caller gives the lock back.
func (w *Writer) begin() (now time.Time, err error) {
	if w == nil || w.ix == nil {
		return now, fmt.Errorf("%w: there was none, a Writer comes from Index.Writer", ErrFenced)
	}
	now, ok := w.enter()
	if !ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		return now, w.fenced()
	}
	return now, nil
}

// enter is begin that does not mind coming too late.
func (w *Writer) enter() (now time.Time, ok bool) {
	w.ix.sweep(sweepStep)
	now = w.ix.options.Clock()
	w.mu.Lock()
	yield("locked")
	if w.ended.Load() {
		w.mu.Unlock()
		return now, false
	}
	w.contents.expire(now)
	return now, true
}

// enter is Writer.enter for the owner's present epoch, or its first.
func (ix *Index) enter(e Endpoint, rank int) (w *Writer, now time.Time, err error) {
	for ok := false; !ok; { // else a newer epoch began meanwhile, or the endpoint left
		if w, err = ix.open(e, rank, false); err != nil {
			return nil, now, err
		}
		now, ok = w.enter()
	}
	return w, now, nil
}

// mostScratch is how many elements of scratch are kept from one write to the next.
const mostScratch = 4096

// released returns scratch that nothing of the caller's is left in.
func released[T any](scratch []T) []T {
	if cap(scratch) > mostScratch {
		return nil
	}
	clear(scratch[:cap(scratch)])
	return scratch[:0]
}

// done gives the lock back after a write.
func (w *Writer) done() {
	if cap(w.seen) > mostScratch {
		w.seen = nil
	}
	w.account()
	w.checkInvariants()
	w.mu.Unlock()
	w.ix.enforce()
}

// fenced counts a call that came too late.
func (w *Writer) fenced() error {
	w.stats.Fenced++
	if w.merged {
		w.ix.mu.Lock()
		w.ix.past.Fenced++
		w.ix.mu.Unlock()
	}
	return fmt.Errorf("%w: %q rank %d", ErrFenced, w.name, w.rank)
}

func (w *Writer) currentView() View { return View(w.view.Load()) }

// Store records that the engine has cached the blocks of s. Blocks whose parent
// the epoch does not know are parked. Errors are ErrFenced and ErrSpan: tokens
// that are not BlockTokens for each hash, a hash that occurs twice or is its own
// parent, an extra outside the span, a group, tier or block size out of range.
//
// The first Store of an epoch ends what Insert recorded in it: from then on the engine
// says what it holds, and nothing would ever take those blocks back.
//
// O(tokens); allocates only to grow. The first span on a tier beyond GPU costs
// O(blocks held) besides.
func (w *Writer) Store(s *Span) error {
	if _, err := w.begin(); err != nil {
		return err
	}
	defer w.done()
	if err := w.validate(s); err != nil {
		w.stats.Malformed++
		return err
	}
	c := w.contents
	if !w.fed {
		w.fed = true
		c.endAssumed()
	}
	if s.Whole {
		if n := int64(c.whole(s)); n > w.chunk[s.Tier].Load() {
			w.chunk[s.Tier].Store(n)
		}
	}
	if len(s.Tokens) > 0 {
		c.store(s)
		c.pieces, c.extras, c.spanned = released(c.pieces), released(c.extras), released(c.spanned)
		if cap(c.ahead) > mostScratch {
			c.ahead = nil
		}
	} else {
		c.locate(s)
	}
	c.trim()
	return nil
}

// Insert records that the first blocks blocks of p are in the cache, or all full
// blocks if blocks is negative or larger than that. It is for tests and for
// engines without events: such blocks have no engine hash, the least recently
// inserted go first once the owner is full (a prompt's last before its first),
// and they expire. A first Insert turns ViewNever to ViewAssumed.
//
// O(blocks); p belongs to the caller until it returns.
func (w *Writer) Insert(p *Prompt, blocks int) error {
	now, err := w.begin()
	if err != nil {
		return err
	}
	defer w.done()
	w.insert(p, blocks, now)
	return nil
}

// Insert is Writer.Insert for routers: it records what was routed to an owner that
// sends no events, opening its epoch if it has none. Errors are ErrNotJoined,
// ErrFull, a rank out of range, and ErrEvents if Store was ever called in this epoch.
// Rank -1, a pick's where nothing was held, is taken as 0.
//
// O(blocks); takes the owner's lock.
func (ix *Index) Insert(e Endpoint, rank int, p *Prompt, blocks int) error {
	w, now, err := ix.enter(e, rank)
	if err != nil {
		return err
	}
	if w.fed {
		w.mu.Unlock()
		return fmt.Errorf("%w: %q rank %d", ErrEvents, w.name, rank)
	}
	w.insert(p, blocks, now)
	w.done()
	return nil
}

func (w *Writer) insert(p *Prompt, n int, now time.Time) {
	if full := p.blocks(w.ix.hasher); n < 0 || n > full {
		n = full
	}
	w.view.CompareAndSwap(uint32(ViewNever), uint32(ViewAssumed))
	if n > 0 {
		hashes := p.grow(w.ix.hasher, n)[:n]
		if ttl := w.ix.options.AssumedTTL; ttl > 0 {
			w.contents.dueBy(now.Add(ttl).UnixNano())
		}
		w.contents.assume(p.root, hashes, now)
		w.contents.trim()
		w.contents.due()
	}
}

// Remove takes one copy away for each hash. A hash of which nothing is held is
// counted, and does not stop the others. Errors are ErrFenced and ErrSpan: a group or tier
// out of range.
//
// O(hashes), no allocation.
func (w *Writer) Remove(r *Removal) error {
	if _, err := w.begin(); err != nil {
		return err
	}
	defer w.done()
	if err := validatePlace(r.Tier, r.Group); err != nil {
		w.stats.Malformed++
		return err
	}
	c := w.contents
	c.remove(r)
	c.trim()
	return nil
}

// Clear empties the cache on all tiers and groups, parked blocks included. The
// epoch and its view go on.
//
// O(1) until the fence; sweeping is done in steps by later writes.
func (w *Writer) Clear() error {
	if _, err := w.begin(); err != nil {
		return err
	}
	defer w.done()
	dropped := len(w.contents.orphans.byName)
	old := w.contents
	if err := w.ix.replace(w); err != nil {
		return err
	}
	old.counted = true
	w.stats.ParkedDropped += uint64(dropped)
	w.stats.Clears++
	w.contents.due()
	return nil
}

// SetView says how far the owner's picture can be trusted from now on. Errors are
// ErrFenced, and a view that is none.
//
// O(1).
func (w *Writer) SetView(v View) error {
	if v > ViewStale {
		return fmt.Errorf("%w: view is %d, want 0 to %d", ErrArgument, v, ViewStale)
	}
	if _, err := w.begin(); err != nil {
		return err
	}
	defer w.done()
	w.view.Store(uint32(v))
	return nil
}

// Stats returns counts of this epoch. It works after the epoch has ended.
//
// O(1), and the sweep of what has expired, whose memory it gives back.
func (w *Writer) Stats() Stats {
	if w == nil || w.ix == nil {
		return Stats{}
	}
	now := w.ix.options.Clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Load() {
		s := w.stats
		if !w.contents.counted {
			s.ParkedDropped += uint64(len(w.contents.orphans.byName))
		}
		return s
	}
	w.tidy(now)
	s := w.stats
	s.Endpoints, s.Owners = 1, 1
	w.contents.measure(&s)
	s.Blocks, s.Bytes = s.Holdings, w.contents.bytes()
	return s
}

// tidy ends what has expired, and gives back the memory of that and of what lookups have
// ended.
func (w *Writer) tidy(now time.Time) {
	w.contents.expire(now)
	w.contents.trim()
	w.account()
}

// measure adds what is held now.
func (c *contents) measure(s *Stats) {
	s.Holdings += c.holdings()
	s.HoldingsGPU += c.held[levelGPU]
	if c.distinct(levelCPU) {
		s.HoldingsCPU += c.held[levelCPU] - c.held[levelGPU]
	}
	s.Orphans += len(c.orphans.byName)
	s.Handles += c.handles + len(c.orphans.byName)
}
