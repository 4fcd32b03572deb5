package prefixindex_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

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

// TestWhatAnIndexTakesCanBeRestored has everything long, or large, that it accepts.
func TestWhatAnIndexTakesCanBeRestored(t *testing.T) {
	for name, fill := range map[string]func(f *fixture){
		"name": func(f *fixture) {
			_, err := f.ix.Join(strings.Repeat("x", 1<<20))
			require.NoError(f, err)
		},
		"cursor": func(f *fixture) { f.w.Batch(func() []byte { return make([]byte, 1<<21) }) },
		"group": func(f *fixture) {
			s := &prefixindex.Span{Hashes: []prefixindex.EngineHash{1}, Tokens: tokens(4), BlockTokens: 4, Scope: scope}
			for s.Group = math.MaxInt32; s.Group > math.MaxInt32-300; s.Group-- {
				require.NoError(f, f.w.Store(s))
			}
		},
		"extra": func(f *fixture) {
			f.storeExtras(0, prefixindex.Extra{ID: strings.Repeat("y", 1<<20)})
			f.storeExtras(9, prefixindex.Extra{ID: strings.Repeat("y", 1<<20)})
		},
		"extras": func(f *fixture) { f.storeExtras(0, make([]prefixindex.Extra, 1<<17)...) },
		"whole span": func(f *fixture) {
			s := &prefixindex.Span{Whole: true, BlockTokens: 1 << 20}
			for i := range prefixindex.EngineHash(5000) {
				s.Hashes = append(s.Hashes, i+1)
			}
			require.NoError(f, f.w.Store(s))
		},
		"expectation after an assumed block that is gone": func(f *fixture) {
			var p, q prefixindex.Prompt
			p.Reset(scope, tokens(8))
			q.Reset(prefixindex.Scope{Model: "q"}, tokens(8))
			require.NoError(f, f.w.Insert(&p, 1))
			require.NoError(f, f.ix.Expect(f.ep, 0, &p, 1, time.Hour))
			require.NoError(f, f.w.Store(&prefixindex.Span{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, prefixindex.Options{})
			fill(f)
			var file bytes.Buffer
			require.NoError(t, f.ix.Snapshot(&file))
			ix, err := prefixindex.Restore(prefixindex.Options{}, &file)
			require.NoError(t, err)
			want, got := f.ix.Stats(), ix.Stats()
			require.Equal(t, [2]int{want.Endpoints, want.Handles}, [2]int{got.Endpoints, got.Handles})
		})
	}
}

// storeExtras stores a part of a block, parked if it has a parent.
func (f *fixture) storeExtras(parent prefixindex.EngineHash, extras ...prefixindex.Extra) {
	require.NoError(f, f.w.Store(&prefixindex.Span{
		Hashes: []prefixindex.EngineHash{parent + 1}, Parent: parent, HasParent: parent != 0,
		Tokens: tokens(2), BlockTokens: 2, Scope: scope, Extras: extras,
	}))
}

// TestRestoredBlocksExpire restores what never expired where blocks do, and where they
// live less long than they did.
func TestRestoredBlocksExpire(t *testing.T) {
	now := time.Unix(1000, 0)
	o := prefixindex.Options{BlockTokens: 4, Clock: func() time.Time { return now }}
	for _, ttl := range []time.Duration{0, time.Hour} {
		o.AssumedTTL = ttl
		f := newFixture(t, o)
		var p, q prefixindex.Prompt
		p.Reset(prefixindex.Scope{Model: "p"}, tokens(64))
		q.Reset(scope, tokens(64))
		require.NoError(t, f.w.Insert(&p, 2))
		var file bytes.Buffer
		require.NoError(t, f.ix.Snapshot(&file))
		o.AssumedTTL = time.Minute
		var err error
		f.ix, err = prefixindex.Restore(o, &file)
		require.NoError(t, err)
		f.ep, _ = f.ix.Find("a")
		require.NoError(t, f.ix.Insert(f.ep, 0, &q, 3))
		now = now.Add(time.Minute - 1)
		f.holds(12, 12, 12)
		now = now.Add(1)
		f.holds(0, 0, 0)
		require.Zero(t, f.ix.Stats().Blocks)
	}
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
