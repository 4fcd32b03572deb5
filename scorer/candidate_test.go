package scorer_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
)

func TestKnownRefusesWhatIsNoNumber(t *testing.T) {
	for _, x := range []float64{nan, math.Inf(1), math.Inf(-1)} {
		_, ok := known(x).Get()
		require.False(t, ok)
	}
	x, ok := known(0).Get()
	require.True(t, ok)
	require.Zero(t, x)
}

func TestValueNegative(t *testing.T) {
	for x, want := range map[float64]bool{-1: true, -math.SmallestNonzeroFloat64: true, 0: false, math.Copysign(0, -1): false, 3: false} {
		require.Equal(t, want, known(x).Negative(), "%v", x)
	}
	require.False(t, scorer.Value{}.Negative())
	require.Equal(t, "?", scorer.Value{}.String())
	require.Equal(t, "2.5", known(2.5).String())
}
