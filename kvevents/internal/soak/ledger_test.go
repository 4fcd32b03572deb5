package soak_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/prefixindex"
)

// frameID is a frame as it was sent: lives have other hashes, so no two are alike, and one
// that was harmed on the way is another.
type frameID struct{ seq, sum uint64 }

func idOf(f kvevents.Frame) frameID { return frameID{f.Seq, xxhash.Sum64(f.Payload)} }

// tap is the Source, with a note of each frame that passes, and of where among them epochs
// begin, which it hears of as the Subscriber's log.
type tap struct {
	*zmtp.Source

	mu     sync.Mutex
	passed map[frameID]passage
	clock  uint64 // counts frames
	begun  uint64 // clock at the beginning of the epoch
	begins uint64
}

// passage is when a frame passed last: live, or at all.
type passage struct{ live, any uint64 }

func newTap(src *zmtp.Source) *tap {
	return &tap{Source: src, passed: map[frameID]passage{}}
}

func (t *tap) note(f kvevents.Frame, live bool) {
	id := idOf(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	p := t.passed[id]
	p.any = t.clock
	if live {
		p.live = t.clock
	}
	t.passed[id] = p
}

func (t *tap) Receive(ctx context.Context) (kvevents.Frame, error) {
	f, err := t.Source.Receive(ctx)
	if err == nil {
		t.note(f, true)
	}
	return f, err
}

func (t *tap) Replay(ctx context.Context, from uint64, yield func(kvevents.Frame) error) error {
	return t.Source.Replay(ctx, from, func(f kvevents.Frame) error {
		err := yield(f)
		if err == nil {
			t.note(f, false)
		}
		return err
	})
}

// epochLog is the tap as the Subscriber's log.
type epochLog tap

func (l *epochLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *epochLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *epochLog) WithGroup(string) slog.Handler            { return l }

func (l *epochLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "new epoch" {
		l.mu.Lock()
		l.begun = l.clock
		l.begins++
		l.mu.Unlock()
	}
	return nil
}

// arrived reports whether a frame has passed as it was sent, live if it must be, and since
// the epoch began if it must have.
func (t *tap) arrived(id frameID, live, inEpoch bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.passed[id]
	at := p.any
	if live {
		at = p.live
	}
	return at > 0 && (!inEpoch || at > t.begun)
}

// keep forgets all frames but these.
func (t *tap) keep(ids []frameID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := map[frameID]passage{}
	for _, id := range ids {
		if p, ok := t.passed[id]; ok {
			kept[id] = p
		}
	}
	t.passed = kept
}

// history is what the engine really published in its present life, and which blocks each
// batch was about.
type history struct {
	ids    []frameID
	blocks map[blockKey][]uint64 // numbers of the batches that stored or removed a block
	clears []uint64              // numbers of those that emptied the cache
	names  map[prefixindex.EngineHash]blockKey

	decoder kvevents.Decoder
	batch   kvevents.Batch
}

// blockKey stands for a block's tokens and all before them.
type blockKey uint64

func (k blockKey) extend(tokens []uint32) blockKey {
	b := binary.LittleEndian.AppendUint64(nil, uint64(k))
	for _, token := range tokens {
		b = binary.LittleEndian.AppendUint32(b, token)
	}
	return blockKey(xxhash.Sum64(b))
}

func (h *history) next() uint64 { return uint64(len(h.ids)) }

func (h *history) last() frameID {
	if len(h.ids) == 0 {
		return frameID{}
	}
	return h.ids[len(h.ids)-1]
}

// add takes the engine's next batch.
func (h *history) add(f kvevents.Frame) error {
	if f.Seq == 0 {
		h.ids, h.clears = nil, nil
		h.blocks, h.names = map[blockKey][]uint64{}, map[prefixindex.EngineHash]blockKey{}
	}
	h.ids = append(h.ids, idOf(f))
	if err := h.decoder.Decode(f.Payload, &h.batch); err != nil {
		return err
	}
	for i := range h.batch.Events {
		switch e := &h.batch.Events[i]; e.Kind {
		case kvevents.Stored:
			key := blockKey(0)
			if e.HasParent {
				key = h.names[e.Parent]
			}
			for i, name := range e.Hashes {
				key = key.extend(e.Tokens[i*e.BlockTokens : (i+1)*e.BlockTokens])
				h.names[name] = key
				h.blocks[key] = append(h.blocks[key], f.Seq)
			}
		case kvevents.Removed:
			for _, name := range e.Hashes {
				key := h.names[name]
				h.blocks[key] = append(h.blocks[key], f.Seq)
			}
		case kvevents.Cleared:
			h.clears = append(h.clears, f.Seq)
		}
	}
	return nil
}

// toBlame reports whether there is a batch that explains why an owner differs from its
// engine by the last block of a chain: one about it that did not arrive, or one about a
// block before it, without which it has no place. For blocks of the life before it is the
// first one of this.
func (h *history) toBlame(chain []blockKey, lifeBefore bool, arrived func(id frameID) bool) bool {
	missing := func(seq uint64) bool { return !arrived(h.ids[seq]) }
	if lifeBefore && missing(0) {
		return true
	}
	return slices.ContainsFunc(h.clears, missing) || slices.ContainsFunc(chain, func(key blockKey) bool {
		return slices.ContainsFunc(h.blocks[key], missing)
	})
}
