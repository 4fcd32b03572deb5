package scorer_test

import (
	"encoding/json"
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

// A value is a number or null in JSON, and its zero is not lost.
func TestValueSurvivesJSON(t *testing.T) {
	for _, v := range []scorer.Value{{}, known(0), known(-2.5), known(math.MaxFloat64), known(1e-300)} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		back := known(7)
		require.NoError(t, json.Unmarshal(text, &back), "%s", text)
		require.Equal(t, v, back)
	}
	text, err := json.Marshal([]scorer.Value{{}, known(0), known(3)})
	require.NoError(t, err)
	require.Equal(t, `[null,0,3]`, string(text))
	for _, bad := range []string{`"3"`, `true`, `[]`, `1e999`} {
		var v scorer.Value
		require.ErrorContains(t, json.Unmarshal([]byte(bad), &v), "it must be null or a number")
	}
}
