package kvevents

import (
	"errors"
	"fmt"

	"github.com/warmroute/warmroute/prefixindex"
)

// RankSource is whose word on the data-parallel rank counts.
type RankSource uint8

// The sources of ranks.
const (
	// RankAuto takes the payload's where it is above 0. Engines of vLLM send the true
	// one; SGLang's send 0 or none from every rank, so there the stream's counts.
	RankAuto RankSource = iota

	// RankPayload takes the payload's wherever it names one, for relays that carry
	// several ranks in one stream.
	RankPayload

	// RankStream takes the stream's always.
	RankStream
)

// maxRank is the highest rank that the index has.
const maxRank = 4095

// ApplierOptions says whose events an Applier applies.
type ApplierOptions struct {
	Index    *prefixindex.Index
	Endpoint prefixindex.Endpoint
	Rank     int    // data-parallel rank of the stream
	Model    string // the model that the endpoint serves: Scope.Model of its prompts, to the letter
	Ranks    RankSource
}

func (o *ApplierOptions) validate() error {
	switch {
	case o.Index == nil:
		return errors.New("kvevents: Index is nil")
	case o.Index.Name(o.Endpoint) == "":
		return fmt.Errorf("%w: Endpoint %#x", prefixindex.ErrNotJoined, uint64(o.Endpoint))
	case o.Rank < 0 || o.Rank > maxRank:
		return fmt.Errorf("kvevents: Rank is %d, want 0 to %d", o.Rank, maxRank)
	case o.Ranks > RankStream:
		return fmt.Errorf("kvevents: Ranks is %d, want %d to %d", o.Ranks, RankAuto, RankStream)
	}
	return nil
}

// Applier applies events to the index, as the one feeder of the owners of a stream:
// the rank it was made for, and any other rank of the endpoint that a payload names,
// which is counted. One goroutine at a time.
type Applier struct {
	o      ApplierOptions
	owners []*owner // that have a Writer; the stream's own first
	view   prefixindex.View
	stats  ApplierStats
	names  names
	list   []prefixindex.Extra // of the event at hand
	span   prefixindex.Span
}

// owner is the cache of one rank.
type owner struct {
	rank   int
	w      *prefixindex.Writer
	past   prefixindex.Stats // of the epochs before w's
	groups groups
	tails  map[handle][]string // bare strings that blocks listed

	told    bool // an event has said what its blocks depend on besides tokens
	offsets bool // an item came with its offset
}

// NewApplier returns an applier that has opened no Writer yet. An error names the
// option.
func NewApplier(o ApplierOptions) (*Applier, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Applier{o: o, names: names{}}, nil
}

// Begin starts a new epoch: whatever the index holds of the stream's owners is
// dropped. The first Apply begins one by itself.
//
// O(owners). Errors are those of prefixindex.Index.Writer.
func (a *Applier) Begin() error {
	if len(a.owners) == 0 {
		_, err := a.owner(a.o.Rank)
		return err
	}
	for _, o := range a.owners {
		if err := a.open(o); err != nil {
			return err
		}
	}
	return nil
}

// owner returns the owner of a rank, with a Writer.
func (a *Applier) owner(rank int) (*owner, error) {
	for _, o := range a.owners {
		if o.rank == rank {
			return o, nil
		}
	}
	if len(a.owners) == 0 && rank != a.o.Rank {
		if _, err := a.owner(a.o.Rank); err != nil {
			return nil, err
		}
	}
	o := &owner{rank: rank}
	if err := a.open(o); err != nil {
		return nil, err
	}
	a.owners = append(a.owners, o)
	return o, nil
}

// open begins an epoch of o.
func (a *Applier) open(o *owner) error {
	w, err := a.o.Index.Writer(a.o.Endpoint, o.rank)
	if err != nil {
		return err
	}
	past := o.past
	if o.w != nil {
		past = o.total()
		past.Blocks, past.Holdings, past.Handles, past.Orphans = 0, 0, 0, 0
	}
	*o = owner{rank: o.rank, w: w, past: past, groups: groups{}, tails: map[handle][]string{}}
	if a.view == prefixindex.ViewNever {
		return nil
	}
	return w.SetView(a.view)
}

// Apply applies the events of b in order. Events that cannot be used are skipped
// and counted. An error means that the epoch has ended or the endpoint has left
// (prefixindex.ErrFenced, prefixindex.ErrNotJoined), and that the rest of b was not
// applied.
//
// O(tokens and hashes of b); allocates only to grow.
func (a *Applier) Apply(b *Batch) error {
	a.stats.Unknown += uint64(b.Unknown)
	a.stats.Malformed += uint64(b.Malformed)
	a.stats.UnknownFields += uint64(b.UnknownFields)
	rank, ok := a.rank(b)
	if !ok {
		a.stats.SkippedRank += uint64(len(b.Events))
		return nil
	}
	o, err := a.owner(rank)
	if err != nil {
		return err
	}
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case Stored:
			err = a.stored(o, e)
		case Removed:
			err = a.removed(o, e)
		case Cleared:
			if err = o.w.Clear(); err == nil {
				a.stats.Cleared++
				clear(o.tails)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rank returns the rank that a batch is of, and false for one that the index has not.
func (a *Applier) rank(b *Batch) (int, bool) {
	if !b.HasRank || b.Rank == a.o.Rank {
		return a.o.Rank, true
	}
	if a.o.Ranks == RankStream || a.o.Ranks == RankAuto && b.Rank == 0 {
		a.stats.RankIgnored += uint64(len(b.Events))
		return a.o.Rank, true
	}
	if b.Rank > maxRank {
		return 0, false
	}
	a.stats.OtherRank += uint64(len(b.Events))
	return b.Rank, true
}

// where returns where the copies of an event are, and false, counted, if they are
// not at this endpoint or nobody knows.
func (a *Applier) where(e *Event) (place, bool) {
	p, known := placeOf(e.Medium)
	switch {
	case !known:
		a.stats.SkippedTier++
	case p.apart || !isLocal(e.Locality):
		a.stats.SkippedRemote++
	case e.Ownership != nil:
		a.stats.SkippedOwned++
	default:
		return p, true
	}
	return p, false
}

func (a *Applier) stored(o *owner, e *Event) error {
	p, ok := a.where(e)
	if !ok {
		return nil
	}
	if !o.groups.stored(e) {
		a.stats.SkippedKind++
		return nil
	}
	s := &a.span
	*s = prefixindex.Span{Hashes: e.Hashes, BlockTokens: e.BlockTokens, Tier: p.tier, Group: e.Group}
	// Names without tokens are those of chunks, and stand for themselves.
	s.Whole = p.whole && len(e.Hashes) > 1 && len(e.Tokens) > 0
	onGPU := p.tier == prefixindex.TierGPU
	o.told = o.told || e.HasExtras && onGPU
	switch need := len(e.Hashes) * e.BlockTokens; {
	case len(e.Hashes) == 0, len(e.Tokens) > need && e.BlockTokens > 0:
		a.stats.SkippedSparse++
		return nil
	case len(e.Tokens) == 0:
		a.stats.Placements++
		return a.store(o, s)
	case len(e.Tokens) != need:
		a.stats.Malformed++
		return nil
	case !onGPU && o.told && e.HasGroup && !e.HasExtras:
		// An engine that says what its blocks depend on does not say it when it offloads
		// them. Their names are those of the blocks on GPU, and stand for their contents.
		a.stats.Untold++
		return a.store(o, s)
	}
	extras, salt, ok := a.extras(o, e)
	if !ok {
		a.stats.SkippedExtras++
		return nil
	}
	s.Tokens, s.Extras = e.Tokens, extras
	s.Parent, s.HasParent = e.Parent, e.HasParent
	if !e.HasParent {
		s.Scope = a.scope(e, salt)
	} else if e.Parent == 0 {
		a.stats.ZeroParents++
	}
	if !o.groups.finer(e.Group, e.BlockTokens, onGPU) {
		return a.store(o, s)
	}
	// Blocks smaller than the group's usual ones are entries inside of those, and know
	// their place only from parents that may never have been announced; or they are of
	// another cache that goes under the same group. Those with a place are welcome; the
	// others must not fill the room for orphans.
	parked := o.w.Stats().Parked
	if err := a.store(o, s); err != nil || o.w.Stats().Parked == parked {
		return err
	}
	a.stats.SkippedSize++
	a.stats.Stored--
	return o.w.Remove(&prefixindex.Removal{Hashes: e.Hashes, Tier: p.tier, Group: e.Group})
}

// store writes a span, and counts one that contradicts itself.
func (a *Applier) store(o *owner, s *prefixindex.Span) error {
	err := o.w.Store(s)
	switch {
	case err == nil:
		a.stats.Stored++
	case errors.Is(err, prefixindex.ErrSpan):
		a.stats.Malformed++
		return nil
	}
	return err
}

func (a *Applier) removed(o *owner, e *Event) error {
	p, ok := a.where(e)
	if !ok {
		return nil
	}
	if !o.groups.dense(e) {
		a.stats.SkippedKind++
		return nil
	}
	err := o.w.Remove(&prefixindex.Removal{Hashes: e.Hashes, Tier: p.tier, Group: e.Group})
	if err == nil {
		a.stats.Removed++
	}
	return err
}

// SetView sets the view of the stream's owners, those that have no Writer yet as
// soon as they have one. O(owners).
func (a *Applier) SetView(v prefixindex.View) error {
	a.view = v
	for _, o := range a.owners {
		if err := o.w.SetView(v); err != nil {
			return err
		}
	}
	return nil
}

// Stats returns counts since NewApplier. O(owners).
func (a *Applier) Stats() ApplierStats {
	s := a.stats
	for _, o := range a.owners {
		s.Blocks = sum(s.Blocks, o.total())
	}
	return s
}

// ApplierStats counts events by what became of them. What became of their blocks
// is in Blocks.
type ApplierStats struct {
	Stored     uint64 // events applied
	Removed    uint64
	Cleared    uint64
	Placements uint64 // of Stored: blocks announced by name alone
	Untold     uint64 // of Stored: taken by name alone, since they do not say what they depend on

	Unknown       uint64 // skipped: unknown tag
	Malformed     uint64 // skipped: missing, wrong or contradictory field
	SkippedKind   uint64 // skipped: the group's attention is no dense prefix
	SkippedSparse uint64 // skipped: fewer hashes than blocks of tokens
	SkippedSize   uint64 // skipped: blocks smaller than the group's, of unknown place
	SkippedTier   uint64 // skipped: unknown medium
	SkippedRemote uint64 // skipped: the copies are not at this endpoint
	SkippedOwned  uint64 // skipped: the copies belong to a secondary tier of its own
	SkippedExtras uint64 // skipped: it cannot be told what the blocks depend on
	SkippedRank   uint64 // skipped: the payload names a rank that cannot be

	OtherRank     uint64 // applied, to the rank that the payload names and not to the stream's
	RankIgnored   uint64 // applied, to the stream's rank and not to the one that the payload names
	GuessedExtras uint64 // blocks whose bare strings were taken for media items
	ZeroParents   uint64 // events with a parent of 0: see Decoder.ZeroParent
	UnknownFields uint64 // keys and slots passed over

	// Blocks sums the owners of the stream: what they hold now, and counters over all
	// epochs that the Applier opened.
	Blocks prefixindex.Stats
}

// total returns the owner's counts over all its epochs.
func (o *owner) total() prefixindex.Stats { return sum(o.past, o.w.Stats()) }

func sum(a, b prefixindex.Stats) prefixindex.Stats {
	a.Endpoints += b.Endpoints
	a.Owners += b.Owners
	a.Blocks += b.Blocks
	a.Holdings += b.Holdings
	a.Handles += b.Handles
	a.Orphans += b.Orphans
	a.Stored += b.Stored
	a.Copies += b.Copies
	a.CopiesCapped += b.CopiesCapped
	a.Inserted += b.Inserted
	a.Removed += b.Removed
	a.RemovedUnknown += b.RemovedUnknown
	a.Placed += b.Placed
	a.PlacedUnknown += b.PlacedUnknown
	a.Parked += b.Parked
	a.Adopted += b.Adopted
	a.ParkedDropped += b.ParkedDropped
	a.Conflicts += b.Conflicts
	a.Evicted += b.Evicted
	a.Expired += b.Expired
	a.Malformed += b.Malformed
	a.Fenced += b.Fenced
	a.Clears += b.Clears
	a.Epochs += b.Epochs
	return a
}
