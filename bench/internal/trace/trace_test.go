package trace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/internal/trace"
)

func TestRead(t *testing.T) {
	list, err := trace.Read(strings.NewReader(
		`{"timestamp": 0, "input_length": 513, "output_length": 3, "hash_ids": [0, 7]}` + "\n\n" +
			`{"timestamp": 27, "input_length": 512, "output_length": 0, "hash_ids": [0], "x": 1}`))
	require.NoError(t, err)
	require.Equal(t, []trace.Request{
		{Input: 513, Output: 3, IDs: []uint64{0, 7}},
		{At: 27 * time.Millisecond, Input: 512, IDs: []uint64{0}},
	}, list)
	require.Equal(t, list[1].Tokens(), list[0].Tokens()[:512])

	for _, bad := range []string{
		`{`,
		`[]`,
		`{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}`,
		`{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}`,
		`{"timestamp": 0, "input_length": 5, "output_length": -1, "hash_ids": [1]}`,
		`{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [-1]}`,
	} {
		_, err := trace.Read(strings.NewReader(bad))
		require.ErrorIs(t, err, trace.ErrTrace, bad)
		require.ErrorContains(t, err, "line 1")
	}
}

func TestSessionsShareAndGrow(t *testing.T) {
	list := trace.Sessions(1, 1000)
	require.Equal(t, list[:100], trace.Sessions(1, 100))
	require.NotEqual(t, list[:100], trace.Sessions(2, 100))
	seen := map[uint64]bool{}
	shared := 0
	for _, r := range list {
		require.Len(t, r.IDs, (r.Input+trace.IDTokens-1)/trace.IDTokens)
		ended := false // once a number is new, all that follow are
		for _, id := range r.IDs {
			require.False(t, ended && seen[id], "number %d comes after a new one", id)
			ended = ended || !seen[id]
			if seen[id] {
				shared++
			}
		}
		for _, id := range r.IDs {
			seen[id] = true
		}
	}
	require.Greater(t, shared, 1000*5)
}

func TestRepeatSharesWithinARound(t *testing.T) {
	list := trace.Repeat(trace.Sessions(1, 10), 25)
	require.Len(t, list, 25)
	require.NotEqual(t, list[0].Tokens(), list[10].Tokens())
	require.Len(t, list[10].Tokens(), len(list[0].Tokens()))
	require.Greater(t, list[10].At, list[9].At-1)
	require.Empty(t, trace.Repeat(nil, 5))
}
