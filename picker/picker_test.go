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

func newPicker(t testing.TB, o picker.Options) *picker.Picker {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	pk, err := picker.New(o)
	require.NoError(t, err)
	return pk
}

// endpoints makes n candidates that differ in nothing.
func endpoints(n int) []scorer.Candidate {
	cs := make([]scorer.Candidate, n)
	for i := range cs {
		cs[i] = scorer.Candidate{Endpoint: prefixindex.Endpoint(i + 1), Signals: idle()}
	}
	return cs
}

// only is a policy of one scorer that gives these scores.
func only(scores ...float64) []picker.Weighted {
	return []picker.Weighted{{Name: "given", Weight: 1, Scorer: scorer.Func(func(_ *scorer.Input, out []float64) {
		copy(out, scores)
	})}}
}

func TestNewNamesTheOption(t *testing.T) {
	queue := picker.Weighted{Name: "queue", Scorer: scorer.Queue{}, Weight: 1}
	with := func(edit func(w *picker.Weighted)) picker.Options {
		w := queue
		edit(&w)
		return picker.Options{Scorers: []picker.Weighted{w}}
	}
	keep := picker.FilterFunc(func(*scorer.Input, []bool) {})
	for want, o := range map[string]picker.Options{
		`Scorers[0].Name is empty`:                                    with(func(w *picker.Weighted) { w.Name = "" }),
		`Scorers[0].Name is "skipped"`:                                with(func(w *picker.Weighted) { w.Name = "skipped" }),
		`Scorers[0].Scorer is nil`:                                    with(func(w *picker.Weighted) { w.Scorer = nil }),
		`Scorers[0].Weight of "queue" is -1`:                          with(func(w *picker.Weighted) { w.Weight = -1 }),
		`Scorers[0].Weight of "queue" is NaN`:                         with(func(w *picker.Weighted) { w.Weight = math.NaN() }),
		`Scorers[0].Weight of "queue" is +Inf`:                        with(func(w *picker.Weighted) { w.Weight = math.Inf(1) }),
		`sum to 0`:                                                    with(func(w *picker.Weighted) { w.Weight = 0 }),
		`Scorers[0].Scorer: scorer: invalid option: Queue.Half is -2`: with(func(w *picker.Weighted) { w.Scorer = scorer.Queue{Half: -2} }),
		`Scorers[1].Name is "queue"`:                                  {Scorers: []picker.Weighted{queue, queue}},
		`Caps[0].Name is "twice"`:                                     {Filters: []picker.Named{{Name: "twice", Filter: keep}}, Caps: []picker.Named{{Name: "twice", Filter: keep}}},
		`Filters[0].Name is "over bound"`:                             {Filters: []picker.Named{{Name: "over bound", Filter: keep}}},
		`Caps[0].Filter is nil`:                                       {Caps: []picker.Named{{Name: "cap"}}},
		`Caps[0].Filter: picker: invalid option: MaxInFlight is 0`:    {Caps: []picker.Named{{Name: "cap", Filter: picker.MaxInFlight(0)}}},
		`Select.Band is 2`:                                            {Select: picker.Select{Band: 2}},
		`Select.Band is NaN`:                                          {Select: picker.Select{Band: math.NaN()}},
	} {
		_, err := picker.New(o)
		require.ErrorContains(t, err, want)
	}
}

// What is nil behind an interface would panic in the first pick.
func TestNewRefusesWhatIsNil(t *testing.T) {
	var noScorer *scorer.Queue
	var noFilter *picker.Label
	var noObserver *witness
	weighted := func(s scorer.Scorer) picker.Options {
		return picker.Options{Scorers: []picker.Weighted{{Name: "x", Scorer: s, Weight: 1}}}
	}
	condition := func(f picker.Filter) picker.Options {
		return picker.Options{Filters: []picker.Named{{Name: "x", Filter: f}}}
	}
	for _, c := range []struct {
		want string
		o    picker.Options
	}{
		{"Options.Scorers[0].Scorer is nil", weighted(nil)},
		{"Options.Scorers[0].Scorer is nil", weighted(scorer.Func(nil))},
		{"Options.Scorers[0].Scorer is nil", weighted(noScorer)},
		{"Options.Filters[0].Filter is nil", condition(nil)},
		{"Options.Filters[0].Filter is nil", condition(picker.FilterFunc(nil))},
		{"Options.Filters[0].Filter is nil", condition(noFilter)},
		{"Options.Observers[0] is nil", picker.Options{Observers: []picker.Observer{nil}}},
		{"Options.Observers[0] is nil", picker.Options{Observers: []picker.Observer{noObserver}}},
	} {
		_, err := picker.New(c.o)
		require.ErrorIs(t, err, picker.ErrOptions)
		require.ErrorContains(t, err, c.want)
	}
	pointers := weighted(&scorer.Queue{})
	_, err := picker.New(pointers)
	require.NoError(t, err, "pointers to scorers are scorers")

	names := picker.Names{
		Scorers: map[string]scorer.Scorer{"none": noScorer, "nothing": nil},
		Filters: map[string]picker.Filter{"none": picker.FilterFunc(nil)},
	}
	for text, want := range map[string]string{
		`{"scorers": [{"kind": "none", "weight": 1}]}`:    "1:14: scorers[0] is nil",
		`{"scorers": [{"kind": "nothing", "weight": 1}]}`: "1:14: scorers[0] is nil",
		`{"filters": [{"kind": "none"}]}`:                 "1:14: filters[0] is nil",
	} {
		_, err := picker.ParseOptions([]byte(text), names)
		require.ErrorContains(t, err, want)
	}
}

func TestNoCandidates(t *testing.T) {
	skipped := endpoints(2)
	skipped[0].Skip, skipped[1].Skip = true, true
	nobody := []picker.Named{{Name: "nobody", Filter: picker.FilterFunc(func(_ *scorer.Input, keep []bool) {
		clear(keep)
	})}}
	for name, c := range map[string]struct {
		o          picker.Options
		candidates []scorer.Candidate
		want       error
	}{
		"none offered":                     {candidates: nil, want: picker.ErrNoCandidates},
		"all skipped":                      {candidates: skipped, want: picker.ErrNoCandidates},
		"all skipped, and a cap":           {o: picker.Options{Caps: nobody}, candidates: skipped, want: picker.ErrNoCandidates},
		"a condition removes all":          {o: picker.Options{Filters: nobody}, candidates: endpoints(2), want: picker.ErrNoCandidates},
		"a cap removes all":                {o: picker.Options{Caps: nobody}, candidates: endpoints(2), want: picker.ErrOverloaded},
		"a cap removes those not skipped ": {o: picker.Options{Caps: nobody}, candidates: append(endpoints(1), skipped...), want: picker.ErrOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, c.o)
			var rec picker.Record
			d, err := pk.Pick(&picker.Call{Candidates: c.candidates, Record: &rec})
			require.ErrorIs(t, err, c.want)
			d.FirstToken() // inert
			d.Moved(1)
			d.Done(picker.Outcome{})
			require.Equal(t, c.want, rec.Err)
			require.Equal(t, -1, rec.Winner)
			require.NotEmpty(t, rec.Explain())
			winner, err := pk.Replay(&rec)
			require.Equal(t, -1, winner)
			require.ErrorIs(t, err, c.want)
			s := pk.Stats()
			require.Equal(t, uint64(1), s.NoCandidates+s.Overloaded)
			require.Zero(t, s.Picks)
		})
	}
}

func TestMaxInFlight(t *testing.T) {
	pk := newPicker(t, picker.Options{Caps: []picker.Named{{Name: "max-in-flight", Filter: picker.MaxInFlight(2)}}})
	call := picker.Call{Candidates: endpoints(2)}
	count := [2]int{}
	for range 4 {
		d, err := pk.Pick(&call)
		require.NoError(t, err)
		count[d.Index]++
	}
	require.Equal(t, [2]int{2, 2}, count)
	_, err := pk.Pick(&call)
	require.ErrorIs(t, err, picker.ErrOverloaded)
}

// A later filter sees what an earlier one left, and cannot bring a candidate back.
func TestFiltersSeeWhatIsLeft(t *testing.T) {
	var seen []bool
	pk := newPicker(t, picker.Options{Filters: []picker.Named{
		{Name: "not the first", Filter: picker.FilterFunc(func(_ *scorer.Input, keep []bool) { keep[0] = false })},
		{Name: "looks", Filter: picker.FilterFunc(func(in *scorer.Input, keep []bool) {
			for i := range keep {
				seen = append(seen, keep[i], in.Candidates[i].Eligible)
				keep[i] = true
			}
		})},
	}})
	cs := endpoints(3)
	cs[2].Skip = true
	var rec picker.Record
	d, err := pk.Pick(&picker.Call{Candidates: cs, Record: &rec})
	require.NoError(t, err)
	require.Equal(t, 1, d.Index)
	require.Equal(t, []bool{false, false, true, true, false, false}, seen)
	require.Equal(t, "not the first", rec.Candidates[0].Verdict)
	require.Equal(t, "skipped", rec.Candidates[2].Verdict)
}

func TestOpinions(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		scores []float64
		skip   int // candidate, -1 for none
		want   []float64
	}{
		"known":                         {[]float64{0.2, 0.6}, -1, []float64{0.2, 0.6}},
		"none is the mean of the known": {[]float64{0.2, 0.6, nan}, -1, []float64{0.2, 0.6, 0.4}},
		"nobody has one":                {[]float64{nan, nan}, -1, []float64{0.5, 0.5}},
		"skipped is in no mean":         {[]float64{0.2, nan, 1}, 2, []float64{0.2, 0.2, nan}},
		"out of range is clipped":       {[]float64{-3, 7, math.Inf(1), math.Inf(-1), nan}, -1, []float64{0, 1, 1, 0, 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{Scorers: only(c.scores...)})
			cs := endpoints(len(c.scores))
			if c.skip >= 0 {
				cs[c.skip].Skip = true
			}
			var rec picker.Record
			_, err := pk.Pick(&picker.Call{Candidates: cs, Record: &rec})
			require.NoError(t, err)
			for i, want := range c.want {
				got := rec.Scores[i].Used
				if math.IsNaN(want) {
					require.True(t, math.IsNaN(got))
					continue
				}
				require.InDelta(t, want, got, 1e-12, "candidate %d", i)
			}
		})
	}
}

func TestStaleSignals(t *testing.T) {
	now := time.Unix(1_000, 0)
	fresh, old := now.Add(-time.Second), now.Add(-6*time.Second)
	signals := func(waiting float64, at time.Time) scorer.Signals {
		return scorer.Signals{Waiting: scorer.Known(waiting), At: at}
	}
	for name, c := range map[string]struct {
		signals    []scorer.Signals
		staleAfter time.Duration
		want       []float64 // half 4: 0 is 1, 4 is 0.5, 12 is 0.25
		stale      uint64
		allStale   uint64
	}{
		"a good stale report is worth the mean": {[]scorer.Signals{signals(0, old), signals(4, fresh), signals(12, fresh)}, 0, []float64{0.375, 0.5, 0.25}, 1, 0},
		"a bad one stays bad":                   {[]scorer.Signals{signals(12, old), signals(4, fresh)}, 0, []float64{0.25, 0.5}, 1, 0},
		"all stale are equal":                   {[]scorer.Signals{signals(0, old), signals(12, old)}, 0, []float64{0.5, 0.5}, 2, 1},
		"stale and unknown":                     {[]scorer.Signals{signals(0, old), {}}, 0, []float64{0.5, 0.5}, 1, 0},
		"an unsaid time is current":             {[]scorer.Signals{signals(0, time.Time{}), signals(4, old)}, 0, []float64{1, 0.5}, 1, 0},
		"a limit of one's own":                  {[]scorer.Signals{signals(0, fresh), signals(4, now)}, time.Millisecond, []float64{0.5, 0.5}, 1, 0},
		"never":                                 {[]scorer.Signals{signals(0, now.Add(-time.Hour)), signals(4, now)}, -1, []float64{1, 0.5}, 0, 0},
		"a little ahead is current":             {[]scorer.Signals{signals(0, now.Add(time.Second)), signals(4, now)}, 0, []float64{1, 0.5}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{
				Clock:      func() time.Time { return now },
				StaleAfter: c.staleAfter,
				Scorers:    []picker.Weighted{{Name: "queue", Scorer: scorer.Queue{}, Weight: 1}},
			})
			cs := endpoints(len(c.signals))
			for i := range cs {
				cs[i].Signals = c.signals[i]
			}
			var rec picker.Record
			_, err := pk.Pick(&picker.Call{Candidates: cs, Record: &rec})
			require.NoError(t, err)
			for i, want := range c.want {
				require.InDelta(t, want, rec.Scores[i].Used, 1e-12, "candidate %d", i)
			}
			require.Equal(t, c.stale, pk.Stats().Stale)
			require.Equal(t, c.allStale, pk.Stats().AllStale)
		})
	}
}

// What is absurd is corrected, counted, and does no harm.
func TestAbsurdInput(t *testing.T) {
	now := time.Unix(1_000, 0)
	held := func(gpu, cpu, all int) scorer.Cached {
		return scorer.Holds(prefixindex.Held{GPU: gpu, CPU: cpu, Any: all})
	}
	for name, c := range map[string]struct {
		edit      func(c *scorer.Candidate)
		prompt    int
		corrected uint64
		clipped   uint64
	}{
		"negative queue":      {func(c *scorer.Candidate) { c.Signals.Waiting = scorer.Known(-5) }, 100, 1, 0},
		"negative in flight":  {func(c *scorer.Candidate) { c.InFlight.Requests = scorer.Known(-5) }, 100, 1, 0},
		"negative tokens":     {func(c *scorer.Candidate) { c.InFlight.Tokens = scorer.Known(-5) }, 100, 1, 0},
		"huge queue":          {func(c *scorer.Candidate) { c.Signals.Waiting = scorer.Known(math.MaxFloat64) }, 100, 0, 0},
		"cache use of 8700 %": {func(c *scorer.Candidate) { c.Signals.CacheUse = scorer.Known(87) }, 100, 0, 1},
		"negative cache use":  {func(c *scorer.Candidate) { c.Signals.CacheUse = scorer.Known(-1) }, 100, 0, 1},
		"negative runs":       {func(c *scorer.Candidate) { c.Cached = held(-16, 0, 0) }, 100, 1, 0},
		"runs not nested":     {func(c *scorer.Candidate) { c.Cached = held(64, 32, 16) }, 100, 1, 0},
		"runs not said":       {func(c *scorer.Candidate) { c.Cached = held(64, 0, 0) }, 100, 0, 0},
		"longer than prompt":  {func(c *scorer.Candidate) { c.Cached = held(1_600, 0, 0) }, 100, 1, 0},
		"negative prompt":     {func(c *scorer.Candidate) {}, -100, 1, 0},
		"absurd prompt":       {func(c *scorer.Candidate) {}, math.MaxInt, 1, 0},
		"signals of tomorrow": {func(c *scorer.Candidate) { c.Signals.At = now.Add(24 * time.Hour) }, 100, 1, 0},
		"a made-up handle":    {func(c *scorer.Candidate) { c.Endpoint = math.MaxUint64 }, 100, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{Clock: func() time.Time { return now }})
			cs := endpoints(2)
			c.edit(&cs[0])
			var rec picker.Record
			d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: c.prompt}, Candidates: cs, Record: &rec})
			require.NoError(t, err)
			s := pk.Stats()
			require.Equal(t, c.corrected, s.Corrected, "corrected")
			require.Equal(t, c.clipped, s.Clipped, "clipped")
			for i := range cs {
				require.True(t, rec.Candidates[i].Sum >= 0 && rec.Candidates[i].Sum <= 1, "sum %v", rec.Candidates[i].Sum)
			}
			winner, err := pk.Replay(&rec)
			require.NoError(t, err)
			require.Equal(t, d.Index, winner)
			d.Done(picker.Outcome{Result: 200})
		})
	}
}

func TestOneCandidateWins(t *testing.T) {
	pk := newPicker(t, picker.Options{})
	d, err := pk.Pick(&picker.Call{Candidates: endpoints(1)})
	require.NoError(t, err)
	require.Zero(t, d.Index)
	require.Zero(t, d.Margin)
	_, ok := d.Fallback(0)
	require.False(t, ok)
}

func TestFallbacksAreDistinctAndOrdered(t *testing.T) {
	pk := newPicker(t, picker.Options{Scorers: only(0.1, 0.9, 0.3, 0.5, 0.7, 1)})
	cs := endpoints(6)
	cs[4].Skip = true
	d, err := pk.Pick(&picker.Call{Candidates: cs})
	require.NoError(t, err)
	order := []int{d.Index}
	for i := range picker.MaxFallbacks {
		f, ok := d.Fallback(i)
		require.True(t, ok)
		require.Equal(t, cs[f.Index].Endpoint, f.Endpoint)
		order = append(order, f.Index)
	}
	require.Equal(t, []int{5, 1, 3, 2}, order)
	for _, i := range []int{-1, picker.MaxFallbacks} {
		_, ok := d.Fallback(i)
		require.False(t, ok)
	}
	require.InDelta(t, 0.1, d.Margin, 1e-12)
}

// The score of a decision is between 0 and 1 whatever the weights add up to.
func TestScoreIsDividedByTheWeights(t *testing.T) {
	all := scorer.Func(func(_ *scorer.Input, out []float64) { out[0], out[1] = 1, 0 })
	pk := newPicker(t, picker.Options{Scorers: []picker.Weighted{{"a", all, 2}, {"b", all, 2}, {"c", all, 1}}})
	d, err := pk.Pick(&picker.Call{Candidates: endpoints(2)})
	require.NoError(t, err)
	require.InDelta(t, 1, d.Score, 1e-12)
	require.InDelta(t, 1, d.Margin, 1e-12)
}

// A scorer that panics does not leave the lock behind.
func TestPanickingScorerReleasesTheLock(t *testing.T) {
	bad := true
	pk := newPicker(t, picker.Options{Scorers: []picker.Weighted{{Name: "panics", Weight: 1,
		Scorer: scorer.Func(func(_ *scorer.Input, out []float64) {
			if bad {
				panic("a bug of the host")
			}
		})}}})
	call := picker.Call{Candidates: endpoints(2)}
	require.PanicsWithValue(t, "a bug of the host", func() { _, _ = pk.Pick(&call) })
	bad = false
	_, err := pk.Pick(&call)
	require.NoError(t, err)
	require.Equal(t, uint64(1), pk.Stats().Picks)
}

func TestPickAllocatesNothing(t *testing.T) {
	for name, rec := range map[string]*picker.Record{"record off": nil, "record on": {}} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{Caps: []picker.Named{{Name: "cap", Filter: picker.MaxInFlight(100)}}})
			call := picker.Call{
				Request:    scorer.Request{PromptTokens: 7_000},
				Candidates: endpoints(64),
				Record:     rec,
			}
			call.Candidates[3].Cached = scorer.Holds(prefixindex.Held{GPU: 4_096})
			call.Candidates[4].Signals = scorer.Signals{}
			n := testing.AllocsPerRun(100, func() {
				d, err := pk.Pick(&call)
				if err != nil {
					t.Fatal(err)
				}
				d.FirstToken()
				d.Moved(5)
				d.Done(picker.Outcome{Result: picker.OK})
			})
			require.Zero(t, n)
		})
	}
}
