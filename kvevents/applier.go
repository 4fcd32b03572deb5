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
	// RankStream takes the stream's always: a socket is one rank's. What payloads say
	// is compared only, since not all engines send the true one.
	RankStream RankSource = iota

	// RankPayload takes the payload's wherever it names one, for relays that carry
	// several ranks in one stream. There must be no other feeder of these ranks. Where
	// there is one that has been heard of, its rank is left to it.
	RankPayload
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

	// OtherRanks bounds the ranks besides Rank that payloads may name with RankPayload:
	// by default 16.
	OtherRanks int
}

func (o *ApplierOptions) validate() error {
	switch {
	case o.Index == nil:
		return fmt.Errorf("%w: Index is nil", ErrOptions)
	case o.Index.Name(o.Endpoint) == "":
		return fmt.Errorf("%w: Endpoint %#x", prefixindex.ErrNotJoined, uint64(o.Endpoint))
	case o.Rank < 0 || o.Rank > maxRank:
		return fmt.Errorf("%w: Rank is %d, want 0 to %d", ErrOptions, o.Rank, maxRank)
	case o.Ranks > RankPayload:
		return fmt.Errorf("%w: Ranks is %d, want %d or %d", ErrOptions, o.Ranks, RankStream, RankPayload)
	case o.OtherRanks < 0 || o.OtherRanks > maxRank:
		return fmt.Errorf("%w: OtherRanks is %d, want 0 to %d", ErrOptions, o.OtherRanks, maxRank)
	}
	if o.OtherRanks == 0 {
		o.OtherRanks = 16
	}
	return nil
}

// Applier applies events to the index, as the one feeder of the owners of a stream:
// the rank it was made for, or with RankPayload those that payloads name. One goroutine
// at a time.
type Applier struct {
	o      ApplierOptions
	owners []*owner
	view   prefixindex.View
	stats  ApplierStats
	names  names
	list   []prefixindex.Extra // of the event at hand
	span   prefixindex.Span
}

// owner is the cache of one rank.
type owner struct {
	rank      int
	w         *prefixindex.Writer
	lost      bool              // another feeder has opened an epoch of this rank, which is not the stream's own
	emptied   bool              // since it was asked last
	emptiedAt uint64            // the last time; see Applier.emptied
	past      prefixindex.Stats // of the epochs before w's
	groups    groups
	tails     map[handle][]string // bare strings that blocks listed

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
// dropped. The first Apply begins one by itself, as does the first that names another
// rank.
//
// O(owners). Errors are those of prefixindex.Index.Writer.
func (a *Applier) Begin() error {
	if len(a.owners) == 0 && a.o.Ranks == RankStream {
		_, err := a.owner(a.o.Rank)
		return err
	}
	for _, o := range a.owners {
		if o.lost {
			continue
		}
		if err := a.open(o); err != nil {
			return err
		}
	}
	return nil
}

// Clear drops what the index holds of the stream's owners, without a new epoch. Owners
// that others have taken over since are left alone.
//
// O(owners). Safe after the endpoint has left.
func (a *Applier) Clear() {
	for _, o := range a.owners {
		_ = o.w.Clear() // fails only where nothing is left to clear
		o.forget()
	}
}

// owner returns the owner of a rank, with a Writer.
func (a *Applier) owner(rank int) (*owner, error) {
	for _, o := range a.owners {
		if o.rank == rank {
			return o, nil
		}
	}
	o := &owner{rank: rank}
	if err := a.open(o); err != nil {
		return nil, err
	}
	a.owners = append(a.owners, o)
	return o, nil
}

// mayOpen reports whether a rank that is not the stream's own may be looked after, as
// far as can be seen.
func (a *Applier) mayOpen(rank int) bool {
	room := a.o.OtherRanks
	for _, o := range a.owners {
		if o.rank == rank {
			return !o.lost
		}
		if o.rank != a.o.Rank {
			room--
		}
	}
	view := a.o.Index.View(a.o.Endpoint, rank)
	return room > 0 && (view == prefixindex.ViewNever || view == prefixindex.ViewStale)
}

// open begins an epoch of o.
func (a *Applier) open(o *owner) error {
	w, err := a.o.Index.Writer(a.o.Endpoint, o.rank)
	if err != nil {
		return err
	}
	if o.w != nil {
		o.past = o.total()
	}
	o.w = w
	o.forget()
	if a.view == prefixindex.ViewNever {
		return nil
	}
	return w.SetView(a.view)
}

// forget drops what was learned of the blocks in the cache, and of its groups.
func (o *owner) forget() {
	o.groups, o.tails = groups{}, map[handle][]string{}
	o.told, o.offsets = false, false
}

// Apply applies the events of b in order. Events that cannot be used are skipped
// and counted. An error means that another feeder has begun an epoch of the stream's
// owner or the endpoint has left (prefixindex.ErrFenced, prefixindex.ErrNotJoined), or
// is what prefixindex.Index.Writer says at the first Apply; the rest of b was not
// applied.
//
// O(tokens and hashes of b), and the logarithm of the items of an event for each of
// them; allocates only to grow.
func (a *Applier) Apply(b *Batch) error {
	a.stats.Unknown += uint64(b.Unknown)
	a.stats.Malformed += uint64(b.Malformed)
	a.stats.SkippedPlace += uint64(b.Unplaced)
	a.stats.UnknownFields += uint64(b.UnknownFields)
	rank := a.o.Rank
	if b.HasRank && b.Rank != rank {
		switch {
		case a.o.Ranks == RankStream:
			a.stats.RankIgnored += uint64(len(b.Events))
		case b.Rank < 0 || b.Rank > maxRank:
			a.stats.Malformed += uint64(len(b.Events))
			return nil
		default:
			return a.applyOther(b)
		}
	}
	o, err := a.owner(rank)
	if err != nil {
		return err
	}
	return a.apply(o, b)
}

// applyOther applies a batch of a rank that is not the stream's own. Whatever is wrong
// with that rank is no reason to end the stream.
func (a *Applier) applyOther(b *Batch) error {
	n := uint64(len(b.Events))
	if !a.mayOpen(b.Rank) {
		a.stats.SkippedRank += n
		return nil
	}
	o, err := a.owner(b.Rank)
	if err != nil {
		a.stats.SkippedRank += n
		if errors.Is(err, prefixindex.ErrNotJoined) {
			return err
		}
		return nil // there is no room
	}
	a.stats.OtherRank += n
	if err := a.apply(o, b); !a.taken(o, err) {
		return err
	}
	return nil
}

// taken reports whether err says that another feeder has taken over a rank that is not
// the stream's own, and lets go of it.
func (a *Applier) taken(o *owner, err error) bool {
	if o.rank == a.o.Rank || !errors.Is(err, prefixindex.ErrFenced) || a.o.Index.Name(a.o.Endpoint) == "" {
		return false
	}
	o.lost = true
	return true
}

// apply applies the events of b to o.
func (a *Applier) apply(o *owner, b *Batch) (err error) {
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case Stored:
			err = a.stored(o, e)
		case Removed:
			err = a.removed(o, e)
		case Cleared:
			if err = o.w.Clear(); err == nil {
				o.emptied = true
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

// emptied takes note of the owners that the at-th batch has emptied, and returns since
// which one all have been.
func (a *Applier) emptied(at uint64) (since uint64) {
	since = at
	for _, o := range a.owners {
		if o.emptied {
			o.emptied, o.emptiedAt = false, at
		}
		if !o.lost {
			since = min(since, o.emptiedAt)
		}
	}
	return since
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
		return a.storeNames(o, s, &a.stats.Placements)
	case len(e.Tokens) != need:
		a.stats.Malformed++
		return nil
	case !onGPU && o.told && e.HasGroup && !e.HasExtras:
		// An engine that says what its blocks depend on does not say it when it offloads
		// them. Their names are those of the blocks on GPU, and stand for their contents.
		return a.storeNames(o, s, &a.stats.Untold)
	case !areListed(e.Extras, len(e.Hashes)):
		a.stats.Malformed++
		return nil
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

// storeNames is store for blocks announced by name alone, which counts them.
func (a *Applier) storeNames(o *owner, s *prefixindex.Span, count *uint64) error {
	stored := a.stats.Stored
	err := a.store(o, s)
	*count += a.stats.Stored - stored
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
	switch {
	case err == nil:
		a.stats.Removed++
	case errors.Is(err, prefixindex.ErrSpan):
		a.stats.Malformed++
		return nil
	}
	return err
}

// SetView sets the view of the stream's owners, those that have no Writer yet as
// soon as they have one. O(owners).
func (a *Applier) SetView(v prefixindex.View) error {
	a.view = v
	for _, o := range a.owners {
		if o.lost {
			continue
		}
		if err := o.w.SetView(v); err != nil && !a.taken(o, err) {
			return err
		}
	}
	return nil
}

// Stats returns counts since NewApplier. O(owners).
func (a *Applier) Stats() ApplierStats {
	s := a.stats
	for _, o := range a.owners {
		total := o.total()
		s.Blocks.Add(&total)
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
	SkippedPlace  uint64 // skipped: where the blocks stand is not known; see Decoder.ContentHashes
	SkippedTier   uint64 // skipped: unknown medium
	SkippedRemote uint64 // skipped: the copies are not at this endpoint
	SkippedOwned  uint64 // skipped: the copies belong to a secondary tier of its own
	SkippedExtras uint64 // skipped: it cannot be told what the blocks depend on
	SkippedRank   uint64 // skipped: the payload names a rank that is another feeder's, or one too many

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
func (o *owner) total() prefixindex.Stats {
	s := o.w.Stats()
	s.Add(&o.past)
	return s
}
