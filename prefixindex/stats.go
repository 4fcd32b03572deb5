package prefixindex

// Stats returns counts of what the index holds and has done.
//
// It sweeps what has expired and epochs that have ended, and gives their memory back,
// which of owners that nothing is written to nobody else does.
//
// O(owners), and that.
func (ix *Index) Stats() Stats {
	now := ix.options.Clock()
	ix.sweep(-1)
	ix.mu.Lock()
	s := ix.past
	r := ix.roster.Load()
	ix.mu.Unlock()
	for _, page := range r.members {
		for i := range page {
			for _, seat := range page[i].seats {
				w := seat.writer
				w.mu.Lock()
				if !w.ended.Load() {
					w.tidy(now)
					w.contents.measure(&s)
				}
				if !w.merged {
					s.add(&w.stats)
				}
				w.mu.Unlock()
			}
		}
	}
	ix.records.trim()
	s.Bytes, s.Withheld = ix.bytes(), ix.withheld.Load()
	s.Endpoints, s.Owners, s.Blocks = r.joined, r.seated, ix.records.blocks()
	return s
}

// Stats describes an Index, or, from Writer.Stats, one epoch of one owner.
// Counters only grow within what they describe, except the first group.
type Stats struct {
	Endpoints int // members
	Owners    int // owners with a current Writer
	Blocks    int // distinct block hashes held; of an owner: blocks it holds on any tier
	Holdings  int // sum over owners of the blocks each holds on any tier

	HoldingsGPU int // of Holdings: blocks held on GPU
	HoldingsCPU int // of Holdings: blocks held on CPU and not on GPU; the rest is farther

	Handles int // engine blocks that a removal or a child could name, parked ones included
	Orphans int // engine blocks parked for want of their parent

	Bytes int64 // memory of all this; of an owner: without its share of the hash table

	Stored         uint64 // engine blocks stored, first copies
	Copies         uint64 // further copies counted
	CopiesCapped   uint64 // copies beyond Options.Copies, not counted
	Inserted       uint64 // blocks recorded without events, the first time
	Expected       uint64 // blocks that Expect recorded, each time
	Confirmed      uint64 // of these, stored by the engine since
	Removed        uint64 // engine blocks removed, a copy each
	RemovedUnknown uint64 // removals that named nothing held
	Placed         uint64 // blocks given a further tier by name alone
	PlacedUnknown  uint64 // such names that nothing was known of
	Parked         uint64 // engine blocks parked
	Adopted        uint64 // parked blocks whose parent appeared
	ParkedDropped  uint64 // parked blocks given up: no room, or the epoch ended
	Conflicts      uint64 // a known engine hash announced with other contents; the old ones stay
	Evicted        uint64 // blocks that Options.OwnerBlocks or MaxBytes pushed out
	Forgotten      uint64 // engine blocks no longer known by name, for want of room
	Expired        uint64 // blocks without events that ended: by time, or at the owner's first event
	Malformed      uint64 // spans and removals refused with ErrSpan
	Fenced         uint64 // calls refused with ErrFenced
	Clears         uint64 // caches emptied by Writer.Clear
	Epochs         uint64 // Writers opened
	Withheld       uint64 // owners that a lookup left out for expired blocks not swept yet; of an Index only
}

// Add adds t, sizes and counters.
//
// O(1). Not safe for concurrent use.
func (s *Stats) Add(t *Stats) {
	s.Endpoints += t.Endpoints
	s.Owners += t.Owners
	s.Blocks += t.Blocks
	s.Holdings += t.Holdings
	s.HoldingsGPU += t.HoldingsGPU
	s.HoldingsCPU += t.HoldingsCPU
	s.Handles += t.Handles
	s.Orphans += t.Orphans
	s.Bytes += t.Bytes
	s.Withheld += t.Withheld
	s.add(t)
}

// add adds the counters of t.
func (s *Stats) add(t *Stats) {
	s.Stored += t.Stored
	s.Copies += t.Copies
	s.CopiesCapped += t.CopiesCapped
	s.Inserted += t.Inserted
	s.Expected += t.Expected
	s.Confirmed += t.Confirmed
	s.Removed += t.Removed
	s.RemovedUnknown += t.RemovedUnknown
	s.Placed += t.Placed
	s.PlacedUnknown += t.PlacedUnknown
	s.Parked += t.Parked
	s.Adopted += t.Adopted
	s.ParkedDropped += t.ParkedDropped
	s.Conflicts += t.Conflicts
	s.Evicted += t.Evicted
	s.Forgotten += t.Forgotten
	s.Expired += t.Expired
	s.Malformed += t.Malformed
	s.Fenced += t.Fenced
	s.Clears += t.Clears
	s.Epochs += t.Epochs
}
