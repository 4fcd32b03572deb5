package prefixindex_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/internal/reference"
	"github.com/warmroute/warmroute/prefixindex"
)

// TestIndexEqualsReference writes at random to an index and to the reference, and
// compares every answer after every write.
func TestIndexEqualsReference(t *testing.T) {
	rapid.Check(t, equalsReference)
}

// FuzzIndex does so guided by coverage. A run takes its choices from the input and ends
// where that does, which is at the first write or before it unless seeds are long.
func FuzzIndex(f *testing.F) {
	for seed := range byte(16) {
		input := make([]byte, 16<<10)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(input)
		f.Add(input)
	}
	f.Fuzz(rapid.MakeFuzz(equalsReference))
}

func equalsReference(t *rapid.T) {
	m := newMachine(t, 1<<20)
	t.Repeat(m.actions())
}

// TestCapacityOfAssumedBlocks does so without events, in little room.
func TestCapacityOfAssumedBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, rapid.IntRange(1, 8).Draw(t, "OwnerBlocks"))
		a := m.actions()
		delete(a, "store")
		delete(a, "store prompt")
		delete(a, "chaos")
		delete(a, "expect")
		t.Repeat(a)
	})
}

// TestCapacityWithEvents checks what holds whichever blocks the capacity pushes out:
// no owner is credited with more of them than allowed, nor with any that it does not
// hold, and copies are counted as if nothing had been pushed out.
func TestCapacityWithEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, rapid.IntRange(1, 8).Draw(t, "OwnerBlocks"))
		m.bounded = true
		a := m.actions()
		delete(a, "insert")
		delete(a, "expect") // nothing confirms a block that was pushed out
		t.Repeat(a)
	})
}

// TestWhatIsShedIsNotCredited does so where owners give up what they know for want of
// memory.
func TestWhatIsShedIsNotCredited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, 1<<20)
		m.bounded, m.shedding = true, true
		a := m.actions()
		delete(a, "chaos")  // of two contents under one name, the first may be shed
		delete(a, "expect") // nothing confirms a block that was shed
		a["shed"] = func(t *rapid.T) { m.owner(t).w.Shed() }
		t.Repeat(a)
	})
}

// TestEventsAlone leaves out what makes an owner look entries up by block hash, so that
// aliases are noticed without.
func TestEventsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, 1<<20)
		a := m.actions()
		delete(a, "insert")
		delete(a, "restart")
		delete(a, "new epoch or clear")
		t.Repeat(a)
	})
}

// machine drives an index and one reference for each owner.
type machine struct {
	ix      *prefixindex.Index
	options prefixindex.Options
	now     time.Time

	bounded  bool // events may be pushed out by OwnerBlocks
	shedding bool // and what is known of them forgotten

	owners map[ownerID]*ownerState
	ended  []*prefixindex.Writer

	prompts []prompt
	sizes   []int
	p       prefixindex.Prompt
	m       prefixindex.Match
}

type ownerID struct {
	name string
	rank int
}

type ownerState struct {
	w    *prefixindex.Writer // nil: opened by Index.Insert
	ref  *reference.Owner
	fed  bool
	view prefixindex.View
}

type prompt struct {
	scope  prefixindex.Scope
	tokens []uint32
	extras []prefixindex.Extra
}

func newMachine(t *rapid.T, ownerBlocks int) *machine {
	m := &machine{
		now:    time.Unix(1000, 0),
		owners: map[ownerID]*ownerState{},
	}
	m.options = prefixindex.Options{
		BlockTokens:  rapid.SampledFrom([]int{4, 4, 5, 8}).Draw(t, "BlockTokens"),
		OwnerBlocks:  ownerBlocks,
		OwnerOrphans: rapid.SampledFrom([]int{-1, 3, 100, 100}).Draw(t, "OwnerOrphans"),
		Copies:       rapid.IntRange(1, 3).Draw(t, "Copies"),
		AssumedTTL:   rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "AssumedTTL"),
		Clock:        func() time.Time { return m.now },
	}
	var err error
	m.ix, err = prefixindex.New(m.options)
	require.NoError(t, err)
	// Engine blocks equal to the index's, smaller, larger, and with no common divisor.
	m.sizes = rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 4, 5, 6, 8, 12, 16}), 1, 3).Draw(t, "sizes")
	m.sizes = append(m.sizes, m.options.BlockTokens)
	m.prompts = drawPrompts(t)
	return m
}

// drawPrompts draws prompts that share prefixes and differ in tokens, scope or images.
func drawPrompts(t *rapid.T) []prompt {
	scopes := []prefixindex.Scope{
		{Model: "m"}, {Model: "m"}, {Model: "m", Adapter: "x"}, {Model: "m", Salt: "x"},
	}
	base := rapid.SliceOfN(rapid.Uint32Range(1, 3), 50, 50).Draw(t, "base")
	var ps []prompt
	for i := range rapid.IntRange(1, 5).Draw(t, "prompts") {
		p := prompt{
			scope:  rapid.SampledFrom(scopes).Draw(t, "scope"),
			tokens: slices.Clone(base[:rapid.IntRange(10, 50).Draw(t, "length")]),
		}
		if from := rapid.IntRange(0, len(p.tokens)).Draw(t, "branch"); i > 0 {
			for j := from; j < len(p.tokens); j++ {
				p.tokens[j] = uint32(10 + i)
			}
		}
		for _, at := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(p.tokens)-1), 0, 2, rapid.ID).Draw(t, "extras") {
			p.extras = append(p.extras, prefixindex.Extra{
				At:   at,
				Kind: prefixindex.ExtraKind(rapid.IntRange(0, 2).Draw(t, "kind")),
				ID:   rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "id"),
			})
		}
		slices.SortFunc(p.extras, func(a, b prefixindex.Extra) int { return a.At - b.At })
		ps = append(ps, p)
	}
	return ps
}

// chain is a prompt cut into engine blocks: some of one size, the rest of another.
type chain struct {
	prompt
	hashes []prefixindex.EngineHash
	starts []int // one more than hashes
	turn   int   // number of blocks of the first size
}

func (m *machine) drawChain(t *rapid.T) chain {
	c := chain{prompt: rapid.SampledFrom(m.prompts).Draw(t, "prompt"), starts: []int{0}}
	first := rapid.SampledFrom(m.sizes).Draw(t, "first size")
	second := rapid.SampledFrom(m.sizes).Draw(t, "second size")
	c.turn = rapid.IntRange(0, 4).Draw(t, "turn")
	h := xxhash.Sum64String(fmt.Sprint(c.scope))
	for at := 0; ; {
		size := first
		if len(c.hashes) >= c.turn {
			size = second
		}
		if at+size > len(c.tokens) {
			break
		}
		s := fmt.Sprint(size, c.tokens[at:at+size])
		for _, x := range c.extras {
			if x.At >= at && x.At < at+size {
				s += fmt.Sprint(x)
			}
		}
		h = xxhash.Sum64(binary.LittleEndian.AppendUint64([]byte(s), h))
		at += size
		c.hashes = append(c.hashes, prefixindex.EngineHash(h))
		c.starts = append(c.starts, at)
	}
	c.turn = min(c.turn, len(c.hashes))
	return c
}

// span returns blocks from to to of the chain.
func (c *chain) span(from, to int) *prefixindex.Span {
	s := &prefixindex.Span{
		Hashes:      c.hashes[from:to],
		Tokens:      c.tokens[c.starts[from]:c.starts[to]],
		BlockTokens: c.starts[from+1] - c.starts[from],
	}
	if from == 0 {
		s.Scope = c.scope
	} else {
		s.Parent, s.HasParent = c.hashes[from-1], true
	}
	for _, x := range c.extras {
		if x.At >= c.starts[from] && x.At < c.starts[to] {
			x.At -= c.starts[from]
			s.Extras = append(s.Extras, x)
		}
	}
	return s
}

// run draws a part of the chain whose blocks have one size; it may be empty.
func (c *chain) run(t *rapid.T) (from, to int) {
	if len(c.hashes) == 0 {
		return 0, 0
	}
	from = rapid.IntRange(0, len(c.hashes)-1).Draw(t, "from")
	if rapid.Bool().Draw(t, "whole prompt") {
		from = 0
	}
	end := len(c.hashes)
	if from < c.turn {
		end = c.turn
	}
	return from, rapid.IntRange(from+1, end).Draw(t, "to")
}

func drawTier(t *rapid.T) prefixindex.Tier {
	return rapid.SampledFrom([]prefixindex.Tier{
		prefixindex.TierGPU, prefixindex.TierGPU, prefixindex.TierGPU,
		prefixindex.TierCPU, prefixindex.TierDisk, prefixindex.TierShared,
	}).Draw(t, "tier")
}

func drawGroup(t *rapid.T) int {
	return rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "group")
}

// owner draws an owner that has a Writer, opening one if needed.
func (m *machine) owner(t *rapid.T) *ownerState {
	id := ownerID{
		rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "name"),
		rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "rank"),
	}
	if o := m.owners[id]; o != nil && o.w != nil {
		return o
	}
	return m.open(t, id)
}

func (m *machine) open(t *rapid.T, id ownerID) *ownerState {
	ep, err := m.ix.Join(id.name)
	require.NoError(t, err)
	w, err := m.ix.Writer(ep, id.rank)
	require.NoError(t, err)
	m.end(id)
	m.owners[id] = &ownerState{w: w, ref: m.reference()}
	return m.owners[id]
}

func (m *machine) reference() *reference.Owner {
	return reference.New(m.ix.Hasher(), reference.Options{
		OwnerBlocks:  m.options.OwnerBlocks,
		OwnerOrphans: max(m.options.OwnerOrphans, 0),
		Copies:       m.options.Copies,
		AssumedTTL:   m.options.AssumedTTL,
	})
}

func (m *machine) end(id ownerID) {
	if o := m.owners[id]; o != nil {
		if o.w != nil {
			m.ended = append(m.ended, o.w)
		}
		delete(m.owners, id)
	}
}

func (m *machine) endEndpoint(name string) {
	for id := range m.owners {
		if id.name == name {
			m.end(id)
		}
	}
}

func (o *ownerState) store(t *rapid.T, s *prefixindex.Span) {
	require.NoError(t, o.w.Store(s))
	o.ref.Store(s)
	o.fed = true
}

func (m *machine) actions() map[string]func(*rapid.T) {
	// The actions named twice are to come more often.
	store := func(t *rapid.T) {
		o, c := m.owner(t), m.drawChain(t)
		from, to := c.run(t)
		if from == to {
			return
		}
		s := c.span(from, to)
		s.Tier, s.Group = drawTier(t), drawGroup(t)
		// Rounding to chunks is no monotone function of what is held: pushing a block
		// out can lengthen a run.
		s.Whole = !m.bounded && rapid.IntRange(0, 9).Draw(t, "whole") == 0
		if rapid.IntRange(0, 5).Draw(t, "by name") == 0 {
			s.Tokens = nil
			if rapid.Bool().Draw(t, "without size") {
				s.BlockTokens = 0
			}
		}
		o.store(t, s)
	}
	// prompt stores a whole prompt in spans of one size each.
	prompt := func(t *rapid.T) {
		o, c := m.owner(t), m.drawChain(t)
		tier, group := drawTier(t), drawGroup(t)
		for _, r := range [][2]int{{0, c.turn}, {c.turn, len(c.hashes)}} {
			if r[0] < r[1] {
				s := c.span(r[0], r[1])
				s.Tier, s.Group = tier, group
				o.store(t, s)
			}
		}
	}
	remove := func(t *rapid.T) {
		o, c := m.owner(t), m.drawChain(t)
		from, to := c.run(t)
		r := &prefixindex.Removal{Hashes: c.hashes[from:to], Tier: drawTier(t), Group: drawGroup(t)}
		require.NoError(t, o.w.Remove(r))
		o.ref.Remove(r)
	}
	actions := map[string]func(*rapid.T){
		"":              m.check,
		"store":         store,
		"store prompt":  prompt,
		"remove":        remove,
		"remove again":  remove,
		"insert":        m.insert,
		"expect":        m.expect,
		"wait":          func(t *rapid.T) { m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "s")) * time.Second) },
		"chaos":         m.chaos,
		"late":          m.late,
		"member leaves": m.leave,
		"restart":       m.restart,
		"new epoch or clear": func(t *rapid.T) {
			if rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
				return
			}
			o := m.owner(t)
			if rapid.Bool().Draw(t, "clear") {
				require.NoError(t, o.w.Clear())
				o.ref.Clear()
				return
			}
			for id := range m.owners {
				if m.owners[id] == o {
					m.open(t, id)
				}
			}
		},
		"view": func(t *rapid.T) {
			o := m.owner(t)
			o.view = prefixindex.View(rapid.IntRange(0, 5).Draw(t, "view"))
			require.NoError(t, o.w.SetView(o.view))
		},
	}
	return actions
}

// chaos stores blocks under names from a small pool, so that names are repeated with
// other contents and parents turn in circles.
func (m *machine) chaos(t *rapid.T) {
	name := rapid.Map(rapid.Uint64Range(1, 5), func(n uint64) prefixindex.EngineHash { return prefixindex.EngineHash(n) })
	hashes := rapid.SliceOfN(name, 1, 3).Draw(t, "hashes")
	p := rapid.SampledFrom(m.prompts).Draw(t, "prompt")
	size := min(rapid.SampledFrom(m.sizes).Draw(t, "size"), len(p.tokens)/len(hashes))
	s := &prefixindex.Span{
		Hashes:      hashes,
		Parent:      name.Draw(t, "parent"),
		HasParent:   rapid.Bool().Draw(t, "has parent"),
		Tokens:      p.tokens[:size*len(hashes)],
		BlockTokens: size,
		Scope:       p.scope,
		Tier:        drawTier(t),
	}
	if rapid.Bool().Draw(t, "image") {
		s.Extras = []prefixindex.Extra{{At: rapid.IntRange(0, len(s.Tokens)-1).Draw(t, "at")}}
	}
	seen := map[prefixindex.EngineHash]bool{s.Parent: s.HasParent}
	wellFormed := true
	for _, h := range hashes {
		wellFormed = wellFormed && !seen[h]
		seen[h] = true
	}
	o := m.owner(t)
	if wellFormed {
		o.store(t, s)
	} else {
		require.ErrorIs(t, o.w.Store(s), prefixindex.ErrSpan)
	}
	r := &prefixindex.Removal{Hashes: []prefixindex.EngineHash{name.Draw(t, "removed")}}
	require.NoError(t, o.w.Remove(r))
	o.ref.Remove(r)
}

func (m *machine) insert(t *rapid.T) {
	p := rapid.SampledFrom(m.prompts).Draw(t, "prompt")
	m.p.Reset(p.scope, p.tokens, p.extras...)
	n := rapid.IntRange(-1, len(p.tokens)/m.options.BlockTokens+1).Draw(t, "blocks")
	hashes := reference.Hashes(m.ix.Hasher(), p.scope, p.tokens, p.extras)
	if n >= 0 && n < len(hashes) {
		hashes = hashes[:n]
	}
	var o *ownerState
	if rapid.Bool().Draw(t, "through the index") {
		id := ownerID{"c", rapid.IntRange(0, 1).Draw(t, "rank")}
		if rapid.Bool().Draw(t, "known owner") {
			id = ownerID{"a", 0}
		}
		ep, err := m.ix.Join(id.name)
		require.NoError(t, err)
		o = m.owners[id]
		if o == nil {
			o = &ownerState{ref: m.reference()}
			m.owners[id] = o
		}
		err = m.ix.Insert(ep, id.rank, &m.p, n)
		if o.fed {
			require.ErrorIs(t, err, prefixindex.ErrEvents)
			return
		}
		require.NoError(t, err)
	} else {
		o = m.owner(t)
		require.NoError(t, o.w.Insert(&m.p, n))
	}
	if o.view == prefixindex.ViewNever {
		o.view = prefixindex.ViewAssumed
	}
	o.ref.Insert(hashes, m.now)
}

func (m *machine) expect(t *rapid.T) {
	p := rapid.SampledFrom(m.prompts).Draw(t, "prompt")
	m.p.Reset(p.scope, p.tokens, p.extras...)
	from := rapid.IntRange(0, len(p.tokens)/m.options.BlockTokens).Draw(t, "from")
	ttl := time.Duration(rapid.IntRange(1, 6).Draw(t, "ttl")) * time.Second
	id := ownerID{rapid.SampledFrom([]string{"a", "a", "c"}).Draw(t, "name"), 0}
	ep, err := m.ix.Join(id.name)
	require.NoError(t, err)
	if m.owners[id] == nil {
		m.owners[id] = &ownerState{ref: m.reference()}
	}
	require.NoError(t, m.ix.Expect(ep, id.rank, &m.p, from, ttl))
	m.owners[id].ref.Expect(reference.Hashes(m.ix.Hasher(), p.scope, p.tokens, p.extras), from, m.now.Add(ttl), m.now)
}

func (m *machine) late(t *rapid.T) {
	if len(m.ended) == 0 {
		return
	}
	w := rapid.SampledFrom(m.ended).Draw(t, "ended writer")
	c := m.drawChain(t)
	if len(c.hashes) > 0 {
		require.ErrorIs(t, w.Store(c.span(0, 1)), prefixindex.ErrFenced)
	}
	require.ErrorIs(t, w.Remove(&prefixindex.Removal{Hashes: c.hashes}), prefixindex.ErrFenced)
	require.ErrorIs(t, w.Insert(&m.p, -1), prefixindex.ErrFenced)
	require.ErrorIs(t, w.Clear(), prefixindex.ErrFenced)
	require.ErrorIs(t, w.SetView(prefixindex.ViewLive), prefixindex.ErrFenced)
	s := w.Stats()
	require.Zero(t, s.Holdings+s.Handles+s.Orphans+s.Owners)
}

func (m *machine) leave(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
		return
	}
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	old, ok := m.ix.Find(name)
	if rapid.Bool().Draw(t, "retain") {
		var names []string
		for _, n := range m.ix.Endpoints() {
			if n != name {
				names = append(names, n)
			}
		}
		left := m.ix.Retain(append(names, "nobody"))
		require.Equal(t, ok, left == 1)
	} else {
		m.ix.Leave(old)
	}
	m.endEndpoint(name)
	require.Empty(t, m.ix.Name(old))
	if rapid.Bool().Draw(t, "joins again") && ok {
		e, err := m.ix.Join(name)
		require.NoError(t, err)
		require.NotEqual(t, old, e)
		if e.Slot() == old.Slot() {
			require.Greater(t, e, old)
		}
	}
}

// restart replaces the index by what Restore makes of its snapshot.
func (m *machine) restart(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
		return
	}
	var file bytes.Buffer
	require.NoError(t, m.ix.Snapshot(&file))
	options := m.options
	options.BlockTokens = 0 // the snapshot's
	ix, err := prefixindex.Restore(options, &file)
	require.NoError(t, err)
	for id, o := range m.owners {
		ep, ok := ix.Find(id.name)
		require.True(t, ok)
		w, _, err := ix.Resume(ep, id.rank)
		require.NoError(t, err)
		if o.w != nil {
			o.w = w
		}
		if o.view != prefixindex.ViewNever && o.view != prefixindex.ViewAssumed {
			o.view = prefixindex.ViewStale
		}
		o.ref.Counts = reference.Counts{}
		o.ref.DropExpected()
	}
	m.ix, m.ended = ix, nil
}

// check compares every answer.
func (m *machine) check(t *rapid.T) {
	// Lookups first: what has expired must be gone before anything sweeps it.
	for _, p := range m.prompts {
		m.p.Reset(p.scope, p.tokens, p.extras...)
		m.ix.Match(&m.p, &m.m)
		hashes := reference.Hashes(m.ix.Hasher(), p.scope, p.tokens, p.extras)
		require.Equal(t, len(p.tokens), m.m.PromptTokens())
		holding := 0
		for id, o := range m.owners {
			want := o.ref.Match(hashes, m.now)
			ep, ok := m.ix.Find(id.name)
			require.True(t, ok)
			h := m.m.Rank(ep, id.rank)
			got := [3]int{h.GPU, h.CPU, h.Any}
			require.Equal(t, id.rank, h.Rank)
			require.Equal(t, o.view, h.View)
			if m.bounded {
				for l := range got {
					require.LessOrEqual(t, got[l], want[l], "%v, level %d", id, l)
				}
			} else {
				require.Equal(t, want, got, "%v", id)
			}
			if got[2] > 0 {
				holding++
			}
			best := m.m.Of(ep)
			require.GreaterOrEqual(t, best.GPU+best.CPU+best.Any, got[0]+got[1]+got[2])
		}
		for ep, h := range m.m.All() {
			require.Equal(t, m.m.Rank(ep, h.Rank), h)
			holding--
		}
		require.Zero(t, holding, "owners that All yields and that hold something")
	}

	all := map[prefixindex.BlockHash]bool{}
	var holdings, handles, orphans int
	for id, o := range m.owners {
		o.ref.Expire(m.now)
		held := o.ref.Held(prefixindex.TierShared, m.now)
		for b := range held {
			all[b] = true
		}
		holdings += len(held)
		handles += o.ref.Handles()
		orphans += o.ref.Orphans()
		if o.w != nil {
			s := o.w.Stats()
			if m.bounded {
				require.LessOrEqual(t, s.Holdings, m.options.OwnerBlocks)
				require.LessOrEqual(t, s.Holdings, len(held))
			} else {
				require.Equal(t, len(held), s.Holdings, "%v", id)
				onGPU := len(o.ref.Held(prefixindex.TierGPU, m.now))
				require.Equal(t, onGPU, s.HoldingsGPU, "%v", id)
				require.Equal(t, len(o.ref.Held(prefixindex.TierCPU, m.now))-onGPU, s.HoldingsCPU, "%v", id)
			}
			if m.shedding {
				continue
			}
			require.Equal(t, o.ref.Handles(), s.Handles, "%v", id)
			require.Equal(t, o.ref.Orphans(), s.Orphans, "%v", id)
			got := reference.Counts{
				Stored: s.Stored, Copies: s.Copies, CopiesCapped: s.CopiesCapped, Inserted: s.Inserted,
				Removed: s.Removed, RemovedUnknown: s.RemovedUnknown, Placed: s.Placed,
				PlacedUnknown: s.PlacedUnknown, Parked: s.Parked, ParkedDropped: s.ParkedDropped,
				Conflicts: s.Conflicts, Evicted: s.Evicted, Expired: s.Expired,
				Expected: s.Expected, Confirmed: s.Confirmed,
			}
			if m.bounded {
				got.Evicted = o.ref.Counts.Evicted
			}
			require.Equal(t, o.ref.Counts, got, "%v", id)
		}
	}
	s := m.ix.Stats()
	require.Equal(t, len(m.owners), s.Owners)
	if !m.shedding {
		require.Equal(t, handles, s.Handles)
		require.Equal(t, orphans, s.Orphans)
	}
	if !m.bounded {
		require.Equal(t, holdings, s.Holdings)
		require.Equal(t, len(all), s.Blocks)
	}
}
