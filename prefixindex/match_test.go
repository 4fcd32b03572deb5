package prefixindex_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

func TestMatchIsTheLongestRunFromTheFirstBlock(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3, 4)
	f.holds(16, 16, 16)
	f.remove(prefixindex.TierGPU, 2)
	f.holds(4, 4, 4)
	f.store(prefixindex.TierCPU, 4, 4, 1, 2)
	f.holds(4, 16, 16)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 0, 0)
}

func TestScopesDoNotMeet(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	image := prefixindex.Extra{At: 0, ID: "x"}
	stored := prefixindex.Span{Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4), BlockTokens: 4}
	spans := map[string]prefixindex.Span{}
	for name, change := range map[string]func(*prefixindex.Span){
		"plain":     func(s *prefixindex.Span) {},
		"adapter x": func(s *prefixindex.Span) { s.Scope.Adapter = "x" },
		"salt x":    func(s *prefixindex.Span) { s.Scope.Salt = "x" },
		"image x":   func(s *prefixindex.Span) { s.Extras = []prefixindex.Extra{image} },
	} {
		s := stored
		change(&s)
		spans[name] = s
	}
	for held, s := range spans {
		require.NoError(t, f.w.Clear())
		require.NoError(t, f.w.Store(&s))
		for asked, q := range spans {
			var p prefixindex.Prompt
			p.Reset(q.Scope, q.Tokens, q.Extras...)
			f.ix.Match(&p, &f.match)
			want := 0
			if asked == held {
				want = 4
			}
			require.Equal(t, want, f.match.Of(f.ep).GPU, "%s held, %s asked for", held, asked)
		}
	}
}

func TestExtrasOfEventsMeetThoseOfPrompts(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	// An image begins in the part of a block that its engine block leaves over.
	require.NoError(t, f.w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{1, 2}, Tokens: tokens(12), BlockTokens: 6, Scope: scope,
		Extras: []prefixindex.Extra{{At: 5, ID: "a"}, {At: 7, ID: "b"}},
	}))
	var p prefixindex.Prompt
	for _, c := range []struct {
		ids  [2]string
		want int
	}{{[2]string{"a", "b"}, 12}, {[2]string{"a", "c"}, 4}, {[2]string{"b", "a"}, 4}} {
		p.Reset(scope, tokens(12), prefixindex.Extra{At: 7, ID: c.ids[1]}, prefixindex.Extra{At: 5, ID: c.ids[0]})
		f.ix.Match(&p, &f.match)
		require.Equal(t, c.want, f.match.Of(f.ep).GPU, "%v", c.ids)
	}
}

func TestOfIsTheBestRank(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	for rank, blocks := range []int{0, 2, 5, 5} {
		w, err := f.ix.Writer(f.ep, rank)
		require.NoError(t, err)
		require.NoError(t, w.Insert(&p, blocks))
		require.NoError(t, w.SetView(prefixindex.ViewLive))
	}
	f.ix.Match(&p, &f.match)
	require.Equal(t, prefixindex.Held{Rank: 2, GPU: 20, CPU: 20, Any: 20, View: prefixindex.ViewLive}, f.match.Of(f.ep))
	require.Equal(t, prefixindex.Held{Rank: 1, GPU: 8, CPU: 8, Any: 8, View: prefixindex.ViewLive}, f.match.Rank(f.ep, 1))
	require.Equal(t, prefixindex.Held{Rank: 0, View: prefixindex.ViewLive}, f.match.Rank(f.ep, 0))
	require.Equal(t, prefixindex.Held{Rank: 9}, f.match.Rank(f.ep, 9))
	var ranks []int
	for ep, h := range f.match.All() {
		require.Equal(t, f.ep, ep)
		ranks = append(ranks, h.Rank)
	}
	slices.Sort(ranks)
	require.Equal(t, []int{1, 2, 3}, ranks)
	for range f.match.All() {
		break
	}
}

func TestHoldingNothingShowsTheLeastTrustedView(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	second, err := f.ix.Writer(f.ep, 1)
	require.NoError(t, err)
	order := []prefixindex.View{
		prefixindex.ViewNever, prefixindex.ViewStale, prefixindex.ViewGap,
		prefixindex.ViewResyncing, prefixindex.ViewAssumed, prefixindex.ViewLive,
	}
	var p prefixindex.Prompt
	for i, a := range order {
		for j, b := range order {
			require.NoError(t, f.w.SetView(a))
			require.NoError(t, second.SetView(b))
			f.ix.Match(&p, &f.match)
			require.Equal(t, prefixindex.Held{Rank: -1, View: order[min(i, j)]}, f.match.Of(f.ep))
		}
	}
	var zero prefixindex.Match
	require.Equal(t, prefixindex.Held{Rank: -1}, zero.Of(f.ep))
	require.Equal(t, prefixindex.Held{Rank: -1}, f.match.Of(0))
}

func TestMatchAllocatesNothing(t *testing.T) {
	f := newFixture(t, prefixindex.Options{AssumedTTL: time.Hour})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3)
	var p prefixindex.Prompt
	prompt := tokens(64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.Reset(scope, prompt)
		f.ix.Match(&p, &f.match)
	}))
}
