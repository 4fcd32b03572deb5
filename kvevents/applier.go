package kvevents

import "github.com/warmroute/warmroute/prefixindex"

// ApplierOptions says whose events an Applier applies.
type ApplierOptions struct {
	Index    *prefixindex.Index
	Endpoint prefixindex.Endpoint
	Rank     int    // data-parallel rank of the stream
	Model    string // the model that the endpoint serves: Scope.Model of its prompts, to the letter
}

// Applier applies events to the index, as the one feeder of the owners of a stream:
// the rank it was made for, and any other rank of the endpoint that a payload names,
// which is counted. One goroutine at a time.
type Applier struct{}

// NewApplier returns an applier that has opened no Writer yet. An error names the
// option.
func NewApplier(o ApplierOptions) (*Applier, error) { return nil, errUnbuilt }

// Begin starts a new epoch: whatever the index holds of the stream's owners is
// dropped. The first Apply begins one by itself.
//
// O(owners). Errors are those of prefixindex.Index.Writer.
func (a *Applier) Begin() error { return errUnbuilt }

// Apply applies the events of b in order. Events that cannot be used are skipped
// and counted. An error means that the epoch has ended or the endpoint has left
// (prefixindex.ErrFenced, prefixindex.ErrNotJoined), and that the rest of b was not
// applied.
//
// O(tokens and hashes of b); allocates only to grow.
func (a *Applier) Apply(b *Batch) error { return errUnbuilt }

// SetView sets the view of the stream's owners. O(owners).
func (a *Applier) SetView(v prefixindex.View) error { return errUnbuilt }

// Stats returns counts since NewApplier. O(owners).
func (a *Applier) Stats() ApplierStats { return ApplierStats{} }

// ApplierStats counts events by what became of them. What became of their blocks
// is in Blocks.
type ApplierStats struct {
	Stored  uint64 // events applied
	Removed uint64
	Cleared uint64

	Unknown       uint64 // skipped: unknown tag
	Malformed     uint64 // skipped: missing, wrong or contradictory field
	SkippedKind   uint64 // skipped: the group's attention is no dense prefix
	SkippedSparse uint64 // skipped: fewer hashes than blocks of tokens
	SkippedTier   uint64 // skipped: unknown medium
	SkippedRemote uint64 // skipped: the copies are not at this endpoint
	OtherRank     uint64 // applied, to the rank that the payload names and not to the stream's

	// Blocks sums the owners of the stream: what they hold now, and counters over all
	// epochs that the Applier opened.
	Blocks prefixindex.Stats
}
