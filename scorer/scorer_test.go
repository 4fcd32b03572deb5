package scorer_test

import (
	"math"
	"testing"

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
				Stale:    rapid.Bool().Draw(t, "stale"),
				Eligible: rapid.Bool().Draw(t, "eligible"),
			}
		}
		in := scorer.Input{PromptTokens: rapid.IntRange(0, 9_000).Draw(t, "prompt"), BlockTokens: 16, Candidates: cs}
		for _, s := range scorers {
			for i, v := range run(s, in) {
				if cs[i].Eligible && !math.IsNaN(v) && !(v >= 0 && v <= 1) {
					t.Fatalf("%#v gives candidate %d a score of %v", s, i, v)
				}
			}
		}
	})
}
