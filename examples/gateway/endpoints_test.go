package main

import (
	"bytes"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseEndpoints(t *testing.T) {
	for _, c := range []struct{ name, text, err string }{
		{"two", `{"endpoints": [{"url": "http://10.0.0.7:8000"}, {"url": "https://b", "events": [{"address": "tcp://b:5557"}]}]}`, ""},
		{"none", `{"endpoints": []}`, ""},
		{"another object", `{}`, `no field "endpoints"`},
		{"null", `{"endpoints": null}`, `no field "endpoints"`},
		{"misspelled", `{"endpoints": [{"url": "http://a", "event": []}]}`, `unknown field "event"`},
		{"cut off", `{"endpoints": [{"url": "http://a"}`, "unexpected EOF"},
		{"two objects", `{"endpoints": []} {}`, "something follows"},
		{"no scheme", `{"endpoints": [{"url": "10.0.0.7:8000"}]}`, `endpoints[0]: url is "10.0.0.7:8000"`},
		{"twice", `{"endpoints": [{"url": "http://a"}, {"url": "http://a"}]}`, "endpoints[1]: url http://a is there twice"},
		{"events", `{"endpoints": [{"url": "http://a", "events": [{"address": "a:5557"}]}]}`, `events[0]: address is "a:5557"`},
		{"replay", `{"endpoints": [{"url": "http://a", "events": [{"address": "tcp://a:5557", "replay": "5558"}]}]}`, `address is "5558"`},
		{"no address", `{"endpoints": [{"url": "http://a", "events": [{"replay": "tcp://a:5558"}]}]}`, `address is ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseEndpoints([]byte(c.text))
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

func TestSpecFlags(t *testing.T) {
	parse := func(args ...string) ([]spec, error) {
		var specs []spec
		flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		specFlags(flags, &specs)
		return specs, flags.Parse(args)
	}
	specs, err := parse("-endpoint", "http://a", "-events", "tcp://a:1", "-replay", "tcp://a:2", "-events", "tcp://a:3",
		"-endpoint", "http://b")
	require.NoError(t, err)
	require.Equal(t, []spec{
		{URL: "http://a", Events: []stream{{Address: "tcp://a:1", Replay: "tcp://a:2"}, {Address: "tcp://a:3"}}},
		{URL: "http://b"},
	}, specs)
	_, err = parse("-events", "tcp://a:1")
	require.ErrorContains(t, err, "before any -endpoint")
	_, err = parse("-endpoint", "http://a", "-replay", "tcp://a:1")
	require.ErrorContains(t, err, "before any -events")
}

// A file with a mistake keeps what was there, is counted and logged once; a good one
// that follows is taken.
func TestEndpointsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.json")
	var log bytes.Buffer
	var got [][]spec
	f := &endpointsFile{
		path: path, set: func(s []spec) { got = append(got, s) },
		log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.Error(t, f.look(), "no file")
	require.NoError(t, f.look(), "said already")
	write(`{"endpoints": [{"url": "http://a"}]}`)
	require.NoError(t, f.look())
	require.NoError(t, f.look())
	require.Equal(t, [][]spec{{{URL: "http://a"}}}, got)
	write(`{"endpoints": [{"url": "http://a"}`)
	require.Error(t, f.look())
	require.NoError(t, os.Remove(path))
	require.Error(t, f.look())
	require.Len(t, got, 1)
	write(`{"endpoints": [{"url": "http://a"}]}`)
	require.NoError(t, f.look(), "it is back as it was")
	write(`{"endpoints": [{"url": "http://a", "events": []}, {"url": "http://b"}]}`)
	require.NoError(t, f.look())
	require.Len(t, got, 3)
	require.Len(t, got[2], 2)
}
