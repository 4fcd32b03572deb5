package debugview_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/debugview"
	"github.com/warmroute/warmroute/picker/metrics"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// router is a picker over endpoints whose caches the test fills, and its page.
type router struct {
	t         *testing.T
	now       time.Time
	index     *prefixindex.Index
	picker    *picker.Picker
	view      *debugview.View
	endpoints []prefixindex.Endpoint
	call      picker.Call
	prompt    prefixindex.Prompt
}

func newRouter(t *testing.T, o debugview.Options, names ...string) *router {
	r := &router{t: t, now: time.Unix(1_700_000_000, 0)}
	clock := func() time.Time { return r.now }
	var err error
	r.index, err = prefixindex.New(prefixindex.Options{Clock: clock})
	require.NoError(t, err)
	ledger, err := picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	o.Clock = clock
	o.Sources = func() metrics.Sources {
		s := metrics.Sources{Index: r.index, Ledger: ledger, Pickers: map[string]*picker.Picker{"main": r.picker}}
		for _, e := range r.endpoints {
			s.Endpoints = append(s.Endpoints, metrics.Endpoint{Handle: e})
		}
		return s
	}
	r.view, err = debugview.New(o)
	require.NoError(t, err)
	r.picker, err = picker.New(picker.Options{
		Index: r.index, Ledger: ledger, Seed: 1, Clock: clock, Observers: []picker.Observer{r.view.Observer("main")},
	})
	require.NoError(t, err)
	for _, name := range names {
		e, err := r.index.Join(name)
		require.NoError(t, err)
		r.endpoints = append(r.endpoints, e)
		r.call.Candidates = append(r.call.Candidates, scorer.Candidate{Endpoint: e})
	}
	r.prompt.Reset(prefixindex.Scope{Model: "m"}, tokens(160))
	r.call.Prompt = &r.prompt
	return r
}

func tokens(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(770_000 + i)
	}
	return list
}

func (r *router) pick() picker.Decision {
	d, err := r.picker.Pick(&r.call)
	require.NoError(r.t, err)
	return d
}

// get returns the page at a path.
func (r *router) get(status int, path string) string {
	w := httptest.NewRecorder()
	r.view.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	require.Equal(r.t, status, w.Code, w.Body)
	require.Contains(r.t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
	return w.Body.String()
}

// state is what of state.json is looked at.
type state struct {
	Decisions []struct {
		ID, Pick            uint64
		Endpoint, Result    string
		Predicted, Reported scorer.Value
	}
	Passed uint64
}

func (r *router) state() (s state) {
	require.NoError(r.t, json.Unmarshal([]byte(r.get(200, "/state.json")), &s))
	return s
}

func TestPage(t *testing.T) {
	r := newRouter(t, debugview.Options{}, "warm", "cold")
	require.NoError(t, r.index.Insert(r.endpoints[0], 0, &r.prompt, 9))
	r.call.Request.Session = "<script>alert(1)</script>"
	d := r.pick()
	require.Equal(t, "open", r.state().Decisions[0].Result)
	d.FirstToken()
	r.now = r.now.Add(3 * time.Second)
	d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(128)})

	page := r.get(200, "/")
	for _, want := range []string{"warm", "cold", "144", "128", "assumed", "Nobody follows its events", "&lt;script&gt;alert"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "770001", "no token of a prompt")
	decision := r.get(200, "/decision?id=1")
	for _, want := range []string{"Pick 1 went to warm", "warm wins with", "144 of the prompt&#39;s 160 tokens", "It ended: ok", "128 tokens"} {
		require.Contains(t, decision, want)
	}
	require.NotContains(t, decision, "770001")

	var record picker.Record
	require.NoError(t, json.Unmarshal([]byte(r.get(200, "/decision.json?id=1")), &record))
	winner, err := r.picker.Replay(&record)
	require.NoError(t, err)
	require.Zero(t, winner)
	require.Contains(t, r.get(200, "/metrics"), "# TYPE warmroute_picker_picks_total counter\nwarmroute_picker_picks_total{picker=\"main\"} 1\n")
	for _, path := range []string{"/page.css", "/page.js"} {
		require.NotEmpty(t, r.get(200, path))
	}
}

func TestReadOnly(t *testing.T) {
	r := newRouter(t, debugview.Options{})
	for _, path := range []string{"/", "/state.json", "/metrics", "/decision", "/page.js"} {
		w := httptest.NewRecorder()
		r.view.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("x")))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, path)
	}
	for _, path := range []string{"/page.html", "/view.go", "/../view.go", "/decision?id=0", "/decision?id=1", "/decision?id=x", "/decision.json?id=18446744073709551615"} {
		w := httptest.NewRecorder()
		r.view.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		require.NotEqual(t, http.StatusOK, w.Code, path)
	}
}

// Picks that find nobody are decisions, too.
func TestNobody(t *testing.T) {
	r := newRouter(t, debugview.Options{}, "a", "b")
	r.call.Candidates[0].Skip, r.call.Candidates[1].Skip = true, true
	_, err := r.picker.Pick(&r.call)
	require.ErrorIs(t, err, picker.ErrNoCandidates)
	require.Equal(t, "not sent", r.state().Decisions[0].Result)
	require.Contains(t, r.get(200, "/"), "picker: no candidate")
	require.Contains(t, r.get(200, "/decision?id=1"), "all candidates were skipped")
}

func TestMoved(t *testing.T) {
	r := newRouter(t, debugview.Options{}, "a", "b")
	d := r.pick()
	d.Moved(r.endpoints[1-d.Index])
	d.Done(picker.Outcome{Result: picker.OK})
	require.Contains(t, r.get(200, "/decision?id=1"), "It was moved to "+[]string{"b", "a"}[d.Index]+".")
}

// The last decisions are kept, in number and in bytes, and the end of one that is gone
// changes nothing.
func TestBounds(t *testing.T) {
	r := newRouter(t, debugview.Options{Decisions: 10, PerSecond: -1}, "a", "b")
	first := r.pick()
	for range 25 {
		r.pick().Done(picker.Outcome{Result: picker.OK})
	}
	first.Done(picker.Outcome{Result: picker.Failed})
	s := r.state()
	require.Len(t, s.Decisions, 10)
	for i, d := range s.Decisions {
		require.Equal(t, uint64(26-i), d.Pick)
		require.Equal(t, "ok", d.Result)
	}

	r = newRouter(t, debugview.Options{MaxBytes: 64 << 10, PerSecond: -1}, "a", "b")
	few := r.call.Candidates
	for range 500 {
		r.pick()
	}
	small := len(r.state().Decisions)
	require.Greater(t, small, 10)
	require.Less(t, small, 100)
	for range 1_000 { // one record of these is more than MaxBytes, and the last is always kept
		r.call.Candidates = append(r.call.Candidates, scorer.Candidate{})
	}
	r.pick()
	require.Len(t, r.state().Decisions, 1)
	r.call.Candidates = few
	for range 500 {
		r.pick()
	}
	require.Len(t, r.state().Decisions, small)
}

func TestPerSecond(t *testing.T) {
	r := newRouter(t, debugview.Options{PerSecond: 3}, "a", "b")
	for range 10 {
		r.pick()
	}
	require.Len(t, r.state().Decisions, 3)
	require.Equal(t, uint64(7), r.state().Passed)
	r.now = r.now.Add(time.Second)
	r.pick()
	require.Len(t, r.state().Decisions, 4)
	require.Nil(t, r.call.Record, "the host's call is as it was")
}

// Pages are read while picks are made and requests end.
func TestConcurrency(t *testing.T) {
	r := newRouter(t, debugview.Options{Decisions: 16, PerSecond: -1}, "a", "b", "c")
	done := make(chan struct{})
	var picks sync.WaitGroup
	for range 4 {
		picks.Go(func() {
			call := picker.Call{Candidates: r.call.Candidates, Request: scorer.Request{PromptTokens: 100}}
			for range 300 {
				if d, err := r.picker.Pick(&call); err == nil {
					d.Done(picker.Outcome{Result: picker.OK})
				}
			}
		})
	}
	go func() {
		picks.Wait()
		close(done)
	}()
	for n := uint64(1); ; n++ {
		require.LessOrEqual(t, len(r.state().Decisions), 16)
		w := httptest.NewRecorder()
		r.view.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/decision?id=%d", n), http.NoBody))
		select {
		case <-done:
			require.Len(t, r.state().Decisions, 16)
			return
		default:
		}
	}
}

func TestOptions(t *testing.T) {
	sources := func() metrics.Sources { return metrics.Sources{} }
	for want, o := range map[string]debugview.Options{
		"Sources is nil":   {},
		"Decisions is -1":  {Sources: sources, Decisions: -1},
		"Decisions is 655": {Sources: sources, Decisions: 65_537},
		"MaxBytes is 1":    {Sources: sources, MaxBytes: 1},
	} {
		_, err := debugview.New(o)
		require.ErrorIs(t, err, debugview.ErrOptions)
		require.ErrorContains(t, err, want)
	}
	view, err := debugview.New(debugview.Options{Sources: sources})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	view.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	require.Contains(t, w.Body.String(), "No pick has been recorded yet")
}

func TestNoAllocations(t *testing.T) {
	for _, perSecond := range []int{-1, 1} {
		r := newRouter(t, debugview.Options{Decisions: 32, PerSecond: perSecond}, "a", "b", "c")
		once := func() {
			d, _ := r.picker.Pick(&r.call)
			d.FirstToken()
			d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(16)})
		}
		for range 100 {
			once()
		}
		require.Zero(t, testing.AllocsPerRun(200, once), "PerSecond %d", perSecond)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, c := range []struct {
		name      string
		perSecond int
		watched   bool
	}{{"off", 0, false}, {"counted", 1, true}, {"recorded", -1, true}} {
		b.Run(fmt.Sprintf("impl=warmroute/endpoints=64/view=%s", c.name), func(b *testing.B) {
			ix, err := prefixindex.New(prefixindex.Options{})
			require.NoError(b, err)
			view, err := debugview.New(debugview.Options{
				Sources: func() metrics.Sources { return metrics.Sources{} }, PerSecond: c.perSecond,
			})
			require.NoError(b, err)
			o := picker.Options{Index: ix, Seed: 1}
			if c.watched {
				o.Observers = []picker.Observer{view.Observer("main")}
			}
			pk, err := picker.New(o)
			require.NoError(b, err)
			call := picker.Call{Request: scorer.Request{PromptTokens: 10_240}}
			for i := range 64 {
				e, err := ix.Join(fmt.Sprint(i))
				require.NoError(b, err)
				call.Candidates = append(call.Candidates, scorer.Candidate{Endpoint: e})
			}
			b.ReportAllocs()
			for b.Loop() {
				d, _ := pk.Pick(&call)
				d.Done(picker.Outcome{Result: picker.OK})
			}
		})
	}
}
