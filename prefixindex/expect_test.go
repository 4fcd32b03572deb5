package prefixindex_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// expectations is a fixture whose clock the test moves.
func expectations(t *testing.T) (f *fixture, p *prefixindex.Prompt, pass func(time.Duration)) {
	now := time.Unix(0, 0)
	f = newFixture(t, prefixindex.Options{Clock: func() time.Time { return now }})
	p = new(prefixindex.Prompt)
	p.Reset(scope, tokens(20))
	return f, p, func(d time.Duration) { now = now.Add(d) }
}

func TestExpectationCountsUntilItEnds(t *testing.T) {
	f, p, pass := expectations(t)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2)
	require.NoError(t, f.ix.Expect(f.ep, 0, p, 2, time.Second))
	f.holds(20, 20, 20)
	pass(time.Second)
	f.holds(8, 8, 8)
	s := f.w.Stats()
	require.EqualValues(t, 3, s.Expected)
	require.EqualValues(t, 3, s.Expired)
	require.Equal(t, 2, s.Holdings)
}

func TestOneRequestsEndLeavesTheOthers(t *testing.T) {
	f, p, pass := expectations(t)
	require.NoError(t, f.ix.Expect(f.ep, 0, p, 0, time.Second))
	pass(time.Second / 2)
	p.Reset(scope, tokens(12))
	require.NoError(t, f.ix.Expect(f.ep, 0, p, 0, time.Second))
	f.holds(20, 20, 20)
	pass(time.Second / 2)
	f.holds(12, 12, 12)
	pass(time.Second / 2)
	f.holds(0, 0, 0)
	require.Zero(t, f.w.Stats().Handles)
}

func TestEventsConfirmAnExpectation(t *testing.T) {
	f, p, pass := expectations(t)
	require.NoError(t, f.ix.Expect(f.ep, 0, p, 0, time.Second))
	f.store(prefixindex.TierGPU, 8, 0, 0, 1, 2) // four blocks of five
	f.holds(20, 20, 20)
	require.EqualValues(t, 4, f.w.Stats().Confirmed)
	f.remove(prefixindex.TierGPU, 2)
	f.holds(8, 8, 8) // a removal after the confirmation is believed
	pass(time.Second)
	f.holds(8, 8, 8)
	f.remove(prefixindex.TierGPU, 1)
	f.holds(0, 0, 0)
}

func TestExpectationBeyondWhatIsHeldIsNotCredited(t *testing.T) {
	f, p, pass := expectations(t)
	require.NoError(t, f.ix.Expect(f.ep, 0, p, 3, time.Second))
	f.holds(0, 0, 0)
	f.store(prefixindex.TierGPU, 4, 0, 0, 1, 2, 3)
	f.holds(20, 20, 20)
	pass(time.Minute)
	f.holds(12, 12, 12)
}

func TestExpectValidates(t *testing.T) {
	f, p, _ := expectations(t)
	require.ErrorContains(t, f.ix.Expect(f.ep, 0, p, -1, time.Second), "from is -1")
	require.ErrorContains(t, f.ix.Expect(f.ep, 0, p, 0, 0), "ttl is 0s")
	f.ix.Leave(f.ep)
	require.ErrorIs(t, f.ix.Expect(f.ep, 0, p, 0, time.Second), prefixindex.ErrNotJoined)
}

// TestEventsConfirmABlockOfSeveralEngineBlocks completes one of ours with its first part.
func TestEventsConfirmABlockOfSeveralEngineBlocks(t *testing.T) {
	f, p, _ := expectations(t)
	f.store(prefixindex.TierGPU, 2, 0, 0, 1, 2)
	f.remove(prefixindex.TierGPU, 1)
	require.NoError(t, f.ix.Expect(f.ep, 0, p, 0, time.Second))
	f.store(prefixindex.TierGPU, 2, 0, 0, 1)
	require.EqualValues(t, 1, f.w.Stats().Confirmed)
	f.remove(prefixindex.TierGPU, 2)
	f.holds(0, 0, 0)
}
