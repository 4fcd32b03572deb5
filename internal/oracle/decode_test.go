package oracle_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
)

// payloads returns what was captured from engines, the files that differ.
func payloads(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../kvevents/testdata/*/*.msgpack")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	seen := map[string]bool{}
	all := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		if !seen[string(b)] {
			seen[string(b)] = true
			all[file] = b
		}
	}
	return all
}

// compare checks that our decoder says the same of a payload as lib.
func compare(t *testing.T, lib library, payload []byte) {
	t.Helper()
	v, rest, err := lib.read(payload)
	if errors.Is(err, errDeep) {
		return
	}
	var want batch
	ok := err == nil && len(rest) == 0
	if ok {
		want, ok = interpret(lib, v)
	}
	var got kvevents.Batch
	decoded := new(kvevents.Decoder).Decode(payload, &got)
	require.Equal(t, ok, decoded == nil, "%s: %v; ours: %v", lib.name, err, decoded)
	if !ok {
		return
	}
	require.Equal(t, want.malformed, got.Malformed)
	require.Equal(t, want.unknown, got.Unknown)
	require.Equal(t, want.hasRank, got.HasRank)
	if want.hasRank {
		require.Equal(t, want.rank, got.Rank)
	}
	require.Len(t, got.Events, len(want.events))
	for i := range want.events {
		w, g := want.events[i], got.Events[i]
		require.True(t, bytes.Equal(w.Medium, g.Medium) && bytes.Equal(w.LoRAName, g.LoRAName) && bytes.Equal(w.Salt, g.Salt) &&
			bytes.Equal(w.SpecKind, g.SpecKind) && bytes.Equal(w.Locality, g.Locality) && bytes.Equal(w.Ownership, g.Ownership), "%+v\n%+v", w, g)
		require.Len(t, g.Extras, len(w.Extras))
		for j := range w.Extras {
			require.True(t, bytes.Equal(w.Extras[j].ID, g.Extras[j].ID))
			w.Extras[j].ID, g.Extras[j].ID = nil, nil
		}
		w.Medium, w.LoRAName, w.Salt, w.SpecKind, w.Locality, w.Ownership = nil, nil, nil, nil, nil, nil
		g.Medium, g.LoRAName, g.Salt, g.SpecKind, g.Locality, g.Ownership = nil, nil, nil, nil, nil, nil
		require.Equal(t, w, g)
	}
}

func TestCapturedPayloads(t *testing.T) {
	for name, payload := range payloads(t) {
		for _, lib := range libraries {
			t.Run(lib.name+"/"+filepath.Base(name), func(t *testing.T) { compare(t, lib, payload) })
		}
	}
}

func fuzz(f *testing.F, lib library) {
	for _, payload := range payloads(f) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) <= 1<<16 {
			compare(t, lib, payload)
		}
	})
}

func FuzzDecodeAgainstMsgp(f *testing.F) { fuzz(f, libraries[0]) }

// Of payloads that are no msgpack at all this library may allocate what they claim to
// hold, so it is asked only about those that are.
func FuzzDecodeAgainstVmihailenco(f *testing.F) {
	careful := libraries[1]
	read := careful.read
	careful.read = func(b []byte) (value, []byte, error) {
		if v, rest, err := libraries[0].read(b); err != nil {
			return v, rest, err
		}
		return read(b)
	}
	fuzz(f, careful)
}
