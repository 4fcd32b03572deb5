package scorer_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

var nan = math.NaN()

func known(x float64) scorer.Value { return scorer.Known(x) }

// run scores the candidates, all of them eligible unless said otherwise.
func run(s scorer.Scorer, in scorer.Input) []float64 {
	out := make([]float64, len(in.Candidates))
	for i := range out {
		out[i] = nan
	}
	s.Score(&in, out)
	return out
}

func equalScores(t *testing.T, want, got []float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if math.IsNaN(want[i]) {
			require.True(t, math.IsNaN(got[i]), "candidate %d: %v, not NaN", i, got[i])
			continue
		}
		require.InDelta(t, want[i], got[i], 1e-9, "candidate %d", i)
	}
}

func TestKnownRefusesWhatIsNoNumber(t *testing.T) {
	for _, x := range []float64{nan, math.Inf(1), math.Inf(-1)} {
		_, ok := known(x).Get()
		require.False(t, ok)
	}
	x, ok := known(0).Get()
	require.True(t, ok)
	require.Zero(t, x)
}

func TestPrefix(t *testing.T) {
	held := func(gpu, cpu, any int, v prefixindex.View) scorer.Resolved {
		return scorer.Resolved{Eligible: true, Held: prefixindex.Held{GPU: gpu, CPU: cpu, Any: any, View: v}}
	}
	const live = prefixindex.ViewLive
	for name, c := range map[string]struct {
		s      scorer.Prefix
		prompt int
		held   []scorer.Resolved
		want   []float64
	}{
		"nobody has anything":                        {prompt: 1_600, held: []scorer.Resolved{held(0, 0, 0, live), {}}, want: []float64{0, 0}},
		"one candidate":                              {prompt: 1_600, held: []scorer.Resolved{held(800, 800, 800, live)}, want: []float64{0.5}},
		"no candidate":                               {prompt: 1_600},
		"length not known":                           {prompt: 0, held: []scorer.Resolved{held(800, 800, 800, live)}, want: []float64{nan}},
		"a block of a hundred is 0.01":               {prompt: 1_600, held: []scorer.Resolved{held(16, 16, 16, live), held(0, 0, 0, live)}, want: []float64{0.01, 0}},
		"the block of the last token is computed":    {prompt: 1_600, held: []scorer.Resolved{held(1_600, 1_600, 1_600, live)}, want: []float64{0.99}},
		"a prompt of one block is computed":          {prompt: 16, held: []scorer.Resolved{held(16, 16, 16, live)}, want: []float64{0}},
		"one token more, and the block is of use":    {prompt: 17, held: []scorer.Resolved{held(16, 16, 16, live)}, want: []float64{16.0 / 17}},
		"tiers, 10 blocks on GPU and 20 more on CPU": {prompt: 1_600, held: []scorer.Resolved{held(160, 480, 480, live)}, want: []float64{0.1 + 0.8*0.2}},
		"tiers, then 10 on disk":                     {prompt: 1_600, held: []scorer.Resolved{held(160, 480, 640, live)}, want: []float64{0.1 + 0.8*0.2 + 0.5*0.1}},
		"tiers without weight":                       {s: scorer.Prefix{CPUWeight: -1, DiskWeight: -1}, prompt: 1_600, held: []scorer.Resolved{held(160, 480, 640, live)}, want: []float64{0.1}},
		"usable blocks end on CPU":                   {prompt: 1_600, held: []scorer.Resolved{held(800, 1_600, 1_600, live)}, want: []float64{0.5 + 0.8*0.49}},
		"views": {prompt: 1_600, held: []scorer.Resolved{
			held(800, 800, 800, live), held(800, 800, 800, prefixindex.ViewAssumed), held(800, 800, 800, prefixindex.ViewNever),
			held(800, 800, 800, prefixindex.ViewGap), held(800, 800, 800, prefixindex.ViewResyncing), held(800, 800, 800, prefixindex.ViewStale),
		}, want: []float64{0.5, 0.5, 0.5, 0.4, 0.4, 0.25}},
		"huge": {prompt: 1 << 30, held: []scorer.Resolved{held(math.MaxInt, math.MaxInt, math.MaxInt, live)}, want: []float64{float64(1<<30-16) / (1 << 30)}},
		"a short prompt cannot score like a long one": {s: scorer.Prefix{Floor: 2_048}, prompt: 17, held: []scorer.Resolved{held(16, 16, 16, live)}, want: []float64{16.0 / 2_048}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			got := run(c.s, scorer.Input{PromptTokens: c.prompt, BlockTokens: 16, Candidates: c.held})
			equalScores(t, c.want, got)
		})
	}
}

// waiting makes candidates with that many requests waiting; NaN is unknown.
func waiting(xs ...float64) []scorer.Resolved {
	cs := make([]scorer.Resolved, len(xs))
	for i, x := range xs {
		cs[i] = scorer.Resolved{Eligible: true, Signals: scorer.Signals{Waiting: known(x)}}
	}
	return cs
}

func TestQueueNorms(t *testing.T) {
	type row struct {
		name string
		s    scorer.Queue
		xs   []float64
		edit func(cs []scorer.Resolved)
		want []float64
	}
	stale := func(is ...int) func([]scorer.Resolved) {
		return func(cs []scorer.Resolved) {
			for _, i := range is {
				cs[i].Stale = true
			}
		}
	}
	skip := func(i int) func([]scorer.Resolved) {
		return func(cs []scorer.Resolved) { cs[i].Eligible = false }
	}
	abs, rel, least := scorer.Queue{}, scorer.Queue{Norm: scorer.Relative}, scorer.Queue{Norm: scorer.ToLeast}
	for _, c := range []row{
		{"absolute", abs, []float64{0, 4, 12, nan}, nil, []float64{1, 0.5, 0.25, nan}},
		{"absolute, own half", scorer.Queue{Half: 12}, []float64{12}, nil, []float64{0.5}},
		{"absolute, equal", abs, []float64{4, 4}, nil, []float64{0.5, 0.5}},
		{"absolute, huge", abs, []float64{math.MaxFloat64}, nil, []float64{0}},
		{"absolute, negative counts as none", abs, []float64{-4}, nil, []float64{1}},
		{"relative, 0 against 1", rel, []float64{0, 1}, nil, []float64{1, 0}},
		{"relative, 0 against 100", rel, []float64{0, 100}, nil, []float64{1, 0}},
		{"relative, equal is neutral", rel, []float64{7, 7, nan}, nil, []float64{1, 1, nan}},
		{"relative, one", rel, []float64{7}, nil, []float64{1}},
		{"relative, nobody known", rel, []float64{nan, nan}, nil, []float64{nan, nan}},
		{"relative, skipped is no bound", rel, []float64{0, 10, 20, 1000}, skip(3), []float64{1, 0.5, 0, 0}},
		{"relative, stale is no bound", rel, []float64{0, 10, 20}, stale(0), []float64{1, 1, 0}},
		{"relative, all stale", rel, []float64{0, 10}, stale(0, 1), []float64{1, 0}},
		{"to least, as absolute from zero", least, []float64{0, 4, 12, nan}, nil, []float64{1, 0.5, 0.25, nan}},
		{"to least, large numbers by their ratio", least, []float64{100, 204}, nil, []float64{1, 0.5}},
		{"to least, equal", least, []float64{100, 100}, nil, []float64{1, 1}},
		{"to least, stale is no bound", least, []float64{0, 4, 12}, stale(0), []float64{1, 1, 0.5}},
		{"to least, nobody known", least, []float64{nan}, nil, []float64{nan}},
		{"nobody at all", least, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			cs := waiting(c.xs...)
			if c.edit != nil {
				c.edit(cs)
			}
			equalScores(t, c.want, run(c.s, scorer.Input{Candidates: cs}))
		})
	}
}

func TestMemory(t *testing.T) {
	cs := make([]scorer.Resolved, 4)
	for i, use := range []float64{0, 0.25, 1, nan} {
		cs[i].Signals.CacheUse = known(use)
	}
	equalScores(t, []float64{1, 0.75, 0, nan}, run(scorer.Memory{}, scorer.Input{Candidates: cs}))
}

func TestLoadRequests(t *testing.T) {
	cs := make([]scorer.Resolved, 3)
	cs[0].InFlight.Requests = known(0)
	cs[1].InFlight.Requests = known(8)
	equalScores(t, []float64{1, 0.5, nan}, run(scorer.LoadRequests{}, scorer.Input{Candidates: cs}))
}

// One prompt of 100,000 tokens is more load than three of 100.
func TestLoadTokensWeighsRequestsByTheirSize(t *testing.T) {
	cs := make([]scorer.Resolved, 2)
	cs[0].InFlight = scorer.InFlight{Requests: known(1), Tokens: known(100_000)}
	cs[1].InFlight = scorer.InFlight{Requests: known(3), Tokens: known(300)}
	got := run(scorer.LoadTokens{}, scorer.Input{PromptTokens: 100, BlockTokens: 16, Candidates: cs})
	require.Less(t, got[0], got[1])
}

func TestLoadTokensCountsWhatThisPromptAdds(t *testing.T) {
	cs := make([]scorer.Resolved, 3)
	for i := range cs {
		cs[i].InFlight.Tokens = known(0)
	}
	cs[0].Held = prefixindex.Held{GPU: 16_384, CPU: 16_384, Any: 16_384}
	cs[2].InFlight.Tokens = scorer.Value{}
	in := scorer.Input{PromptTokens: 16_385, BlockTokens: 16, Candidates: cs}
	equalScores(t, []float64{16_384.0 / 16_385, 16_384.0 / 32_769, nan}, run(scorer.LoadTokens{}, in))
	in.PromptTokens = 0
	equalScores(t, []float64{1, 1, nan}, run(scorer.LoadTokens{}, in))
}

func TestPrefixRelative(t *testing.T) {
	held := func(gpu int) scorer.Resolved {
		return scorer.Resolved{Eligible: true, Held: prefixindex.Held{GPU: gpu, CPU: gpu, Any: gpu}}
	}
	s := scorer.Prefix{Norm: scorer.Relative}
	in := scorer.Input{PromptTokens: 16_000, BlockTokens: 16, Candidates: []scorer.Resolved{held(1_600), held(800), held(0)}}
	equalScores(t, []float64{1, 0.5, 0}, run(s, in))
	in.Candidates[0].Eligible = false
	equalScores(t, []float64{1, 1, 0}, run(s, in)) // what the ineligible one has is ignored
	in.Candidates = []scorer.Resolved{held(0), held(0)}
	equalScores(t, []float64{0, 0}, run(s, in)) // not 1 for all: nobody has anything
}

// 16 tokens cached as a whole save less than half of 16,000.
func TestPrefixByTokensSaved(t *testing.T) {
	s := scorer.Prefix{Floor: 32_000}
	score := func(held, prompt int) float64 {
		return run(s, scorer.Input{PromptTokens: prompt, BlockTokens: 16, Candidates: []scorer.Resolved{
			{Eligible: true, Held: prefixindex.Held{GPU: held, CPU: held, Any: held}}}})[0]
	}
	require.InDelta(t, 16.0/32_000, score(16, 17), 1e-12)
	require.InDelta(t, 0.25, score(8_000, 16_000), 1e-12)
}

func TestDoubtTakesCredit(t *testing.T) {
	cs := []scorer.Resolved{
		{Eligible: true, Held: prefixindex.Held{GPU: 800, CPU: 800, Any: 800}},
		{Eligible: true, Held: prefixindex.Held{GPU: 800, CPU: 800, Any: 800}, Doubt: 0.75},
		{Eligible: true, Held: prefixindex.Held{GPU: 800, CPU: 800, Any: 800}, Doubt: 9},
	}
	in := scorer.Input{PromptTokens: 1_600, BlockTokens: 16, Candidates: cs}
	equalScores(t, []float64{0.5, 0.125, 0}, run(scorer.Prefix{}, in))
	for i, want := range []int{800, 1_400, 1_600} {
		require.Equal(t, want, in.Uncached(&cs[i]))
		require.Equal(t, 800, in.Saved(&cs[i]))
	}
}

func TestSessionIsSharedByRoutersThatShareNothing(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	candidates := func(order []int) []scorer.Resolved {
		cs := make([]scorer.Resolved, len(order))
		for i, n := range order {
			// The handle is of this router alone.
			cs[i] = scorer.Resolved{Endpoint: prefixindex.Endpoint(i + 1), Name: names[n], Eligible: true}
		}
		return cs
	}
	const sessions = 4_000
	count := map[string]int{}
	for k := range sessions {
		in := scorer.Input{Request: &scorer.Request{Session: fmt.Sprint("session-", k)}}
		var first, second string
		for round, order := range [][]int{{0, 1, 2, 3}, {2, 0, 3, 1}} {
			in.Candidates = candidates(order)
			var a, b string
			for i, v := range run(scorer.Session{}, in) {
				switch v {
				case 1:
					a = in.Candidates[i].Name
				case 0.5:
					b = in.Candidates[i].Name
				default:
					require.Zero(t, v)
				}
			}
			require.NotEmpty(t, a)
			require.NotEmpty(t, b)
			if round == 1 {
				require.Equal(t, first, a)
				require.Equal(t, second, b)
			}
			first, second = a, b
		}
		count[first]++

		// Without the first, the second has it; without another, nothing changes.
		for i, c := range in.Candidates {
			in.Candidates[i].Eligible = false
			want := first
			if c.Name == first {
				want = second
			}
			for k, v := range run(scorer.Session{}, in) {
				if in.Candidates[k].Eligible {
					require.Equal(t, in.Candidates[k].Name == want, v == 1)
				}
			}
			in.Candidates[i].Eligible = true
		}
	}
	for _, name := range names { // 1,000 each, within 120: 4.4 standard deviations
		require.InDelta(t, sessions/4, count[name], 120, "%v", count)
	}
}

func TestSessionEdges(t *testing.T) {
	one := []scorer.Resolved{{Endpoint: 1, Eligible: true}}
	equalScores(t, []float64{1}, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{Session: "s"}, Candidates: one}))
	equalScores(t, []float64{1}, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{}, Candidates: one}))
	equalScores(t, []float64{1}, run(scorer.Session{}, scorer.Input{Candidates: one}))
	equalScores(t, nil, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{Session: "s"}}))
	one[0].Eligible = false
	equalScores(t, []float64{0}, run(scorer.Session{}, scorer.Input{Request: &scorer.Request{Session: "s"}, Candidates: one}))
}

func TestAdapter(t *testing.T) {
	adapters := func(slots int, running, waiting []string) scorer.Adapters {
		a := scorer.NewAdapters(slots)
		for _, name := range waiting { // in any order
			a.AddWaiting(name)
		}
		for _, name := range running {
			a.AddRunning(name)
		}
		return a
	}
	many := make([]string, scorer.MaxAdapters+1)
	for i := range many {
		many[i] = fmt.Sprint("adapter-", i)
	}
	for name, c := range map[string]struct {
		have scorer.Adapters
		want float64
	}{
		"nothing known":           {scorer.Adapters{}, nan},
		"running":                 {adapters(2, []string{"x", "mine"}, []string{"y"}), 1},
		"a slot is free":          {adapters(2, []string{"x"}, nil), 0.8},
		"waiting, a slot is free": {adapters(2, []string{"x"}, []string{"mine"}), 0.8},
		"waiting":                 {adapters(1, []string{"x"}, []string{"y", "mine"}), 0.6},
		"absent":                  {adapters(1, []string{"x"}, []string{"y"}), 0},
		"slots not said":          {adapters(0, nil, nil), 0},
		"too many to tell":        {adapters(4, many, nil), nan},
		"too many, but it is one": {adapters(4, append([]string{"mine"}, many...), nil), 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := scorer.Input{Request: &scorer.Request{Adapter: "mine"}, Candidates: []scorer.Resolved{{Eligible: true}}}
			in.Candidates[0].Signals.Adapters = c.have
			equalScores(t, []float64{c.want}, run(scorer.Adapter{}, in))
			in.Request.Adapter = ""
			equalScores(t, []float64{1}, run(scorer.Adapter{}, in))
		})
	}
	full := adapters(1, many[:scorer.MaxAdapters], nil)
	require.False(t, full.AddWaiting("z"))
	require.False(t, full.AddRunning("z"))
}

func TestSignal(t *testing.T) {
	xs := []float64{0, 25, 100, 250, -10, nan}
	for name, c := range map[string]struct {
		s    scorer.Signal
		want []float64
	}{
		"lower is better":  {scorer.Signal{Field: scorer.Running, Best: 0, Worst: 100}, []float64{1, 0.75, 0, 0, 1, nan}},
		"higher is better": {scorer.Signal{Field: scorer.Running, Best: 100, Worst: 0}, []float64{0, 0.25, 1, 1, 0, nan}},
		"another field":    {scorer.Signal{Field: scorer.Own + 1, Best: 100}, []float64{nan, nan, nan, nan, nan, nan}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			cs := make([]scorer.Resolved, len(xs))
			for i, x := range xs {
				cs[i].Signals.Running = known(x)
			}
			equalScores(t, c.want, run(c.s, scorer.Input{Candidates: cs}))
		})
	}
	s := scorer.Signals{Waiting: known(1), Running: known(2), CacheUse: known(3), Own: [4]scorer.Value{known(4), known(5), known(6), known(7)}}
	for f := range scorer.Own + scorer.MaxOwn {
		x, ok := f.Of(&s).Get()
		require.True(t, ok)
		require.Equal(t, float64(f+1), x)
	}
	_, ok := scorer.Field(200).Of(&s).Get()
	require.False(t, ok)
}

// The cost of two engines of different speed is a time, not a count.
func TestCost(t *testing.T) {
	base := func(edit func(c *scorer.Resolved)) scorer.Resolved {
		c := scorer.Resolved{Eligible: true}
		c.InFlight = scorer.InFlight{Requests: known(0), Tokens: known(0)}
		c.Signals.Waiting = known(0)
		c.PrefillRate = known(10_000)
		edit(&c)
		return c
	}
	for name, c := range map[string]struct {
		s    scorer.Cost
		cs   []scorer.Resolved
		want []float64 // ms
	}{
		"idle":          {scorer.Cost{}, []scorer.Resolved{base(func(*scorer.Resolved) {})}, []float64{500}},
		"cached":        {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Held.Any = 4_000 })}, []float64{100}},
		"tokens ahead":  {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.InFlight.Tokens = known(20_000) })}, []float64{2_500}},
		"a queue":       {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10) })}, []float64{1_500}},
		"both are one":  {scorer.Cost{}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10); c.InFlight.Tokens = known(20_000) })}, []float64{2_500}},
		"own constants": {scorer.Cost{PrefillRate: 5_000, PerWaiting: time.Second}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(1) })}, []float64{2_000}},
		"no queue":      {scorer.Cost{PerWaiting: -1}, []scorer.Resolved{base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10) })}, []float64{500}},
		"nothing known": {scorer.Cost{}, []scorer.Resolved{{Eligible: true}}, []float64{625}},
		"unknown queue is the mean, stale no better": {scorer.Cost{}, []scorer.Resolved{
			base(func(c *scorer.Resolved) { c.Signals.Waiting = known(10) }),
			base(func(c *scorer.Resolved) { c.Signals.Waiting = scorer.Value{} }),
			base(func(c *scorer.Resolved) { c.Stale = true }),
			base(func(c *scorer.Resolved) { c.Stale, c.Signals.Waiting = true, known(20) }),
		}, []float64{1_500, 1_500, 1_500, 2_500}},
		"unknown rate is the mean": {scorer.Cost{}, []scorer.Resolved{
			base(func(c *scorer.Resolved) { c.PrefillRate = known(20_000) }),
			base(func(c *scorer.Resolved) { c.PrefillRate = known(5_000) }),
			base(func(c *scorer.Resolved) { c.PrefillRate = scorer.Value{} }),
		}, []float64{250, 1_000, 400}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Validate())
			in := scorer.Input{PromptTokens: 5_000, BlockTokens: 16, Candidates: c.cs}
			ms := make([]float64, len(c.cs))
			c.s.Estimate(&in, ms)
			equalScores(t, c.want, ms)
			for i, score := range run(c.s, in) {
				require.InDelta(t, 1-c.want[i]/10_000, score, 1e-9)
			}
			slow := c.s
			slow.Horizon = time.Millisecond
			for _, score := range run(slow, in) {
				require.Zero(t, score)
			}
		})
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for want, v := range map[string]scorer.Validator{
		"Queue.Half":         scorer.Queue{Half: -1},
		"Queue.Norm":         scorer.Queue{Norm: 9},
		"LoadRequests.Half":  scorer.LoadRequests{Half: nan},
		"LoadTokens.Half":    scorer.LoadTokens{Half: math.Inf(1)},
		"Prefix.CPUWeight":   scorer.Prefix{CPUWeight: 1.5},
		"Prefix.DiskWeight":  scorer.Prefix{DiskWeight: nan},
		"Prefix.StaleWeight": scorer.Prefix{StaleWeight: math.Inf(-1)},
		"Prefix.Floor":       scorer.Prefix{Floor: -1},
		"Prefix.Norm":        scorer.Prefix{Norm: scorer.ToLeast},
		"Signal.Best":        scorer.Signal{},
		"Field is 200":       scorer.Signal{Field: 200, Best: 1},
		"Cost.Horizon":       scorer.Cost{Horizon: -1},
		"Cost.PrefillRate":   scorer.Cost{PrefillRate: nan},
	} {
		require.ErrorContains(t, v.Validate(), want)
	}
}

// Every scorer gives a number between 0 and 1, or no opinion, for any candidates.
func TestScoresAreInRange(t *testing.T) {
	scorers := []scorer.Scorer{
		scorer.Prefix{}, scorer.Prefix{Floor: 4_096},
		scorer.Queue{}, scorer.Queue{Norm: scorer.Relative}, scorer.Queue{Norm: scorer.ToLeast},
		scorer.LoadRequests{}, scorer.LoadTokens{}, scorer.LoadTokens{Norm: scorer.Relative},
		scorer.LoadTokens{Norm: scorer.ToLeast},
		scorer.Prefix{Norm: scorer.Relative}, scorer.Cost{}, scorer.Cost{PerWaiting: -1}, scorer.Session{}, scorer.Adapter{},
		scorer.Signal{Field: scorer.Waiting, Best: 0, Worst: 100},
	}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Just(nan), rapid.Just(0.0), rapid.Float64Range(0, 200), rapid.Float64())
		cs := make([]scorer.Resolved, rapid.IntRange(0, 6).Draw(t, "n"))
		for i := range cs {
			gpu := rapid.IntRange(0, 5_000).Draw(t, "gpu")
			cpu := gpu + rapid.IntRange(0, 5_000).Draw(t, "cpu")
			cs[i] = scorer.Resolved{
				Signals:  scorer.Signals{Waiting: known(number.Draw(t, "waiting"))},
				InFlight: scorer.InFlight{Requests: known(number.Draw(t, "requests")), Tokens: known(number.Draw(t, "tokens"))},
				Held:     prefixindex.Held{GPU: gpu, CPU: cpu, Any: cpu, View: prefixindex.View(rapid.IntRange(0, 5).Draw(t, "view"))},
				Doubt:    rapid.Float64Range(0, 1).Draw(t, "doubt"),
				Stale:    rapid.Bool().Draw(t, "stale"),
				Eligible: rapid.Bool().Draw(t, "eligible"),
			}
		}
		in := scorer.Input{Request: &scorer.Request{Session: "s"}, PromptTokens: rapid.IntRange(0, 9_000).Draw(t, "prompt"), BlockTokens: 16, Candidates: cs}
		for _, s := range scorers {
			for i, v := range run(s, in) {
				if cs[i].Eligible && !math.IsNaN(v) && !(v >= 0 && v <= 1) {
					t.Fatalf("%#v gives candidate %d a score of %v", s, i, v)
				}
			}
		}
	})
}

func TestValueNegative(t *testing.T) {
	for x, want := range map[float64]bool{-1: true, -math.SmallestNonzeroFloat64: true, 0: false, math.Copysign(0, -1): false, 3: false} {
		require.Equal(t, want, known(x).Negative(), "%v", x)
	}
	require.False(t, scorer.Value{}.Negative())
	require.Equal(t, "?", scorer.Value{}.String())
	require.Equal(t, "2.5", known(2.5).String())
}
