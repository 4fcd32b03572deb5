package prefixindex

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
// and take the owner's lock; Writers of different owners run in parallel. Once
// the epoch has ended they return ErrFenced and change nothing.
type Writer struct{}

// Writer begins a new epoch of the cache of one data-parallel rank (0 to 4,095)
// of e, and ends the one before: once Writer has returned, no lookup reports
// what that held. The new epoch is empty and its view is ViewNever. Errors are
// ErrNotJoined, ErrFull, and a rank out of range.
//
// O(1) until the fence; sweeping what the old epoch held is done in steps by
// later writes.
func (ix *Index) Writer(e Endpoint, rank int) (*Writer, error) { return nil, errUnbuilt }

// Store records that the engine has cached the blocks of s. Blocks whose parent
// the epoch does not know are parked. Errors are ErrFenced and ErrSpan: tokens
// that are not BlockTokens for each hash, a hash that occurs twice or is its own
// parent, a negative group, a tier or block size out of range.
//
// O(tokens); allocates only to grow.
func (w *Writer) Store(s *Span) error { return errUnbuilt }

// Insert records that the first blocks blocks of p are in the cache, or all full
// blocks if blocks is negative or larger than that. It is for tests and for
// engines without events: such blocks have no engine hash, the least recently
// inserted go first once the owner is full (a prompt's last before its first),
// and they expire. A first Insert turns ViewNever to ViewAssumed.
//
// O(blocks); p belongs to the caller until it returns.
func (w *Writer) Insert(p *Prompt, blocks int) error { return errUnbuilt }

// Remove takes one copy away for each hash. A hash of which nothing is held is
// counted, and does not stop the others.
//
// O(hashes), no allocation.
func (w *Writer) Remove(r *Removal) error { return errUnbuilt }

// Clear empties the cache on all tiers and groups, parked blocks included. The
// epoch and its view go on.
//
// O(1) until the fence; sweeping is done in steps by later writes.
func (w *Writer) Clear() error { return errUnbuilt }

// SetView says how far the owner's picture can be trusted from now on.
//
// O(1).
func (w *Writer) SetView(v View) error { return errUnbuilt }

// Stats returns counts of this epoch. It works after the epoch has ended.
//
// O(1).
func (w *Writer) Stats() Stats { return Stats{} }
