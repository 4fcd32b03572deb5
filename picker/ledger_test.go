package picker_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

func newLedger(t testing.TB) *picker.Ledger {
	t.Helper()
	l, err := picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	return l
}

func handle(slot, generation int) prefixindex.Endpoint {
	return prefixindex.Endpoint(uint64(generation)<<32 | uint64(slot))
}

// send picks e, the only candidate.
func send(t testing.TB, pk *picker.Picker, e prefixindex.Endpoint, prompt int) picker.Decision {
	t.Helper()
	d, err := pk.Pick(&picker.Call{
		Request:    scorer.Request{PromptTokens: prompt},
		Candidates: []scorer.Candidate{{Endpoint: e}},
	})
	require.NoError(t, err)
	return d
}

func inFlight(t testing.TB, l *picker.Ledger, e prefixindex.Endpoint, requests, tokens int) {
	t.Helper()
	r, n := l.InFlight(e)
	require.Equal(t, requests, r, "requests")
	require.Equal(t, tokens, n, "tokens")
}

func TestLedgerCounts(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	e := handle(1, 1)
	d := send(t, pk, e, 1_000)
	inFlight(t, l, e, 1, 1_000)
	d.FirstToken()
	d.FirstToken()
	inFlight(t, l, e, 1, 0)
	d.Done(picker.Outcome{Result: picker.Failed})
	d.Done(picker.Outcome{Result: picker.OK})
	d.FirstToken()
	d.Moved(handle(2, 1))
	inFlight(t, l, e, 0, 0)
	inFlight(t, l, handle(2, 1), 0, 0)
	s := l.Stats()
	require.Equal(t, picker.LedgerStats{
		Reserved: 1, FirstTokens: 1, Released: 1, DoubleRelease: 1,
		Results: [5]uint64{picker.Failed: 1},
	}, s)
}

// Only what has to be computed is load.
func TestReservationLeavesOutWhatIsCached(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	d, err := pk.Pick(&picker.Call{
		Request:    scorer.Request{PromptTokens: 1_000},
		Candidates: []scorer.Candidate{{Endpoint: 1, Cached: scorer.Holds(prefixindex.Held{GPU: 640})}},
	})
	require.NoError(t, err)
	inFlight(t, l, 1, 1, 360)
	d.Done(picker.Outcome{})
	inFlight(t, l, 1, 0, 0)
}

// A in flight on E; E leaves and returns; B in flight; A ends; B ends. The count is 0,
// and never below.
func TestReleaseBelongsToItsGeneration(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	before, after := handle(1, 1), handle(1, 2)
	a := send(t, pk, before, 100)
	b := send(t, pk, after, 100)
	inFlight(t, l, after, 1, 100)
	inFlight(t, l, before, 0, 0)
	a.FirstToken()
	a.Done(picker.Outcome{})
	inFlight(t, l, after, 1, 100)
	b.Done(picker.Outcome{})
	inFlight(t, l, after, 0, 0)
	require.Equal(t, uint64(1), l.Stats().Late)

	// Nor does a candidate with the old handle touch the new one.
	c := send(t, pk, before, 100)
	inFlight(t, l, after, 0, 0)
	c.Moved(before)
	c.Done(picker.Outcome{})
	inFlight(t, l, after, 0, 0)
	require.Zero(t, l.Stats().Open)
}

// 10 taken, each released twice, 10 taken by others: 10 are in flight.
func TestDoubleReleaseIsCountedNotHidden(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	var first []picker.Decision
	for range 10 {
		first = append(first, send(t, pk, 1, 100))
	}
	for _, d := range first {
		d.Done(picker.Outcome{})
		d.Done(picker.Outcome{})
	}
	for range 10 {
		send(t, pk, 1, 100)
	}
	for _, d := range first { // their places in the ledger have others now
		d.Done(picker.Outcome{})
		d.FirstToken()
		d.Moved(2)
	}
	inFlight(t, l, 1, 10, 1_000)
	require.Equal(t, uint64(20), l.Stats().DoubleRelease)
	require.Equal(t, 10, l.Stats().Open)
}

func TestMoved(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	cs := endpoints(3)
	cs[0].Cached = scorer.Holds(prefixindex.Held{GPU: 960})
	cs[1].Cached = scorer.Holds(prefixindex.Held{GPU: 640})
	pick := func() picker.Decision {
		d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 1_000}, Candidates: cs})
		require.NoError(t, err)
		require.Equal(t, 0, d.Index)
		return d
	}
	d := pick()
	inFlight(t, l, 1, 1, 40)
	d.FirstToken()
	d.Moved(2) // a fallback, with something cached
	d.Moved(2)
	inFlight(t, l, 1, 0, 0)
	inFlight(t, l, 2, 1, 360)
	d.FirstToken()
	inFlight(t, l, 2, 1, 0)
	d.Moved(77) // no candidate
	inFlight(t, l, 2, 0, 0)
	inFlight(t, l, 77, 1, 1_000)
	d.Moved(0)
	inFlight(t, l, 77, 0, 0)
	require.Equal(t, 1, l.Stats().Open)
	d.Done(picker.Outcome{})
	require.Equal(t, uint64(3), l.Stats().Moved)
	require.Zero(t, l.Stats().Open)
}

// A host that counts for itself is not counted twice.
func TestHostCounts(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	cs := endpoints(2)
	cs[0].InFlight.Requests = scorer.Known(9)
	cs[1].InFlight.Requests = scorer.Known(3)
	d, err := pk.Pick(&picker.Call{Candidates: cs})
	require.NoError(t, err)
	require.Equal(t, 1, d.Index)
	inFlight(t, l, 2, 0, 0)
	d.FirstToken()
	d.Moved(1)
	d.Done(picker.Outcome{Result: picker.OK})
	require.Equal(t, picker.LedgerStats{Results: [5]uint64{picker.OK: 1}}, l.Stats())
}

func TestTwoPickersShareALedger(t *testing.T) {
	l := newLedger(t)
	a, b := newPicker(t, picker.Options{Ledger: l}), newPicker(t, picker.Options{Ledger: l})
	call := picker.Call{Candidates: endpoints(8)}
	for range 4 {
		for _, pk := range []*picker.Picker{a, b} {
			_, err := pk.Pick(&call)
			require.NoError(t, err)
		}
	}
	for e := prefixindex.Endpoint(1); e <= 8; e++ {
		inFlight(t, l, e, 1, 0)
	}
}

// However calls are ordered, counts equal those of a plain model, and are never
// negative.
func TestLedgerAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger(t)
		pk := newPicker(t, picker.Options{Ledger: l})
		type request struct {
			d              picker.Decision
			e              prefixindex.Endpoint
			tokens, prompt int
			done, began    bool
		}
		var all []*request
		generation := map[int]int{1: 1, 2: 1, 3: 1}
		seen := map[int]int{}
		endpoint := func() prefixindex.Endpoint {
			slot := rapid.IntRange(1, 3).Draw(rt, "slot")
			return handle(slot, generation[slot])
		}
		meet := func(e prefixindex.Endpoint) {
			seen[e.Slot()] = max(seen[e.Slot()], int(e>>32))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"pick": func(rt *rapid.T) {
				e, n := endpoint(), rapid.IntRange(0, 5_000).Draw(rt, "prompt")
				meet(e)
				all = append(all, &request{d: send(t, pk, e, n), e: e, tokens: n, prompt: n})
			},
			"restart": func(rt *rapid.T) { generation[rapid.IntRange(1, 3).Draw(rt, "slot")]++ },
			"act": func(rt *rapid.T) {
				if len(all) == 0 {
					return
				}
				r := rapid.SampledFrom(all).Draw(rt, "request")
				switch rapid.IntRange(0, 2).Draw(rt, "what") {
				case 0:
					r.d.FirstToken()
					if !r.done {
						r.began, r.tokens = true, 0
					}
				case 1:
					e := endpoint()
					r.d.Moved(e)
					if !r.done && e != r.e {
						meet(e)
						r.e, r.tokens, r.began = e, r.prompt, false
					}
				case 2:
					r.d.Done(picker.Outcome{})
					r.done = true
				}
			},
			"": func(rt *rapid.T) {
				for slot := 1; slot <= 3; slot++ {
					for g := 1; g <= generation[slot]; g++ {
						e, requests, tokens := handle(slot, g), 0, 0
						for _, r := range all {
							if r.e == e && !r.done && g == seen[slot] {
								requests++
								tokens += r.tokens
							}
						}
						inFlight(t, l, e, requests, tokens)
					}
				}
			},
		})
	})
}

func TestLedgerIsSafeForConcurrentUse(t *testing.T) {
	l := newLedger(t)
	pk := newPicker(t, picker.Options{Ledger: l})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			call := picker.Call{Candidates: endpoints(4), Request: scorer.Request{PromptTokens: 100}}
			for i := range 200 {
				d, err := pk.Pick(&call)
				if err != nil {
					t.Error(err)
					return
				}
				var two sync.WaitGroup
				for range 2 {
					two.Go(func() {
						d.FirstToken()
						if i%3 == 0 {
							d.Moved(2)
						}
						d.Done(picker.Outcome{})
					})
				}
				two.Wait()
			}
		})
	}
	wg.Wait()
	for e := prefixindex.Endpoint(1); e <= 4; e++ {
		inFlight(t, l, e, 0, 0)
	}
	s := l.Stats()
	require.Equal(t, uint64(1_600), s.Released)
	require.Equal(t, uint64(1_600), s.DoubleRelease)
}
