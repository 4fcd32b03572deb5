package prefixindex

import (
	"fmt"
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

	// Group is the engine's attention group; copies of different groups are
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
// and take the lock of the index. Once the epoch has ended they return ErrFenced and
// change nothing.
type Writer struct{ epoch *epoch }

// maxEngineBlockTokens bounds an engine's block size, in tokens.
const maxEngineBlockTokens = 1 << 20

// validate reports the first contradiction in s.
func (e *epoch) validate(s *Span) error {
	if err := validatePlace(s.Tier, s.Group); err != nil {
		return err
	}
	minBlock := 1
	if len(s.Tokens) == 0 {
		minBlock = 0 // not needed to place by name
	}
	switch n := len(s.Tokens); {
	case s.BlockTokens < minBlock || s.BlockTokens > maxEngineBlockTokens:
		return fmt.Errorf("%w: BlockTokens is %d, want %d to %d", ErrSpan, s.BlockTokens, minBlock, maxEngineBlockTokens)
	case n > 0 && n != len(s.Hashes)*s.BlockTokens:
		return fmt.Errorf("%w: Tokens has %d, want %d for each of %d hashes", ErrSpan, n, s.BlockTokens, len(s.Hashes))
	}
	for _, x := range s.Extras {
		if n := len(s.Tokens); n > 0 && (x.At < 0 || x.At >= n) {
			return fmt.Errorf("%w: Extra.At is %d, want 0 to %d", ErrSpan, x.At, n-1)
		}
	}
	clear(e.named)
	if s.HasParent && len(s.Tokens) > 0 {
		e.named[s.Parent] = struct{}{}
	}
	for i, hash := range s.Hashes {
		if _, twice := e.named[hash]; twice {
			return fmt.Errorf("%w: Hashes[%d], %#x, occurs before it or is the parent", ErrSpan, i, uint64(hash))
		}
		e.named[hash] = struct{}{}
	}
	return nil
}

func validatePlace(t Tier, group int) error {
	if t > TierShared {
		return fmt.Errorf("%w: Tier is %d, want 0 to %d", ErrSpan, t, TierShared)
	}
	if group < 0 {
		return fmt.Errorf("%w: Group is %d, want 0 or more", ErrSpan, group)
	}
	return nil
}

// Writer begins a new epoch of the cache of one data-parallel rank (0 to 4,095)
// of e, and ends the one before: once Writer has returned, no lookup reports
// what that held. The new epoch is empty and its view is ViewNever. Errors are
// ErrNotJoined, ErrFull, and a rank out of range.
//
// O(blocks that the old epoch held).
func (ix *Index) Writer(e Endpoint, rank int) (*Writer, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	o, err := ix.open(e, rank, true)
	if err != nil {
		return nil, err
	}
	return &Writer{o.epoch}, nil
}

// begin takes the lock, checks the fence and sweeps out what has expired by now, which
// it returns. Unless there is an error, the caller gives the lock back.
func (w *Writer) begin() (now time.Time, err error) {
	e := w.epoch
	now = e.ix.options.Clock()
	e.ix.mu.Lock()
	if !e.ended {
		e.expire(now)
		return now, nil
	}
	e.stats.Fenced++
	e.ix.past.Fenced++
	e.ix.mu.Unlock()
	return now, fmt.Errorf("%w: %q rank %d", ErrFenced, e.owner.member.name, e.owner.rank)
}

// Store records that the engine has cached the blocks of s. Blocks whose parent
// the epoch does not know are parked. Errors are ErrFenced and ErrSpan: tokens
// that are not BlockTokens for each hash, a hash that occurs twice or is its own
// parent, an extra outside the span, a negative group, a tier or block size out of
// range.
//
// O(tokens); allocates only to grow.
func (w *Writer) Store(s *Span) error {
	if _, err := w.begin(); err != nil {
		return err
	}
	e := w.epoch
	defer e.ix.mu.Unlock()
	if err := e.validate(s); err != nil {
		e.stats.Malformed++
		return err
	}
	e.fed = true
	if s.Whole {
		e.whole(s)
	}
	if len(s.Tokens) > 0 {
		e.store(s)
	} else {
		e.locate(s)
	}
	e.trim()
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
	defer w.epoch.ix.mu.Unlock()
	w.epoch.insert(p, blocks, now)
	return nil
}

// Remove takes one copy away for each hash. A hash of which nothing is held is
// counted, and does not stop the others. Errors are ErrFenced and ErrSpan: a negative
// group, a tier out of range.
//
// O(hashes), no allocation.
func (w *Writer) Remove(r *Removal) error {
	if _, err := w.begin(); err != nil {
		return err
	}
	e := w.epoch
	defer e.ix.mu.Unlock()
	if err := validatePlace(r.Tier, r.Group); err != nil {
		e.stats.Malformed++
		return err
	}
	for _, hash := range r.Hashes {
		e.remove(handleKey{r.Group, hash}, r.Tier)
	}
	e.trim()
	return nil
}

// Clear empties the cache on all tiers and groups, parked blocks included. The
// epoch and its view go on.
//
// O(own blocks).
func (w *Writer) Clear() error {
	if _, err := w.begin(); err != nil {
		return err
	}
	e := w.epoch
	defer e.ix.mu.Unlock()
	e.empty()
	e.stats.Clears++
	return nil
}

// SetView says how far the owner's picture can be trusted from now on. Errors are
// ErrFenced, and a view that is none.
//
// O(1).
func (w *Writer) SetView(v View) error {
	if v > ViewStale {
		return fmt.Errorf("prefixindex: view is %d, want 0 to %d", v, ViewStale)
	}
	if _, err := w.begin(); err != nil {
		return err
	}
	defer w.epoch.ix.mu.Unlock()
	w.epoch.view = v
	return nil
}

// Stats returns counts of this epoch. It works after the epoch has ended.
//
// O(1), and what has expired.
func (w *Writer) Stats() Stats {
	e := w.epoch
	now := e.ix.options.Clock()
	e.ix.mu.Lock()
	defer e.ix.mu.Unlock()
	e.expire(now)
	s := e.stats
	s.Blocks, s.Holdings = e.holdings, e.holdings
	s.Handles, s.Orphans = len(e.handles), e.orphans
	if !e.ended {
		s.Endpoints, s.Owners = 1, 1
	}
	return s
}
