//go:build invariants

package prefixindex

import (
	"testing"

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
	tokens []uint32
}

func newMeeting(t *testing.T) *meeting {
	ix, err := New(Options{BlockTokens: 4})
	require.NoError(t, err)
	g := &meeting{T: t, ix: ix, tokens: make([]uint32, 800)}
	for i := range g.tokens {
		g.tokens[i] = uint32(i + 1)
	}
	g.prompt.Reset(Scope{}, g.tokens)
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

func (g *meeting) store(from, to int) {
	s := &Span{Tokens: g.tokens[4*from : 4*to], BlockTokens: 4, Parent: EngineHash(from), HasParent: from > 0}
	for i := from; i < to; i++ {
		s.Hashes = append(s.Hashes, EngineHash(i+1))
	}
	require.NoError(g, g.w.Store(s))
}

func (g *meeting) remove(from, to int) {
	r := &Removal{}
	for i := to - 1; i >= from; i-- {
		r.Hashes = append(r.Hashes, EngineHash(i+1))
	}
	require.NoError(g, g.w.Remove(r))
}

// run looks the prompt up, and returns the owner's run in blocks.
func (g *meeting) run(m *Match) int {
	g.ix.Match(&g.prompt, m)
	return m.Of(g.ep).Any / 4
}

// walked makes the owner's holes too many to list, all beyond block 40.
func (g *meeting) walked() {
	g.store(0, 190)
	for i := 41; i < 189; i += 2 {
		g.remove(i, i+1)
	}
}

// The first block is looked at before the rest: what happens between belongs to the run.
func TestWalkSeesFirstBlockGo(t *testing.T) {
	g := newMeeting(t)
	g.walked()
	g.remove(3, 40)
	require.Equal(t, 3, g.run(&g.match))
	g.at("found", func() {
		g.remove(0, 1)
		g.store(3, 40)
	})
	require.LessOrEqual(t, g.run(&g.match), 3, "the owner never had a longer run")
	g.met()
}
