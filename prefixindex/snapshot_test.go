package prefixindex_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// snapshot returns that of an index with something of everything.
func snapshot(t testing.TB) []byte {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, Seed: 7})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	_, err = ix.Join("b")
	require.NoError(t, err)
	w, err := ix.Writer(ep, 0)
	require.NoError(t, err)
	w.Batch(func() []byte {
		for i, size := range []int{4, 6, 3, 8} {
			base := prefixindex.EngineHash(100 * (i + 1))
			s := &prefixindex.Span{
				Hashes: []prefixindex.EngineHash{base, base + 1}, Tokens: tokens(2 * size),
				BlockTokens: size, Scope: scope, Tier: prefixindex.Tier(i % 3), Group: i / 2,
				Extras: []prefixindex.Extra{{At: 1, ID: "image"}},
			}
			require.NoError(t, w.Store(s))
			s.HasParent, s.Parent = true, base+1
			s.Hashes = []prefixindex.EngineHash{base + 2, base + 3}
			require.NoError(t, w.Store(s))
			s.Parent, s.Hashes = base+50, []prefixindex.EngineHash{base + 51, base + 52}
			require.NoError(t, w.Store(s)) // parked
			require.NoError(t, w.Remove(&prefixindex.Removal{
				Hashes: []prefixindex.EngineHash{base + 1}, Tier: s.Tier, Group: s.Group,
			}))
		}
		return []byte("cursor")
	})
	var p prefixindex.Prompt
	p.Reset(scope, tokens(30))
	require.NoError(t, w.Insert(&p, -1))
	var file bytes.Buffer
	require.NoError(t, ix.Snapshot(&file))
	return file.Bytes()
}

func TestRestoreRefusesWhatIsNoSnapshot(t *testing.T) {
	good := snapshot(t)
	restore := func(b []byte) error {
		_, err := prefixindex.Restore(prefixindex.Options{}, bytes.NewReader(b))
		return err
	}
	require.NoError(t, restore(good))
	for n := range good {
		require.ErrorIs(t, restore(good[:n]), prefixindex.ErrSnapshot, "cut after %d bytes", n)
	}
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		require.ErrorIs(t, restore(bad), prefixindex.ErrSnapshot, "bit %d", bit)
	}
	require.ErrorIs(t, restore([]byte("PK\x03\x04 something else altogether")), prefixindex.ErrSnapshot)
	_, err := prefixindex.Restore(prefixindex.Options{BlockTokens: 16}, bytes.NewReader(good))
	require.ErrorIs(t, err, prefixindex.ErrSnapshot)
	_, err = prefixindex.Restore(prefixindex.Options{Seed: 8}, bytes.NewReader(good))
	require.ErrorIs(t, err, prefixindex.ErrSnapshot)
}

func TestRestoreGivesBackCursorAndWriter(t *testing.T) {
	ix, err := prefixindex.Restore(prefixindex.Options{}, bytes.NewReader(snapshot(t)))
	require.NoError(t, err)
	ep, ok := ix.Find("a")
	require.True(t, ok)
	w, cursor, err := ix.Resume(ep, 0)
	require.NoError(t, err)
	require.Equal(t, "cursor", string(cursor))
	require.Equal(t, prefixindex.ViewAssumed, ix.View(ep, 0))
	held := w.Stats().Holdings
	require.NotZero(t, held)

	// An engine that has restarted meanwhile gets a new epoch.
	_, err = ix.Writer(ep, 0)
	require.NoError(t, err)
	require.ErrorIs(t, w.Clear(), prefixindex.ErrFenced)
	require.Zero(t, ix.Stats().Blocks)

	b, ok := ix.Find("b")
	require.True(t, ok)
	_, _, err = ix.Resume(b, 0)
	require.ErrorIs(t, err, prefixindex.ErrFenced)
	_, _, err = ix.Resume(0, 0)
	require.ErrorIs(t, err, prefixindex.ErrNotJoined)
}

type brokenWriter struct{ room int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestSnapshotReportsWriteErrors(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, ix.Snapshot(&brokenWriter{}), "disk full")
}

// FuzzRestore takes damaged snapshots whose checksum is right: an error or an index that
// works, but no panic. The tag invariants checks the structure besides.
func FuzzRestore(f *testing.F) {
	good := snapshot(f)
	f.Add(good[:len(good)-8])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := binary.LittleEndian.AppendUint64(bytes.Clone(body), xxhash.Sum64(body))
		ix, err := prefixindex.Restore(prefixindex.Options{OwnerBlocks: 1000}, bytes.NewReader(b))
		if err != nil {
			require.ErrorIs(t, err, prefixindex.ErrSnapshot)
			return
		}
		var file bytes.Buffer
		require.NoError(t, ix.Snapshot(&file))
		_, err = prefixindex.Restore(prefixindex.Options{}, &file)
		require.NoError(t, err, "what was restored can be saved and restored")
		var p prefixindex.Prompt
		var m prefixindex.Match
		p.Reset(scope, tokens(40))
		ix.Match(&p, &m)
		for ep, h := range m.All() {
			require.LessOrEqual(t, h.Any, 40)
			w, _, err := ix.Resume(ep, h.Rank)
			require.NoError(t, err)
			require.NoError(t, w.Insert(&p, -1))
			s := &prefixindex.Span{Hashes: []prefixindex.EngineHash{100}, Tokens: tokens(4), BlockTokens: 4, Scope: scope}
			require.NoError(t, w.Store(s))
			require.NoError(t, w.Remove(&prefixindex.Removal{Hashes: s.Hashes}))
		}
		for ep := range ix.Endpoints() {
			ix.Leave(ep)
		}
		s := ix.Stats()
		require.Zero(t, s.Blocks+s.Holdings+s.Handles)
	})
}
