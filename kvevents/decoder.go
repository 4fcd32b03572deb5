package kvevents

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrPayload means that a payload is no batch of events: truncated, past a limit,
// or something else. Nothing of it was applied.
var ErrPayload = errors.New("kvevents: malformed payload")

// What a payload may claim. An engine's largest batches are far below; whoever is
// above is refused before anything is allocated for it.
const (
	maxPayload     = 64 << 20
	maxEvents      = 100_000   // in a batch
	maxEventItems  = 2_000_000 // hashes, and tokens, in an event
	maxBatchExtras = 1 << 18
)

// Decoder reads payloads. The zero Decoder reads vLLM's, and SGLang's as far as they
// tell themselves apart; the options are for dialects that do not. It holds options
// only and is safe for concurrent use with different batches.
type Decoder struct {
	// ZeroParent says that a parent hash of 0 means none, as some simulators send it.
	// For the engines 0 is a hash like any other. Do not set it for a simulator that
	// sends 0 for every parent: blocks from the middle of prompts would pass for their
	// beginnings.
	ZeroParent bool

	// HeadBytes says that a hash sent as bytes stands for its first 8 bytes and not,
	// as vLLM's, for its last. It matters only for an engine that mixes both forms.
	HeadBytes bool

	// ContentHashes says that the engine names blocks by their contents alone and leaves
	// out parents, as SGLang before 0.5.6. Where a block stands in a prompt, and behind
	// what, is then not known, and one from the middle would pass for a beginning: what
	// it stores is skipped, and counted.
	ContentHashes bool

	// SaltSlot says that a text in slot 7 of a positional BlockStored is a cache salt,
	// as in some forks of SGLang, and not vLLM's LoRA name. A map in that slot is
	// always taken for SGLang's.
	SaltSlot bool
}

// Decode replaces b by the batch in payload. An error wraps ErrPayload and leaves b
// without events; bad events within a good batch are counted in b and skipped.
//
// Limits: 64 MiB of payload, 100,000 events, 262,144 extras, and in an event 2,000,000
// hashes and as many tokens. Values that are skipped may be nested to any depth.
//
// O(len(payload)), one pass, no recursion on the input; allocates only to grow b, which
// keeps its memory: a few times len(payload) for what engines send, up to some hundred
// times for a payload of nothing but the smallest events or extras.
func (d *Decoder) Decode(payload []byte, b *Batch) error {
	b.reset()
	if len(payload) > maxPayload {
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrPayload, len(payload), maxPayload)
	}
	p := parser{reader: reader{b: payload}, d: d, out: b}
	what := p.envelope()
	if what == "" && p.left() > 0 {
		what = "bytes after the batch"
	}
	if what != "" {
		at := min(p.i, len(payload))
		b.reset()
		return fmt.Errorf("%w: %s at byte %d of %d", ErrPayload, what, at, len(payload))
	}
	return nil
}

// parser decodes one payload into one batch.
type parser struct {
	reader
	d     *Decoder
	out   *Batch
	lists int // of extras in the event at hand: one for each of its blocks
}

// The fields of the envelope, by slot.
const (
	slotTime = iota
	slotEvents
	slotRank
)

// envelope reads the whole batch. It returns what is wrong with it, or "".
func (p *parser) envelope() string {
	c := p.peek()
	if isDict(c) {
		return p.namedEnvelope()
	}
	n, ok := p.array()
	if !ok || n <= slotEvents {
		return "no batch"
	}
	for slot := range n {
		if what := p.batchField(slot); what != "" {
			return what
		}
	}
	return ""
}

// namedEnvelope reads a batch that is a map.
func (p *parser) namedEnvelope() string {
	n, ok := p.dict()
	if !ok {
		return "no batch"
	}
	seen := false
	for range n {
		key, ok := p.str()
		if !ok {
			return "no key"
		}
		slot := slotRank + 1
		switch string(key) {
		case "ts":
			slot = slotTime
		case "events":
			if seen {
				return "events for the second time"
			}
			seen = true
			slot = slotEvents
		default:
			if isRankKey(key) {
				slot = slotRank
			}
		}
		if what := p.batchField(slot); what != "" {
			return what
		}
	}
	if !seen {
		return "no events"
	}
	return ""
}

// batchField reads one field of the envelope.
func (p *parser) batchField(slot int) string {
	switch slot {
	case slotTime:
		if p.null() {
			return ""
		}
		ts, ok := p.number()
		if !ok {
			return "no time"
		}
		p.out.Time = unixTime(ts)
		return ""
	case slotEvents:
		return p.events()
	case slotRank:
		if p.null() {
			return ""
		}
		if rank, ok := p.rank(); ok {
			p.out.Rank, p.out.HasRank = rank, true
			return ""
		}
	}
	p.out.UnknownFields++
	if !p.skip() {
		return "truncated"
	}
	return ""
}

// unixTime turns seconds into a Time; what is no time of this age becomes the zero
// one.
func unixTime(ts float64) time.Time {
	if !(ts > 0 && ts < 1<<34) {
		return time.Time{}
	}
	sec, frac := math.Modf(ts)
	return time.Unix(int64(sec), int64(frac*1e9))
}

func (p *parser) events() string {
	n, ok := p.array()
	if !ok {
		return "no list of events"
	}
	if n > maxEvents {
		return fmt.Sprintf("%d events, want at most %d,", n, maxEvents)
	}
	for range n {
		start, hashes, tokens, extras := p.i, len(p.out.hashes), len(p.out.tokens), len(p.out.extras)
		fields := p.out.UnknownFields
		verdict := p.element()
		if verdict == eventKept {
			continue
		}
		// The arenas may be new ones, with less in them than the old had.
		p.out.hashes = p.out.hashes[:min(hashes, len(p.out.hashes))]
		p.out.tokens = p.out.tokens[:min(tokens, len(p.out.tokens))]
		p.out.extras = p.out.extras[:min(extras, len(p.out.extras))]
		p.out.UnknownFields = fields
		p.i = start
		if !p.skip() {
			return "truncated"
		}
		switch verdict {
		case eventUnknown:
			p.out.Unknown++
		case eventUnplaced:
			p.out.Unplaced++
		default:
			p.out.Malformed++
		}
	}
	return ""
}

// element reads one element of the list of events: an event, or bytes that hold one,
// as a file-system backend sends them.
func (p *parser) element() verdict {
	if !isBin(p.peek()) {
		return p.event()
	}
	inner, ok := p.bin()
	if !ok {
		return eventMalformed
	}
	outer := p.reader
	p.reader = reader{b: inner}
	v := p.event()
	whole := p.left() == 0
	p.reader = outer
	if v == eventKept && !whole {
		p.out.Events = p.out.Events[:len(p.out.Events)-1]
		return eventMalformed
	}
	return v
}
