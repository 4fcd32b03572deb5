package kvevents_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// seedPayloads yields what fuzzing of payloads begins with: what engines wrote, whole
// and cut, and what would hurt a careless reader.
func seedPayloads(f *testing.F) {
	seen := map[string]bool{}
	cut := map[string]bool{}
	for _, c := range manifest(f) {
		if !strings.HasSuffix(c.File, ".msgpack") || seen[c.SHA256] {
			continue
		}
		seen[c.SHA256] = true
		whole := capturedFile(f, c.File)
		f.Add(whole)
		release, name, _ := strings.Cut(c.File, "/")
		if name != "mixed.msgpack" || cut[release] {
			continue
		}
		cut[release] = true
		for n := range whole {
			f.Add(slices.Clone(whole[:n]))
		}
	}
	for name := range vectors {
		f.Add(vector(f, name))
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff}
	f.Add(bytes.Repeat([]byte{0x91}, 6<<20))
	f.Add(append([]byte{0x92, 0xc0, 0x91}, bytes.Repeat([]byte{0x91}, 6<<20)...))
	f.Add(append([]byte{0x92, 0xc0, 0x91, 0x82}, bytes.Repeat([]byte{0x81, 0xa0}, 1<<16)...))
	for _, c := range []byte{0xc6, 0xc9, 0xdb, 0xdd, 0xdf} {
		f.Add(append([]byte{c}, huge...))
		f.Add(append([]byte{0x92, 0xc0, c}, huge...))
		f.Add(append([]byte{0x92, 0xc0, 0x91, c}, huge...))
		f.Add(append(append([]byte{0x92, 0xc0, 0x91, 0x92, 0xac}, "BlockRemoved"...), append([]byte{c}, huge...)...))
		f.Add(append(append([]byte{0x92, 0xc0, 0x91, 0x95, 0xab}, "BlockStored"...), append([]byte{0x90, 0xc0, c}, huge...)...))
	}
	wide := dict{"type", "BlockStored", "block_hashes", list{1}, "token_ids", list{1}, "block_size", 1}
	for i := len(wide) / 2; i < 20; i++ {
		wide = append(wide, "field"+string(rune('a'+i)), i) // a map16
	}
	f.Add(batch(wide))
}

func FuzzDecode(f *testing.F) {
	seedPayloads(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := slices.Clone(payload)
		for _, d := range []kvevents.Decoder{{}, {ZeroParent: true, HeadBytes: true, SaltSlot: true}} {
			var fresh kvevents.Batch
			err := d.Decode(payload, &fresh)
			if err != nil {
				require.ErrorIs(t, err, kvevents.ErrPayload)
				require.Empty(t, fresh.Events)
			}
			// Each thing that was decoded took a byte at least.
			items := len(fresh.Events) + fresh.Unknown + fresh.Malformed + fresh.UnknownFields
			for i := range fresh.Events {
				e := &fresh.Events[i]
				items += len(e.Hashes) + len(e.Tokens) + len(e.Extras)
				require.Contains(t, []kvevents.Kind{kvevents.Stored, kvevents.Removed, kvevents.Cleared}, e.Kind)
				for _, x := range e.Extras {
					require.Less(t, x.Block, len(e.Hashes))
				}
			}
			require.LessOrEqual(t, items, len(payload))
			// A batch that is used again holds the same.
			used := fresh
			again := d.Decode(payload, &used)
			require.Equal(t, err, again)
			require.Equal(t, events(&fresh), events(&used))
			if _, ok := kvevents.PayloadRank(payload); ok && err == nil {
				require.True(t, fresh.HasRank)
			}
		}
		require.Equal(t, before, payload)
	})
}

// events are a batch's events as values; comparing them before the batch is reused is
// up to the caller.
func events(b *kvevents.Batch) []kvevents.Event {
	if len(b.Events) == 0 {
		return nil
	}
	return b.Events
}

// FuzzApply applies whatever decodes. Nothing panics, the index stays whole, and what
// it knew of another endpoint stays.
func FuzzApply(f *testing.F) {
	seedPayloads(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b kvevents.Batch
		if len(payload) > 1<<16 || new(kvevents.Decoder).Decode(payload, &b) != nil {
			return
		}
		ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, OwnerBlocks: 1000})
		require.NoError(t, err)
		ep, err := ix.Join("a")
		require.NoError(t, err)
		other, err := ix.Join("b")
		require.NoError(t, err)
		w, err := ix.Writer(other, 0)
		require.NoError(t, err)
		require.NoError(t, w.Store(&prefixindex.Span{Hashes: []prefixindex.EngineHash{1}, Tokens: count(1, 4), BlockTokens: 4, Scope: base}))
		a, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: ep, Model: "m", Ranks: kvevents.RankStream})
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, a.Apply(&b))
		}
		s := a.Stats()
		applied := s.Stored + s.Removed + s.Cleared + s.SkippedKind + s.SkippedSparse + s.SkippedSize + s.SkippedTier +
			s.SkippedRemote + s.SkippedOwned + s.SkippedExtras + s.SkippedRank + s.Malformed - 2*uint64(b.Malformed)
		require.Equal(t, 2*uint64(len(b.Events)), applied, "each event is counted once: %+v", s)
		require.Equal(t, 4, heldBy(ix, other, base, count(1, 4)).GPU)
		require.NoError(t, a.Begin())
		s = a.Stats()
		require.Zero(t, s.Blocks.Blocks+s.Blocks.Handles+s.Blocks.Orphans)
	})
}

// FuzzStream lets an engine publish, restart and replay, and the network lose, as the
// input says. Frames are never applied twice or out of order, nor those of two lives in
// one epoch while replays work; a live view has all that was heard of; and in the end
// all that the engine has is applied.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{5, 0, 200, 0, 0, 0, 1, 1, 0, 5, 0, 200, 0})
	f.Add([]byte{5, 0, 200, 0, 0, 0, 1, 1, 2, 1, 1, 1, 1, 0, 5, 0, 200, 0, 5, 0, 200, 0})
	f.Add([]byte{1, 1, 0, 0, 5, 3, 200, 0, 5, 3, 200, 0, 5, 3, 200, 0})
	f.Add([]byte{0, 1, 0, 4, 3, 6, 5, 0, 1, 1, 0, 4, 3, 6, 1, 7, 0})
	f.Add([]byte("07100$7$1%$0"))                   // a reset while the connection is in doubt
	f.Add([]byte("0271100$7$%00"))                  // the same, after an unnoticed restart
	f.Add([]byte("000000000000000$1%%00%%00%%017")) // a reset after numbers at the end were given up
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 1<<9 {
			return
		}
		m := newModel(t, kvevents.StreamOptions{Replay: true, HeldFrames: 8, Loss: kvevents.Loss(len(ops) % 2)})
		next := func() byte { // the next byte of the input; 0 if there is none left
			if len(ops) == 0 {
				return 0
			}
			b := ops[0]
			ops = ops[1:]
			return b
		}
		for len(ops) > 0 {
			switch next() % 8 {
			case 0:
				m.publish(true)
			case 1:
				m.publish(false)
			case 2:
				m.restart()
			case 3:
				m.tick(time.Duration(next()) * 100 * time.Millisecond)
			case 4:
				m.reconnect()
			case 5:
				holes := next()
				m.serve(int(next()), func(i int) bool { return holes != 0 && i%8 == int(holes)%8 })
				switch next() % 3 {
				case 0:
					m.end()
				case 1:
					m.fail()
				}
			case 6: // a frame of a replay that nobody waits for
				if round := uint64(next()); len(m.sent) > 0 && (m.replay == nil || round != m.replay.Round) {
					m.s.Replayed(round, m.sent[int(next())%len(m.sent)])
					m.follow()
				}
			case 7:
				m.reset()
			}
			require.LessOrEqual(t, m.s.Stats().Held, 8)
		}
		m.settle()
		if st := m.s.Stats(); st.Lost+st.Unchecked == 0 {
			require.Equal(t, m.sent[m.applied[0].Seq:], m.applied)
		}
	})
}
