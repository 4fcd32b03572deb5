package prefixindex

import (
	"iter"
	"slices"
	"time"
)

// Match fills m with how much of p each owner holds, hashing as many of p's
// blocks as the search needs. What m held before is gone.
//
// O(owners * blocks held), on the caller's goroutine. Safe beside every other method; p and m
// belong to the caller until it returns. No allocation once p and m have grown.
func (ix *Index) Match(p *Prompt, m *Match) {
	var now time.Time
	if ix.options.AssumedTTL > 0 {
		now = ix.options.Clock()
	}
	m.promptTokens = p.Tokens()
	m.owners = m.owners[:0]
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	m.slots = slices.Grow(m.slots[:0], len(ix.slots))[:len(ix.slots)]
	for i, s := range ix.slots {
		from := len(m.owners)
		if s.member != nil {
			for _, o := range s.member.owners {
				m.owners = append(m.owners, matched{s.member.endpoint, o.epoch.match(p, o.rank, now)})
			}
		}
		m.slots[i] = matchedSlot{from, len(m.owners)}
	}
}

// match returns the longest runs of p that the owner holds.
func (e *epoch) match(p *Prompt, rank int, now time.Time) Held {
	size := e.ix.options.BlockTokens
	full := p.blocks(e.ix.hasher)
	var runs [levels]int
	reach := levelGPU // the farthest level needed so far
	for i := 0; i < full; i++ {
		reach = max(reach, e.level(p.grow(e.ix.hasher, i+1)[i], now))
		if reach == levels {
			break
		}
		for l := reach; l < levels; l++ {
			runs[l] = (i + 1) * size
		}
	}
	e.roundToChunks(&runs)
	return Held{Rank: rank, GPU: runs[levelGPU], CPU: runs[levelCPU], Any: runs[levelAny], View: e.view}
}

// roundToChunks takes from each run what a tier that gives back whole chunks only
// could not serve: where a level adds to the run of the nearer one, its run ends at a
// multiple of the chunk of the tier that it adds, though not before the nearer run.
// Where it adds nothing, it ends with the nearer one.
func (e *epoch) roundToChunks(runs *[levels]int) {
	chunks := [levels]int{
		levelGPU: e.chunk[TierGPU],
		levelCPU: e.chunk[TierCPU],
		levelAny: max(e.chunk[TierDisk], e.chunk[TierShared]),
	}
	size := e.ix.options.BlockTokens
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
	promptTokens int
	owners       []matched     // all, those that hold nothing too, by slot and rank
	slots        []matchedSlot // where in owners each slot's begin and end
}

type matched struct {
	endpoint Endpoint
	held     Held
}

type matchedSlot struct{ from, to int }

// of returns the owners of e.
func (m *Match) of(e Endpoint) []matched {
	if n := e.Slot(); n < len(m.slots) {
		owners := m.owners[m.slots[n].from:m.slots[n].to]
		if len(owners) > 0 && owners[0].endpoint == e {
			return owners
		}
	}
	return nil
}

// Of returns what e holds on its best rank: the one with the largest sum of GPU,
// CPU and Any, among equals the lowest. For an endpoint that holds nothing, Rank is
// -1 and View is the least trusted of its ranks', so that "holds nothing" and "not
// known" stay apart; from the least to the most trusted: never, stale, gap,
// resyncing, assumed, live.
//
// O(ranks of e), no allocation.
func (m *Match) Of(e Endpoint) Held {
	best, most := Held{Rank: -1}, 0
	for i, o := range m.of(e) {
		if sum := o.held.GPU + o.held.CPU + o.held.Any; sum > most {
			best, most = o.held, sum
		} else if most == 0 && (i == 0 || o.held.View.trust() < best.View.trust()) {
			best.View = o.held.View
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
	for _, o := range m.of(e) {
		if o.held.Rank == rank {
			return o.held
		}
	}
	return Held{Rank: rank}
}

// All yields every owner that holds at least the first block, in no order; an
// endpoint appears once for each such rank.
//
// O(owners).
func (m *Match) All() iter.Seq2[Endpoint, Held] {
	return func(yield func(Endpoint, Held) bool) {
		for _, o := range m.owners {
			if o.held.Any > 0 && !yield(o.endpoint, o.held) {
				return
			}
		}
	}
}

// PromptTokens returns the length of the prompt that was looked up. O(1).
func (m *Match) PromptTokens() int { return m.promptTokens }
