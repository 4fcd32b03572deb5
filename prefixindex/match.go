package prefixindex

import (
	"iter"
	"math/bits"
	"slices"
)

// Held says how much of a prompt one owner holds: leading tokens, counted in
// full blocks from the prompt's first. The three numbers are nested runs, each
// at least as long as the one before.
type Held struct {
	Rank int // the owner's rank on its endpoint; -1: of no rank in particular
	GPU  int // tokens held on GPU
	CPU  int // tokens held on GPU or CPU
	Any  int // tokens held on any tier
	View View
}

// Match is the answer to one lookup. The zero value is ready for Index.Match,
// which reuses its memory. A Match serves one goroutine at a time.
type Match struct {
	roster       *roster // at the instant of the lookup; nil: none yet
	blockTokens  int
	promptTokens int

	found []uint64 // slots that hold the first block
	runs  []uint32 // by slot, in blocks; of those found only

	search  search
	lookups uint32
}

// run returns the blocks that a slot holds.
func (m *Match) run(slot uint32) int {
	if int(slot>>6) < len(m.found) && m.found[slot>>6]>>(slot&63)&1 != 0 {
		return int(m.runs[slot])
	}
	return 0
}

// held returns what the owner of a seat holds.
func (m *Match) held(s *seat) Held {
	if s.slots[levelGPU] == s.slots[levelAny] && s.writer.chunk[TierGPU].Load() == 0 {
		n := m.run(s.slots[levelGPU]) * m.blockTokens // most owners: one tier, no chunks
		return Held{Rank: s.writer.rank, GPU: n, CPU: n, Any: n, View: s.writer.currentView()}
	}
	var runs [levels]int
	for l, slot := range s.slots {
		runs[l] = m.run(slot) * m.blockTokens
		if l > 0 {
			runs[l] = max(runs[l], runs[l-1]) // a writer may have come between the searches
		}
	}
	s.writer.roundToChunks(&runs, m.blockTokens)
	return Held{
		Rank: s.writer.rank,
		GPU:  runs[levelGPU], CPU: runs[levelCPU], Any: runs[levelAny],
		View: s.writer.currentView(),
	}
}

// roundToChunks takes from each run what a tier that gives back whole chunks only
// could not serve: where a level adds to the run of the nearer one, its run ends at a
// multiple of the chunk of the tier that it adds, though not before the nearer run.
// Where it adds nothing, it ends with the nearer one.
func (w *Writer) roundToChunks(runs *[levels]int, size int) {
	chunks := [levels]int{
		levelGPU: int(w.chunk[TierGPU].Load()),
		levelCPU: int(w.chunk[TierCPU].Load()),
		levelAny: int(max(w.chunk[TierDisk].Load(), w.chunk[TierShared].Load())),
	}
	nearer, nearerRounded := 0, 0
	for l, run := range runs {
		rounded := run
		if chunk := chunks[l]; chunk > 0 {
			rounded = run / chunk * chunk / size * size
		}
		if run == nearer {
			rounded = nearerRounded
		}
		nearer, nearerRounded = run, max(rounded, nearerRounded)
		runs[l] = nearerRounded
	}
}

// seats returns the owners of e.
func (m *Match) seats(e Endpoint) []seat {
	if m.roster != nil {
		if row := m.roster.member(e); row != nil {
			return row.seats
		}
	}
	return nil
}

// Of returns what e holds on its best rank: the one with the largest sum of GPU,
// CPU and Any, among equals the lowest. For an endpoint that holds nothing, Rank is
// -1 and View is the least trusted of its ranks', so that "holds nothing" and "not
// known" stay apart; from the least to the most trusted: never, stale, gap,
// resyncing, assumed, live. Views are those of the instant of the call.
//
// O(ranks of e), no allocation.
func (m *Match) Of(e Endpoint) Held {
	best, most := Held{Rank: -1}, 0
	seats := m.seats(e)
	for i := range seats {
		h := m.held(&seats[i])
		if sum := h.GPU + h.CPU + h.Any; sum > most {
			best, most = h, sum
		} else if most == 0 && (i == 0 || h.View.trust() < best.View.trust()) {
			best.View = h.View
		}
	}
	return best
}

// trust orders views, the least trusted first.
func (v View) trust() int {
	return slices.Index([]View{ViewNever, ViewStale, ViewGap, ViewResyncing, ViewAssumed, ViewLive}, v)
}

// Rank returns what one owner holds: nothing, with ViewNever, if it is not known.
//
// O(ranks of e), no allocation.
func (m *Match) Rank(e Endpoint, rank int) Held {
	seats := m.seats(e)
	for i := range seats {
		if seats[i].writer.rank == rank {
			return m.held(&seats[i])
		}
	}
	return Held{Rank: rank}
}

// All yields every owner that holds at least the first block, in no order; an
// endpoint appears once for each such rank.
//
// O(owners that hold something), no allocation.
func (m *Match) All() iter.Seq2[Endpoint, Held] {
	return func(yield func(Endpoint, Held) bool) {
		for i, w := range m.found {
			page := m.roster.slots[i]
			for ; w != 0; w &= w - 1 {
				c := page.held[bits.TrailingZeros64(w)]
				row := m.roster.member(c.writer.endpoint)
				s := row.seat(c.writer.rank)
				// An owner with farther tiers is found in several slots, and in that of
				// the farthest for sure.
				if s.slots[levelAny] != uint32(i<<6+bits.TrailingZeros64(w)) {
					continue
				}
				if h := m.held(s); h.Any > 0 && !yield(row.endpoint, h) {
					return
				}
			}
		}
	}
}

// PromptTokens returns the length of the prompt that was looked up. O(1).
func (m *Match) PromptTokens() int { return m.promptTokens }
