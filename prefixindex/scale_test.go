package prefixindex_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// TestSixteenThousandOwners has all of them hold the same blocks, and every fourth on
// two tiers: none is left out.
func TestSixteenThousandOwners(t *testing.T) {
	const owners = 16384
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	eps := make([]prefixindex.Endpoint, owners)
	for i := range eps {
		eps[i], err = ix.Join(fmt.Sprint(i))
		require.NoError(t, err)
		w, err := ix.Writer(eps[i], 0)
		require.NoError(t, err)
		s := stressSpan(0, 1+i%5)
		require.NoError(t, w.Store(s))
		if i%4 == 0 {
			s := stressSpan(0, 6)
			s.Tier = prefixindex.TierCPU
			require.NoError(t, w.Store(s))
		}
	}
	var p prefixindex.Prompt
	var m prefixindex.Match
	p.Reset(scope, tokens(40))
	check := func(held func(i int) bool) {
		ix.Match(&p, &m)
		found := 0
		for range m.All() {
			found++
		}
		for i, e := range eps {
			gpu, cpu := 4*(1+i%5), 4*(1+i%5)
			if i%4 == 0 {
				cpu = 24
			}
			if !held(i) {
				gpu, cpu = 0, 0
			} else {
				found--
			}
			h := m.Of(e)
			require.Equal(t, [3]int{gpu, cpu, cpu}, [3]int{h.GPU, h.CPU, h.Any}, "owner %d", i)
		}
		require.Zero(t, found)
	}
	check(func(int) bool { return true })
	require.Zero(t, testing.AllocsPerRun(10, func() { ix.Match(&p, &m) }))
	var names []string
	for i := 0; i < owners; i += 2 {
		names = append(names, fmt.Sprint(i))
	}
	require.Equal(t, owners/2, ix.Retain(names))
	check(func(i int) bool { return i%2 == 0 })
	require.Equal(t, 6, ix.Stats().Blocks)
}
