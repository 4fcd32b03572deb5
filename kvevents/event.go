package kvevents

import (
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Kind is what an Event says.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota + 1 // blocks are cached
	Removed                 // a copy of each block is gone
	Cleared                 // the whole cache is empty
)

// Event is one decoded event. Its slices alias the payload or the Batch and are
// valid until the next Decode into that Batch. Empty lists are nil.
type Event struct {
	Kind   Kind
	Named  bool                     // sent as a map, not as a positional array
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
	HasExtras   bool   // the event says what its blocks depend on besides tokens, if only that it is nothing
	Opaque      bool   // the blocks depend on something that is not understood
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
	ExtraOther                    // anything else
)

// Batch is a decoded payload. The zero Batch is ready for Decode, which reuses its
// memory.
type Batch struct {
	Time    time.Time // when the engine assembled it; zero: not said
	Rank    int       // data-parallel rank that the payload names
	HasRank bool
	Events  []Event

	Unknown       int    // events skipped for an unknown tag
	UnknownTag    []byte // the first of those tags
	Malformed     int    // events skipped for a missing, wrong or contradictory field
	Unplaced      int    // events skipped because of Decoder.ContentHashes
	UnknownFields int    // keys and slots that were skipped, in events that were kept

	// What events point into. An arena that is full is left to the events that use it,
	// and a larger one goes on.
	hashes []prefixindex.EngineHash
	tokens []uint32
	extras []Extra
}

// reset forgets the events and keeps the memory.
func (b *Batch) reset() {
	*b = Batch{Events: b.Events[:0], hashes: b.hashes[:0], tokens: b.tokens[:0], extras: b.extras[:0]}
}

// room returns arena with place for n more elements, which is arena itself or a new
// and empty one at least twice as large.
func room[T any](arena []T, n int) []T {
	if cap(arena)-len(arena) >= n {
		return arena
	}
	return make([]T, 0, max(2*cap(arena), n))
}
