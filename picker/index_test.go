package picker_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// fleet is an index with endpoints, and a prompt of 1,000 tokens.
type fleet struct {
	t      *testing.T
	ix     *prefixindex.Index
	prompt prefixindex.Prompt
	at     map[string]prefixindex.Endpoint
}

func newFleet(t *testing.T, names ...string) *fleet {
	ix, err := prefixindex.New(prefixindex.Options{Seed: 1})
	require.NoError(t, err)
	f := &fleet{t: t, ix: ix, at: map[string]prefixindex.Endpoint{}}
	tokens := make([]uint32, 1_000)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	f.prompt.Reset(prefixindex.Scope{Model: "m"}, tokens)
	for _, name := range names {
		f.join(name)
	}
	return f
}

func (f *fleet) join(name string) {
	e, err := f.ix.Join(name)
	require.NoError(f.t, err)
	f.at[name] = e
}

func (f *fleet) warm(name string, rank, blocks int) *prefixindex.Writer {
	w, err := f.ix.Writer(f.at[name], rank)
	require.NoError(f.t, err)
	require.NoError(f.t, w.Insert(&f.prompt, blocks))
	return w
}

func (f *fleet) candidates(names ...string) []scorer.Candidate {
	cs := make([]scorer.Candidate, len(names))
	for i, name := range names {
		cs[i] = scorer.Candidate{Endpoint: f.at[name], Signals: idle()}
	}
	return cs
}

func TestPickAsksTheIndex(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	f.warm("a", 0, 10)
	f.warm("b", 0, 20)
	f.warm("b", 1, 50)
	pk := newPicker(t, picker.Options{Index: f.ix})
	var rec picker.Record
	call := picker.Call{Prompt: &f.prompt, Candidates: f.candidates("a", "b", "c"), Record: &rec}
	d, err := pk.Pick(&call)
	require.NoError(t, err)
	require.Equal(t, 1, d.Index)
	require.Equal(t, 1, d.Rank)
	require.Equal(t, scorer.Known(800), d.CachedTokens)
	require.Equal(t, 1_000, d.PromptTokens)
	fallback, _ := d.Fallback(0)
	require.Equal(t, f.at["a"], fallback.Endpoint)
	require.Equal(t, scorer.Known(160), fallback.CachedTokens)
	require.Equal(t, 800, call.Match().Of(f.at["b"]).GPU)
	require.Equal(t, uint64(1), pk.Stats().Blind, "nobody ever heard of c")
	last, _ := d.Fallback(1)
	require.Equal(t, scorer.Value{}, last.CachedTokens)
	require.Equal(t, -1, last.Rank)
	require.True(t, rec.Matched)
	require.Contains(t, rec.Explain(), "c: nothing was ever heard of what it caches.")
	require.Contains(t, rec.Explain(), "b: what it caches is assumed from what was sent there.")
}

// An endpoint that left, and one that never was, may be candidates: nothing is cached
// there, nothing counted, and the ledger is not touched.
func TestStrangers(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.warm("a", 0, 62)
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Index: f.ix, Ledger: l, Scorers: only(1, 0)})
	cs := f.candidates("a", "b")
	cs[1].Endpoint = 0
	f.ix.Leave(f.at["a"])
	d, err := pk.Pick(&picker.Call{Prompt: &f.prompt, Candidates: cs})
	require.NoError(t, err)
	require.Equal(t, scorer.Value{}, d.CachedTokens)
	require.Equal(t, uint64(2), pk.Stats().Strangers)
	inFlight(t, l, f.at["a"], 0, 0)
	d.Moved(f.at["b"])
	inFlight(t, l, f.at["b"], 1, 1_000)
	d.Moved(f.at["a"])
	inFlight(t, l, f.at["b"], 0, 0)
	d.Done(picker.Outcome{})
	require.Zero(t, l.Stats().Open)
}

// A request outlives its endpoint, which comes back under its old name: the counts of
// the new one are its own.
func TestEndpointLeavesAndReturns(t *testing.T) {
	f := newFleet(t, "a", "b")
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Index: f.ix, Ledger: l})
	a := send(t, pk, f.at["a"], 100)
	f.ix.Leave(f.at["a"])
	f.join("a")
	b := send(t, pk, f.at["a"], 100)
	a.Done(picker.Outcome{})
	inFlight(t, l, f.at["a"], 1, 100)
	b.Done(picker.Outcome{})
	inFlight(t, l, f.at["a"], 0, 0)
	require.Equal(t, uint64(1), l.Stats().Late)
}

func TestMatchIsSkippedWhereItMakesNoDifference(t *testing.T) {
	f := newFleet(t, "a", "b", "ranks")
	f.warm("a", 0, 30)
	f.warm("ranks", 0, 10)
	f.warm("ranks", 1, 30)
	for name, c := range map[string]struct {
		min     int
		edit    func(cs []scorer.Candidate)
		names   []string
		matched bool
		alone   uint64
		short   uint64
	}{
		"two":                      {names: []string{"a", "b"}, matched: true},
		"one":                      {names: []string{"a"}, alone: 1},
		"one with ranks to choose": {names: []string{"ranks"}, matched: true},
		"one left of two":          {names: []string{"a", "b"}, edit: func(cs []scorer.Candidate) { cs[1].Skip = true }, alone: 1},
		"the host knows of all": {names: []string{"a", "b"}, edit: func(cs []scorer.Candidate) {
			cs[0].Cached, cs[1].Cached = scorer.Holds(prefixindex.Held{}), scorer.Holds(prefixindex.Held{})
		}},
		"the host knows of one":          {names: []string{"a", "b"}, edit: func(cs []scorer.Candidate) { cs[0].Cached = scorer.Holds(prefixindex.Held{}) }, matched: true},
		"the prompt is too short":        {min: 1_001, names: []string{"a", "b"}, short: 1},
		"the prompt is just long enough": {min: 1_000, names: []string{"a", "b"}, matched: true},
	} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{Index: f.ix, MinPromptTokens: c.min})
			cs := f.candidates(c.names...)
			if c.edit != nil {
				c.edit(cs)
			}
			var rec picker.Record
			_, err := pk.Pick(&picker.Call{Prompt: &f.prompt, Candidates: cs, Record: &rec})
			require.NoError(t, err)
			require.Equal(t, c.matched, rec.Matched)
			require.Equal(t, c.alone, pk.Stats().Alone)
			require.Equal(t, c.short, pk.Stats().Short)
		})
	}
	_, err := picker.New(picker.Options{MinPromptTokens: -1})
	require.ErrorContains(t, err, "MinPromptTokens is -1")
}

func TestPickWithAnIndexAllocatesNothing(t *testing.T) {
	f := newFleet(t, "a", "b", "c", "d")
	f.warm("a", 0, 30)
	pk := newPicker(t, picker.Options{Index: f.ix})
	call := picker.Call{Prompt: &f.prompt, Candidates: f.candidates("a", "b", "c", "d"), Request: scorer.Request{Session: "s"}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		d, err := pk.Pick(&call)
		if err != nil {
			t.Fatal(err)
		}
		d.Done(picker.Outcome{CachedTokens: scorer.Known(480)})
	}))
}

// witness is an observer of everything.
type witness struct {
	picks []picker.PickEvent
	ends  []picker.DoneEvent
	views []picker.ViewEvent
}

func (w *witness) OnPick(e picker.PickEvent) { w.picks = append(w.picks, e) }
func (w *witness) OnDone(e picker.DoneEvent) { w.ends = append(w.ends, e) }
func (w *witness) OnView(e picker.ViewEvent) { w.views = append(w.views, e) }

func TestObservers(t *testing.T) {
	f, c := newFleet(t, "a", "b"), newClock()
	writer := f.warm("a", 0, 30)
	var w witness
	pk := newPicker(t, picker.Options{Index: f.ix, Clock: c.time, Observers: []picker.Observer{&w}})
	call := picker.Call{Prompt: &f.prompt, Candidates: f.candidates("a", "b")}
	d, err := pk.Pick(&call)
	require.NoError(t, err)
	require.Len(t, w.picks, 1)
	require.Equal(t, &call, w.picks[0].Call)
	require.Equal(t, d, w.picks[0].Decision)
	require.Equal(t, []picker.ViewEvent{{Endpoint: f.at["a"], Name: "a", From: prefixindex.ViewNever, To: prefixindex.ViewAssumed}}, w.views)

	require.NoError(t, writer.SetView(prefixindex.ViewStale))
	_, err = pk.Pick(&call)
	require.NoError(t, err)
	_, err = pk.Pick(&call)
	require.NoError(t, err)
	require.Len(t, w.views, 2)
	require.Equal(t, prefixindex.ViewStale, w.views[1].To)

	c.forward(time.Second)
	d.FirstToken()
	c.forward(time.Second)
	d.Done(picker.Outcome{Result: picker.OK})
	d.Done(picker.Outcome{Result: picker.OK})
	require.Equal(t, []picker.DoneEvent{{
		Decision: d, Outcome: picker.Outcome{Result: picker.OK}, Endpoint: f.at["a"],
		FirstToken: time.Second, Total: 2 * time.Second,
	}}, w.ends)

	call.Candidates = nil
	_, err = pk.Pick(&call)
	require.ErrorIs(t, err, picker.ErrNoCandidates)
	require.ErrorIs(t, w.picks[3].Err, picker.ErrNoCandidates)

	_, err = picker.New(picker.Options{Observers: []picker.Observer{3}})
	require.ErrorContains(t, err, "Observers[0] is a int; it must have OnPick, OnDone or OnView")
}

// A rank that is alone with a number of its own is seen too.
func TestViewOfALoneRankIsSeen(t *testing.T) {
	f := newFleet(t, "a", "b")
	writer := f.warm("a", 3, 30)
	var w witness
	pk := newPicker(t, picker.Options{Index: f.ix, Observers: []picker.Observer{&w}})
	call := picker.Call{Prompt: &f.prompt, Candidates: f.candidates("a", "b")}
	for range 2 {
		_, err := pk.Pick(&call)
		require.NoError(t, err)
	}
	require.NoError(t, writer.SetView(prefixindex.ViewStale))
	_, err := pk.Pick(&call)
	require.NoError(t, err)
	require.Equal(t, []picker.ViewEvent{
		{Endpoint: f.at["a"], Name: "a", Rank: 3, From: prefixindex.ViewNever, To: prefixindex.ViewAssumed},
		{Endpoint: f.at["a"], Name: "a", Rank: 3, From: prefixindex.ViewAssumed, To: prefixindex.ViewStale},
	}, w.views)

	// A rank that the host made up is not looked for.
	call.Candidates[1].Cached = scorer.Holds(prefixindex.Held{Rank: math.MaxInt - 1, GPU: 16})
	_, err = pk.Pick(&call)
	require.NoError(t, err)
}

type panicking struct{}

func (panicking) OnPick(picker.PickEvent) { panic("a bug of the host") }

// wanting is an observer that wants records of some picks.
type wanting struct {
	want bool
	seen []*picker.Record
}

func (w *wanting) WantsRecord() bool         { return w.want }
func (w *wanting) OnPick(e picker.PickEvent) { w.seen = append(w.seen, e.Call.Record) }

func TestRecordObserver(t *testing.T) {
	var a, b wanting
	pk := newPicker(t, picker.Options{Observers: []picker.Observer{&a, &b}})
	call := picker.Call{Candidates: endpoints(2)}
	pick := func() (seen *picker.Record) {
		d, err := pk.Pick(&call)
		require.NoError(t, err)
		d.Done(picker.Outcome{})
		seen = a.seen[len(a.seen)-1]
		require.Same(t, seen, b.seen[len(b.seen)-1])
		return seen
	}
	require.Nil(t, pick())
	b.want = true
	record := pick()
	require.Equal(t, uint64(2), record.Pick)
	require.Len(t, record.Candidates, 2)
	require.Nil(t, call.Record, "the host did not ask")
	require.Same(t, record, pick(), "its memory is used again")
	call.Record = new(picker.Record)
	require.Same(t, call.Record, pick())
	call.Record, b.want = nil, false
	require.Nil(t, pick())
}

// A pick whose observer panics returns no decision, and leaves no load that nobody could
// release.
func TestPanickingObserverLeavesNoLoad(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l, Observers: []picker.Observer{panicking{}}})
	require.PanicsWithValue(t, "a bug of the host", func() {
		_, _ = pk.Pick(&picker.Call{Candidates: endpoints(2)})
	})
	inFlight(t, l, 1, 0, 0)
	inFlight(t, l, 2, 0, 0)
	require.Zero(t, l.Stats().Open)
}
