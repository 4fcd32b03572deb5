//go:build invariants

package prefixindex

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What holds while writers and readers meet depends on the order of their steps. These
// tests have one of them stop between two steps, and the other come in.

// meeting is one owner, and the prompt that it holds blocks of.
type meeting struct {
	*testing.T
	ix     *Index
	ep     Endpoint
	w      *Writer
	prompt Prompt
	match  Match
	all    Prompt // the first 8 blocks, with their hashes
	writes int    // begun in the present schedule
	tokens []uint32
}

func newMeeting(t *testing.T) *meeting {
	ix, err := New(Options{BlockTokens: 4, Copies: 1})
	require.NoError(t, err)
	g := &meeting{T: t, ix: ix, tokens: make([]uint32, 4*8)}
	for i := range g.tokens {
		g.tokens[i] = uint32(i + 1)
	}
	g.all.Reset(Scope{}, g.tokens)
	ix.Hasher().Hashes(&g.all)
	g.ep, err = ix.Join("a")
	require.NoError(t, err)
	g.w, err = ix.Writer(g.ep, 0)
	require.NoError(t, err)
	t.Cleanup(func() { atYield.Store(nil) })
	return g
}

// at has f run when the place is passed next, by whichever goroutine.
func (g *meeting) at(place string, f func()) {
	hook := func(where string) {
		if where == place {
			atYield.Store(nil)
			f()
		}
	}
	atYield.Store(&hook)
}

// met fails if nobody passed the place of at.
func (g *meeting) met() { require.Nil(g, atYield.Load(), "nobody came there") }

func (g *meeting) store(from, to int, change ...func(*Span)) {
	s := &Span{Tokens: g.tokens[4*from : 4*to], BlockTokens: 4, Parent: EngineHash(from), HasParent: from > 0}
	for i := from; i < to; i++ {
		s.Hashes = append(s.Hashes, EngineHash(i+1))
	}
	for _, f := range change {
		f(s)
	}
	g.writes++
	require.NoError(g, g.w.Store(s))
}

// remove removes blocks in one group, 0 unless said.
func (g *meeting) remove(from, to int, group ...int) {
	r := &Removal{}
	if len(group) > 0 {
		r.Group = group[0]
	}
	for i := to - 1; i >= from; i-- {
		r.Hashes = append(r.Hashes, EngineHash(i+1))
	}
	g.writes++
	require.NoError(g, g.w.Remove(r))
}

// run looks the prompt up, and returns the owner's run in blocks.
func (g *meeting) run(m *Match) int {
	g.ix.Match(&g.all, m)
	return m.Of(g.ep).Any / 4
}

// other joins another endpoint.
func (g *meeting) other(name string) *Writer {
	ep, err := g.ix.Join(name)
	require.NoError(g, err)
	w, err := g.ix.Writer(ep, 0)
	require.NoError(g, err)
	return w
}

// holesElsewhere makes holes from to to in prompts of two blocks that begin otherwise.
func (g *meeting) holesElsewhere(from, to int) {
	for i := from; i < to; i++ {
		g.noHolesElsewhere(i, i+1)
		g.writes++
		require.NoError(g, g.w.Remove(&Removal{Hashes: []EngineHash{EngineHash(1000 + 2*i)}}))
	}
}

func (g *meeting) noHolesElsewhere(from, to int) {
	for i := from; i < to; i++ {
		name := EngineHash(1000 + 2*i)
		g.writes++
		require.NoError(g, g.w.Store(&Span{
			Hashes: []EngineHash{name, name + 1}, BlockTokens: 4,
			Tokens: []uint32{uint32(1000 + i), 0, 0, 0, 0, 0, 0, 0},
		}))
	}
}

// steps returns a function that lets f run to the n-th next place where it may meet
// others, and reports whether it came there before its end. Places within records count
// only if that is said.
func steps(f func(), records bool) (run func(n int) bool) {
	var pause func(struct{}) bool
	next, _ := iter.Pull(func(yield func(struct{}) bool) { pause = yield; f() })
	hook := func(where string) {
		if records == strings.HasPrefix(where, "record: ") {
			pause(struct{}{})
		}
	}
	return func(n int) bool {
		atYield.Store(&hook)
		defer atYield.Store(nil)
		for range n {
			if _, more := next(); !more {
				return false
			}
		}
		return true
	}
}

// inTurns has write make some steps, then read some, then write some more, then read the
// rest, and write the rest; with all numbers of steps. It calls begin before each such
// schedule, moment before the first step of write and after each, and check with the
// moments between which read ran.
func inTurns(records bool, write, read, begin, moment func(), check func(from, to int)) (schedules int) {
	const rest = 1 << 20
	for before, writing := 0, true; writing; before++ {
		for reading, looking := 0, true; looking; reading++ {
			for during, left := 0, true; left; during++ {
				schedules++
				begin()
				look, next := steps(read, records), steps(write, records)
				moment()
				moments := 0
				step := func() bool {
					more := next(1)
					moment()
					moments++
					return more
				}
				for i := 0; i < before && writing; i++ {
					writing = step()
				}
				from := moments
				looking = look(reading)
				for i := 0; i < during && left; i++ {
					left = step()
				}
				to := moments
				look(rest)
				for step() {
				}
				check(from, to)
				left = left && writing && looking
			}
		}
	}
	return schedules
}

// held returns the owner's run at this instant, as the bits say that lookups look at.
func (g *meeting) held() int {
	slot := g.ix.roster.Load().member(g.ep).seat(0).slots[levelAny]
	for i, hash := range g.all.hashes {
		table := g.ix.records.table(uint64(hash))
		if !table.has(table.find(uint64(hash)), slot) {
			return i
		}
	}
	return len(g.all.hashes)
}

// meet has lookups and writes take turns. The answer must be a run that the owner had
// while those writes were made that overlap the lookup, and no longer than what it had
// during the lookup itself. The writes end as they began, or with what begin mends.
func (g *meeting) meet(write, begin func()) {
	g.Helper()
	type moment struct{ write, run int }
	var past []moment
	known := false
	n := inTurns(false, write, func() {
		g.prompt.Reset(Scope{}, g.all.tokens)
		if known = !known; known { // else hashes become known as needed
			g.ix.Hasher().Hashes(&g.prompt)
		}
		g.ix.Match(&g.prompt, &g.match)
	}, func() {
		if begin != nil {
			begin()
		}
		g.writes, past = 0, past[:0]
	}, func() {
		past = append(past, moment{g.writes, g.held()})
	}, func(from, to int) {
		got, had, most := g.match.Of(g.ep).Any/4, false, 0
		for i, at := range past {
			if at.write >= past[from].write && at.write <= past[to].write {
				had = had || at.run == got
			}
			if i >= from && i <= to {
				most = max(most, at.run)
			}
		}
		if !had || got > most {
			g.Fatalf("a run of %d blocks between the moments %d and %d of %v", got, from, to, past)
		}
	})
	g.Logf("%d schedules", n)
}

// TestLookupsMeetWrites has lookups and writes meet at each of their steps.
func TestLookupsMeetWrites(t *testing.T) {
	other := func(s *Span) { s.Group = 1 }
	for _, c := range []struct {
		name         string
		begin, write func(g *meeting)
	}{
		{"tail", func(g *meeting) { g.store(0, 3) }, func(g *meeting) {
			g.store(3, 6)
			g.remove(2, 6)
			g.store(2, 3)
		}},
		{"first block", func(g *meeting) { g.store(0, 3) }, func(g *meeting) {
			g.remove(0, 1)
			g.store(3, 6)
			g.remove(3, 6)
			g.store(0, 1)
		}},
		{"hole, then blocks beyond it", func(g *meeting) { g.store(0, 5) }, func(g *meeting) {
			g.remove(2, 3)
			g.store(5, 8)
			g.remove(5, 8)
			g.store(2, 3)
		}},
		{"blocks beyond a hole go", func(g *meeting) { g.store(0, 8); g.remove(2, 3) }, func(g *meeting) {
			g.remove(3, 8)
			g.store(3, 8)
		}},
		{"child of what was removed", func(g *meeting) { g.store(0, 8); g.remove(6, 8) }, func(g *meeting) {
			g.store(7, 8)
			g.store(6, 7)
			g.remove(6, 7)
			g.remove(7, 8)
		}},
		{"two names of a block", func(g *meeting) { g.store(0, 5); g.store(0, 5, other) }, func(g *meeting) {
			g.remove(2, 3)
			g.remove(2, 3, 1)
			g.store(5, 7, other)
			g.remove(5, 7, 1)
			g.store(2, 3, other)
			g.store(2, 3)
		}},
		{"cleared", func(g *meeting) { g.store(0, 5) }, func(g *meeting) {
			g.writes++
			require.NoError(g, g.w.Clear())
			g.store(0, 3)
			g.store(3, 5)
		}},
	} {
		// Where there are more than 64 slots, searches are others; where an owner has more
		// than 64 holes, it is walked.
		for _, others := range []int{0, 70} {
			for _, holes := range []int{0, 2, maxHoles + 1} {
				t.Run(fmt.Sprintf("%s/others=%d/holes=%d", c.name, others, holes), func(t *testing.T) {
					g := newMeeting(t)
					for i := range others {
						g.other(fmt.Sprint(i))
					}
					g.holesElsewhere(0, holes)
					c.begin(g)
					g.meet(func() { c.write(g) }, nil)
				})
			}
		}
	}
}

// TestLookupsMeetTheTurnToWalking makes one hole more than are listed, and closes one of
// as few as are listed again.
func TestLookupsMeetTheTurnToWalking(t *testing.T) {
	g := newMeeting(t)
	g.holesElsewhere(0, fewHoles-1)
	g.store(0, 8)
	g.remove(2, 3)
	g.meet(func() {
		require.False(t, g.w.contents.holes[levelGPU].walking)
		g.remove(2, 3)
		require.True(t, g.w.contents.holes[levelGPU].walking)
	}, func() { // 64 elsewhere, listed
		g.store(2, 3)
		g.noHolesElsewhere(fewHoles-1, maxHoles)
		g.holesElsewhere(fewHoles-1, maxHoles)
	})
	g.meet(func() {
		require.True(t, g.w.contents.holes[levelGPU].walking)
		g.noHolesElsewhere(fewHoles-1, fewHoles)
		require.False(t, g.w.contents.holes[levelGPU].walking)
	}, func() { // 32 elsewhere, walked, and one that came when none was listed
		g.store(2, 3)
		g.holesElsewhere(fewHoles-1, maxHoles+1)
		g.remove(2, 3)
		g.noHolesElsewhere(fewHoles, maxHoles+1)
	})
}

// TestFindsMeetOthersOfASet has slots come into a set and leave it, so that it changes its
// form: to a bitmap, and to a list.
func TestFindsMeetOthersOfASet(t *testing.T) {
	const hash = 1 << 50
	for _, far := range []uint32{0, 300} {
		var r records
		r.init()
		for slot := range uint32(3) {
			r.set(hash, slot)
		}
		mask, out := make([]uint64, 8), make([]uint64, 8)
		for i := range mask {
			mask[i] = ^uint64(0)
		}
		n := inTurns(true, func() {
			r.set(hash, far+3)
			r.set(hash, far+4)
			for _, slot := range []uint32{far + 3, far + 4, 2, 1} {
				r.unset(hash, slot)
			}
			r.set(hash, 1)
			r.set(hash, 2)
		}, func() {
			table := r.table(hash)
			table.intersect(table.find(hash), mask, out)
		}, func() {}, func() {}, func(int, int) {
			require.NotZero(t, out[0]&1, "slot 0 is always there")
			require.Zero(t, out[3], "slots 192 to 255 never are")
		})
		t.Logf("%d schedules", n)
	}
}

// TestFindsMeetMoves has records of one shard go, so that others move up, and come, while
// they are looked for.
func TestFindsMeetMoves(t *testing.T) {
	const keys = 5
	schedules := 0
	for name, hash := range map[string]func(int) uint64{
		"one home":      func(key int) uint64 { return uint64(key + 1) },
		"over the end":  func(key int) uint64 { return 1<<(64-shardBits) - 1 - uint64(key) },
		"several homes": func(key int) uint64 { return uint64(key/2)<<(64-shardBits-2) + uint64(key+1) },
	} {
		for key := range keys { // the one that is looked for
			for gone := range keys {
				if gone == key {
					continue
				}
				var r records
				r.init()
				begin := func() { // in this order
					for key := range keys {
						r.unset(hash(key), uint32(key))
					}
					for key := range keys {
						r.set(hash(key), uint32(key))
					}
				}
				var set uint64
				find := func() { set = r.table(hash(key)).find(hash(key)) }
				schedules += inTurns(true, func() {
					r.unset(hash(gone), uint32(gone))
					r.set(hash(keys), keys)
					r.unset(hash(keys), keys)
					r.set(hash(gone), uint32(gone))
				}, find, begin, func() {}, func(int, int) {
					require.EqualValues(t, key+1, set, "%s: key %d while %d is gone", name, key, gone)
				})
				// Who comes and goes has its own set, or none.
				schedules += inTurns(true, func() {
					r.unset(hash(key), uint32(key))
					r.set(hash(keys), keys)
					r.unset(hash(gone), uint32(gone))
					r.set(hash(key), uint32(key))
					r.unset(hash(keys), keys)
					r.set(hash(gone), uint32(gone))
				}, find, begin, func() {}, func(int, int) {
					require.Contains(t, []uint64{0, uint64(key) + 1}, set, "%s: key %d goes and comes", name, key)
				})
			}
		}
	}
	t.Logf("%d schedules", schedules)
}

// TestSlotGivenAwayDuringLookup has the owner leave during a lookup, and another come
// that holds more in the same slot.
func TestSlotGivenAwayDuringLookup(t *testing.T) {
	for _, how := range []string{"left", "begun again", "cleared"} {
		g := newMeeting(t)
		g.store(0, 3)
		slot := g.w.contents.slots
		g.at("found", func() {
			var err error
			switch how {
			case "left":
				g.ix.Leave(g.ep)
			case "begun again":
				_, err = g.ix.Writer(g.ep, 0)
			case "cleared":
				err = g.w.Clear()
			}
			require.NoError(t, err)
			g.ix.Stats() // sweeps
			w := g.other("b")
			require.Equal(t, slot, w.contents.slots)
			require.NoError(t, w.Insert(&g.all, -1))
		})
		require.Zero(t, g.run(&g.match), how)
		g.met()
		for e, h := range g.match.All() {
			t.Errorf("%s: %v has %+v", how, e, h)
		}
	}
}

// TestWriteThatTheFenceOvertakes has the owner leave after a write has taken its lock,
// or after that and before it is shown what it changes.
func TestWriteThatTheFenceOvertakes(t *testing.T) {
	block := Span{Hashes: []EngineHash{1}, Tokens: make([]uint32, 4), BlockTokens: 4}
	for name, write := range map[string]func(w *Writer) error{
		"Store":   func(w *Writer) error { return w.Store(&block) },
		"Insert":  func(w *Writer) error { return w.Insert(&Prompt{}, -1) },
		"Remove":  func(w *Writer) error { return w.Remove(&Removal{}) },
		"Clear":   func(w *Writer) error { return w.Clear() },
		"SetView": func(w *Writer) error { return w.SetView(ViewLive) },
	} {
		g := newMeeting(t)
		g.at("locked", func() { g.ix.Leave(g.ep) })
		require.ErrorIs(t, write(g.w), ErrFenced, name)
		g.met()
	}

	g := newMeeting(t)
	g.at("before the seat changes", func() { g.ix.Leave(g.ep) })
	require.ErrorIs(t, g.w.Clear(), ErrFenced)
	g.met()

	g = newMeeting(t)
	g.at("before the seat changes", func() { g.ix.Leave(g.ep) })
	cpu := block
	cpu.Tier = TierCPU
	_ = g.w.Store(&cpu) // it may not notice
	g.met()
	s := g.ix.Stats()
	require.Zero(t, s.Owners+s.Blocks+s.Holdings)
}

// TestLookupBesideSweepOfWhatExpired has another lookup sweep what one has found.
func TestLookupBesideSweepOfWhatExpired(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newMeeting(t)
	ix, err := New(Options{BlockTokens: 4, AssumedTTL: time.Minute, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	require.NoError(t, ix.Insert(ep, 0, &g.all, -1))
	now = now.Add(time.Hour)
	g.at("looked", func() {
		var m Match
		ix.Match(&g.all, &m)
		require.Zero(t, m.Of(ep).Any)
	})
	ix.Match(&g.all, &g.match)
	g.met()
	require.Zero(t, g.match.Of(ep).Any)
}

// TestProbesAreFew counts the blocks that lookups look at.
func TestProbesAreFew(t *testing.T) {
	const blocks = 1 << 10
	for _, others := range []int{0, 70} { // beyond 64 slots searches are others
		ix, err := New(Options{BlockTokens: 4})
		require.NoError(t, err)
		var p Prompt
		var m Match
		p.Reset(Scope{}, make([]uint32, 4*blocks))
		for i := range others {
			ep, err := ix.Join(fmt.Sprint("other ", i))
			require.NoError(t, err)
			require.NoError(t, ix.Insert(ep, 0, &p, blocks))
		}
		for i := range 9 {
			ep, err := ix.Join(fmt.Sprint(i))
			require.NoError(t, err)
			require.NoError(t, ix.Insert(ep, 0, &p, 100*i))
			probes := 0 // 10 bisect 1,024 blocks
			hook := func(where string) {
				if where == "probe" {
					probes++
				}
			}
			atYield.Store(&hook)
			ix.Match(&p, &m)
			atYield.Store(nil)
			require.Equal(t, 400*i, m.Of(ep).Any)
			require.LessOrEqual(t, probes, 10*(i+1), "%d lengths of run", i)
		}
	}
}

// TestSearchingAgainAllocatesNothing makes a hole during each lookup.
func TestSearchingAgainAllocatesNothing(t *testing.T) {
	g := newMeeting(t)
	g.store(0, 8)
	g.remove(4, 5)
	hook := func(where string) {
		if where == "found" {
			g.w.contents.noteHole(levelGPU)
		}
	}
	atYield.Store(&hook)
	require.Zero(t, testing.AllocsPerRun(10, func() { g.ix.Match(&g.all, &g.match) }))
	require.Equal(t, 4, g.match.Of(g.ep).Any/4)
}

// TestAliasBesideMoves stores a block after one that another of its names holds, while
// other owners' records move so often that a lookup gives up.
func TestAliasBesideMoves(t *testing.T) {
	g := newMeeting(t)
	other := func(s *Span) { s.Group = 1 }
	g.store(0, 1, other)
	g.remove(0, 1, 1)
	g.store(0, 1)
	hook := func(where string) {
		switch where {
		case "record: key read":
			g.ix.records.table(uint64(g.ix.Hasher().Hash(&g.all, 1))).moved.Add(1)
		case "bit set":
			atYield.Store(nil)
		}
	}
	atYield.Store(&hook)
	g.store(1, 2, other)
	g.met()
	require.Equal(t, 2, g.run(&g.match))
}

// TestMatchServesSmallerIndex uses a Match of a larger index, in which one of the slots
// that the smaller has not is walked, as the smaller is about to get that slot.
func TestMatchServesSmallerIndex(t *testing.T) {
	large := newMeeting(t)
	for i := range 64 {
		large.w = large.other(fmt.Sprint(i))
	}
	large.store(0, 8)
	large.holesElsewhere(0, maxHoles+1)

	g := newMeeting(t)
	g.store(0, 8)
	g.holesElsewhere(0, maxHoles+1)
	for i := range 63 {
		g.other(fmt.Sprint(i))
	}
	large.run(&g.match)
	g.at("holes known", func() {
		g.w = g.other("late")
		g.store(0, 8)
	})
	require.Equal(t, 8, g.run(&g.match))
	g.met()
}
