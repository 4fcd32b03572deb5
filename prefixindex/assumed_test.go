package prefixindex_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

func TestAssumedBlocksExpire(t *testing.T) {
	now := time.Unix(0, 0)
	f := newFixture(t, prefixindex.Options{AssumedTTL: time.Minute, Clock: func() time.Time { return now }})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(11))
	require.NoError(t, f.ix.Insert(f.ep, 0, &p, -1))
	now = now.Add(time.Minute - 1)
	f.holds(8, 8, 8)
	require.Equal(t, prefixindex.ViewAssumed, f.ix.View(f.ep, 0))
	now = now.Add(1)
	f.holds(0, 0, 0)
	require.EqualValues(t, 2, f.ix.Stats().Expired)
}

func TestInsertKeepsTheHeadOfTheLatestPrompt(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 3})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	require.NoError(t, f.ix.Insert(f.ep, 0, &p, -1))
	f.holds(12, 12, 12)
	var q prefixindex.Prompt
	q.Reset(prefixindex.Scope{Model: "other"}, tokens(4))
	require.NoError(t, f.ix.Insert(f.ep, 0, &q, 1))
	f.holds(8, 8, 8)
	s := f.w.Stats()
	require.EqualValues(t, 17, s.Inserted)
	require.EqualValues(t, 14, s.Evicted)
}

func TestInsertIsRefusedWhereEventsCome(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(8))
	require.NoError(t, f.ix.Insert(f.ep, 7, &p, 1), "opens the owner's epoch")
	require.Equal(t, prefixindex.ViewAssumed, f.ix.View(f.ep, 7))
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	require.ErrorIs(t, f.ix.Insert(f.ep, 0, &p, -1), prefixindex.ErrEvents)
	require.NoError(t, f.w.Clear())
	require.ErrorIs(t, f.ix.Insert(f.ep, 0, &p, -1), prefixindex.ErrEvents)
	require.NoError(t, f.w.Insert(&p, -1), "tests may mix")
	f.holds(8, 8, 8)
}

// A router that records what it routed, until it turns out that the engine sends events.
func TestFirstEventEndsWhatWasAssumed(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(8))
	require.NoError(t, f.ix.Insert(f.ep, 0, &p, -1))
	f.holds(8, 8, 8)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1)
	require.EqualValues(t, 2, f.ix.Stats().Expired)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 0, 0)
}

func TestInsertOfBytes(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.ResetBytes(scope, make([]byte, 40))
	require.NoError(t, f.w.Insert(&p, -1))
	f.ix.Match(&p, &f.match)
	require.Equal(t, 8, f.match.Of(f.ep).GPU)
	require.Equal(t, 10, f.match.PromptTokens())
}

func TestGuessesGoBeforeWhatTheEngineSaid(t *testing.T) {
	f := newFixture(t, prefixindex.Options{OwnerBlocks: 4})
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	var p prefixindex.Prompt
	p.Reset(scope, tokens(64))
	require.NoError(t, f.w.Insert(&p, 4))
	f.holds(16, 16, 16)
	var other prefixindex.Prompt
	other.Reset(prefixindex.Scope{Model: "other"}, tokens(64))
	require.NoError(t, f.w.Insert(&other, 2))
	f.holds(8, 8, 8)
	f.store(prefixindex.TierGPU, 4, 8, 2, 3, 4)
	f.holds(16, 16, 16)
	require.Equal(t, 4, f.w.Stats().Holdings)
}

func TestRankOfAColdPickIsTheFirst(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(8))
	require.NoError(t, f.ix.Insert(f.ep, -1, &p, -1))
	require.NoError(t, f.ix.Expect(f.ep, -1, &p, 0, time.Second))
	f.holds(8, 8, 8)
	require.Equal(t, 1, f.ix.Stats().Owners)
	require.ErrorIs(t, f.ix.Insert(f.ep, -2, &p, 1), prefixindex.ErrArgument)
	_, err := f.ix.Writer(f.ep, -1)
	require.ErrorContains(t, err, "rank is -1")
}
