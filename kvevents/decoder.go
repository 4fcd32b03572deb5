package kvevents

import (
	"errors"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

var errUnbuilt = errors.New("kvevents: not built")

// ErrPayload means that a payload is no batch of events: truncated, past a limit,
// or something else. Nothing of it was applied.
var ErrPayload = errors.New("kvevents: malformed payload")

// Kind is what an Event says.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota + 1 // blocks are cached
	Removed                 // a copy of each block is gone
	Cleared                 // the whole cache is empty
)

// Event is one decoded event. Its slices alias the payload or the Batch and are
// valid until the next Decode into that Batch.
type Event struct {
	Kind   Kind
	Hashes []prefixindex.EngineHash // of Stored and Removed

	// Of Stored.
	Parent      prefixindex.EngineHash
	HasParent   bool
	Tokens      []uint32
	BlockTokens int
	LoRAName    []byte // nil: none
	LoRAID      int64
	HasLoRAID   bool
	Salt        []byte // nil: none that the event names by itself
	Extras      []Extra
	SpecKind    []byte // attention kind of the group; nil: not said
	Window      int    // of a sliding window, in tokens; 0: not said

	// Of Stored and Removed.
	Medium    []byte // where the copies live, as sent; nil: not said, which is the GPU
	Group     int
	HasGroup  bool
	Locality  []byte // nil: not said
	Ownership []byte // nil: not said
}

// Extra is an element of an event's extra keys: something besides tokens that a
// block depends on.
type Extra struct {
	Block     int // place in Event.Hashes of the block that lists it
	Shape     ExtraShape
	ID        []byte
	Offset    int // where the item begins, in tokens from the block's start; may be negative
	HasOffset bool
}

// ExtraShape is the shape in which an Extra was sent.
type ExtraShape uint8

// The shapes of extras.
const (
	ExtraString ExtraShape = iota // a bare string: LoRA name, salt, or an item without offset
	ExtraItem                     // an identifier with an offset
	ExtraDigest                   // bytes
)

// Batch is a decoded payload. The zero Batch is ready for Decode, which reuses its
// memory.
type Batch struct {
	Time    time.Time // when the engine assembled it
	Rank    int       // data-parallel rank that the payload names
	HasRank bool
	Events  []Event

	Unknown   int // events skipped for an unknown tag
	Malformed int // events skipped for a missing, wrong or contradictory field
}

// Decoder reads payloads. The zero Decoder is ready; it holds options only and is
// safe for concurrent use with different batches.
type Decoder struct {
	// ZeroParent says that a parent hash of 0 means none, as some simulators send it.
	// For vLLM itself 0 is a hash like any other.
	ZeroParent bool
}

// Decode replaces b by the batch in payload. An error wraps ErrPayload and leaves b
// without events; bad events within a good batch are counted in b and skipped.
//
// O(len(payload)), one pass, no recursion on the input; allocates only to grow b,
// and never more than a small multiple of len(payload).
func (d *Decoder) Decode(payload []byte, b *Batch) error { return errUnbuilt }
