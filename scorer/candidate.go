package scorer

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Value is a number that may be unknown. The zero Value is unknown.
type Value struct {
	bits uint64 // of the number, with those of unknown flipped; 0 for unknown
}

// unknown is the bit pattern of one NaN. Candidates are copied in every pick, and a
// flag beside each number would double what there is to copy.
const unknown = 0x7ff8_0000_0000_0001 // its sign bit is clear, which Negative needs

// Known returns x as a known value; NaN and infinities are unknown. O(1).
func Known(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{}
	}
	return Value{math.Float64bits(x+0) ^ unknown} // +0: there is one zero
}

// Get returns the number and whether it is known; 0 if it is not. O(1).
func (v Value) Get() (float64, bool) {
	if v.bits == 0 {
		return 0, false
	}
	return math.Float64frombits(v.bits ^ unknown), true
}

// orNaN returns the number, or NaN if it is not known.
func (v Value) orNaN() float64 { return math.Float64frombits(v.bits ^ unknown) }

// Negative reports whether v is known and less than zero. O(1).
func (v Value) Negative() bool { return int64(v.bits) < 0 }

// String returns the number, or "?".
func (v Value) String() string {
	x, known := v.Get()
	if !known {
		return "?"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// MarshalJSON writes the number, or null. O(1).
func (v Value) MarshalJSON() ([]byte, error) {
	x, known := v.Get()
	if !known {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, x, 'g', -1, 64), nil
}

// UnmarshalJSON reads a number, or null. The error is ErrJSON. O(1).
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = Value{}
	if string(text) == "null" {
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%w: a value is %s; it must be null or a number", ErrJSON, text)
	}
	*v = Known(x)
	return nil
}

// Request is what a pick knows of the request besides its prompt. All fields are
// optional.
type Request struct {
	Model        string // served model, for filters and scorers; the match goes by the prompt's scope
	Adapter      string // LoRA adapter, for the Adapter scorer
	Session      string // key of the conversation, for the Session scorer
	PromptTokens int    // length of the prompt; read only where a pick has no Prompt
	MaxTokens    int    // the most tokens that will be generated; 0: not said
}

// Signals are what an endpoint reported of itself.
type Signals struct {
	Waiting  Value // requests queued in the engine
	Running  Value // requests it works on
	CacheUse Value // share of its KV cache in use, 0 to 1

	// Own are numbers that mean something to the host alone, for the Signal scorer and
	// picker.Limit.
	Own [MaxOwn]Value

	Adapters Adapters // LoRA adapters there

	// At is when they were measured. The zero time means that nobody said, and counts
	// as current.
	At time.Time
}

// MaxOwn is how many numbers of its own a host can give with a candidate.
const MaxOwn = 4

// InFlight is work that was sent to an endpoint and has not been reported done.
type InFlight struct {
	Requests Value // requests in flight
	Tokens   Value // prompt tokens that they still have to compute
}

// Cached is what the host knows of an endpoint's cache. The zero Cached is that it
// does not know.
type Cached struct {
	held  prefixindex.Held
	known bool
}

// Holds returns h as known to the host. A CPU or Any of zero is not said, and is as
// much as the nearer tiers hold. Runs that are negative or not nested are corrected in
// the pick, and counted: CPU is at least GPU, Any at least CPU. O(1).
func Holds(h prefixindex.Held) Cached { return Cached{held: h, known: true} }

// Get returns what is held and whether that is known. O(1).
func (c *Cached) Get() (prefixindex.Held, bool) { return c.held, c.known }

// Peek returns what is held, to be read only, or nil if that is not known: Get without
// a copy. O(1).
func (c *Cached) Peek() *prefixindex.Held {
	if !c.known {
		return nil
	}
	return &c.held
}

// Candidate is an endpoint offered to one pick. The library reads it during the
// pick only. It is a plain value without pointers to fill; do not compare
// candidates with ==, fields will be added.
type Candidate struct {
	// Endpoint is the handle from the index. Zero, or one that has left, is a
	// candidate of which nothing is cached and nothing counted in flight, unless the
	// host says so below.
	Endpoint prefixindex.Endpoint

	// Signals may be unknown in part or altogether.
	Signals Signals

	// InFlight is the load as the host counts it. Where Requests is known, the ledger
	// neither counts nor reserves: a host whose own count rises only after the pick
	// sees bursts herd. Otherwise the ledger counts, which needs Endpoint. Negative
	// numbers are taken as zero, and counted in Stats.
	InFlight InFlight

	// Cached is what the endpoint holds of the prompt, where the host knows: in unit
	// tests, or from an index elsewhere. Otherwise the picker asks its index.
	Cached Cached

	// Labels are what the host knows of the endpoint, a bit each: a role, a zone, a
	// kind of hardware. The host gives the bits their meaning; picker.Label asks for
	// them.
	Labels uint64

	// Skip keeps the candidate's place in the slice while it cannot win: it is
	// unhealthy, or was tried already.
	Skip bool
}
