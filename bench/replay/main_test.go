package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The recording of one worker is played for two more, and begins again while rates are
// offered.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{
		"-workers", "2,65", "-requests", "4", "-pool", "4096", "-rates", "0.5,2", "-step", "50ms",
		"-json", filepath.Join(dir, "r.json"), "-md", filepath.Join(dir, "r.md"),
	}, &out, &strings.Builder{}))
	md, err := os.ReadFile(filepath.Join(dir, "r.md"))
	require.NoError(t, err)
	require.Equal(t, string(md), out.String())

	b, err := os.ReadFile(filepath.Join(dir, "r.json"))
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Sizes, 2)
	for i, workers := range []int{2, 128} { // in worlds of 64
		s := r.Sizes[i]
		require.Equal(t, workers, s.Workers)
		require.Equal(t, 4*workers, s.Requests)
		require.Zero(t, s.Fill.Differ, "each lookup says what the pool found")
		require.Positive(t, s.HitRate)
		require.Positive(t, s.Fill.Match.P50)
		require.Positive(t, s.Fill.Apply.P99)
		require.Greater(t, s.Holdings, 100*workers)
		require.InDelta(t, s.IndexBytes, s.HeapBytes, float64(s.HeapBytes)/2+2<<20)
		require.Len(t, s.Rates, 2)
		require.InEpsilon(t, s.Fill.Requests*2, s.Rates[1].Offered, 1e-9)
		require.Positive(t, s.Rates[0].Requests)
	}
}

func TestTraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(path,
		[]byte(`{"timestamp": 0, "input_length": 600, "output_length": 40, "hash_ids": [0, 1]}`), 0o600))
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-trace", path, "-workers", "1", "-step", "1ms"}, &out, &strings.Builder{}))
	require.Contains(t, out.String(), "Trace: trace.jsonl.")
	require.NotContains(t, out.String(), filepath.Dir(path)+"/trace.jsonl. ")
}

func TestBadArguments(t *testing.T) {
	for args, want := range map[string]string{
		"-workers 0":             "-workers",
		"-workers 8,x":           "-workers",
		"-rates 0":               "-rates",
		"-rates NaN":             "-rates",
		"-requests 0":            "-requests",
		"-pool 1":                "-pool",
		"-step 0s":               "-step",
		"more":                   "more",
		"-trace /nonexistent":    "/nonexistent",
		"-workers 1 -pool 64":    "-pool",
		"-unknown":               "-unknown",
		"-trace /dev/null -md x": "is empty",
	} {
		err := run(t.Context(), strings.Fields(args), &strings.Builder{}, &strings.Builder{})
		require.ErrorContains(t, err, want, args)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, nil, &strings.Builder{}, &strings.Builder{}), context.Canceled)
}
