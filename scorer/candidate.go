package scorer

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Value is a number that may be unknown. The zero Value is unknown.
type Value struct {
	x     float64
	known bool
}

// Known returns x as a known value; NaN and infinities are unknown. O(1).
func Known(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{}
	}
	return Value{x: x, known: true}
}

// Get returns the number and whether it is known. O(1).
func (v Value) Get() (float64, bool) { return v.x, v.known }

// Request is what a pick knows of the request besides its prompt. All fields are
// optional.
type Request struct {
	Model        string // served model, for filters and scorers of the host
	Adapter      string // LoRA adapter
	Session      string // key of the conversation
	PromptTokens int    // length of the prompt; read only where a pick has no Prompt
	MaxTokens    int    // the most tokens that will be generated; 0: not said
}

// Signals are what an endpoint reported of itself.
type Signals struct {
	Waiting  Value // requests queued in the engine
	Running  Value // requests it works on
	CacheUse Value // share of its KV cache in use, 0 to 1

	// At is when they were measured. The zero time means that nobody said, and
	// passes for current.
	At time.Time
}

// InFlight is work that was sent to an endpoint and has not been reported done.
type InFlight struct {
	Requests int // requests in flight
	Tokens   int // prompt tokens that they still have to compute, as far as known
}

// Candidate is an endpoint offered to one pick. The library reads it during the
// pick only.
type Candidate struct {
	// Endpoint is the handle from the index. Zero, or one that has left, is a
	// candidate of which nothing is cached and nothing counted in flight.
	Endpoint prefixindex.Endpoint

	// Signals may be unknown in part or altogether.
	Signals Signals

	// InFlight is the load as the host counts it. Nil: the picker's ledger counts,
	// which needs Endpoint. Negative numbers are taken as zero and counted.
	InFlight *InFlight

	// Cached is what the endpoint holds of the prompt, as the host knows it: in
	// unit tests, or from an index elsewhere. Nil: the picker asks its index. Runs
	// that are not nested are widened: CPU is at least GPU, Any at least CPU.
	Cached *prefixindex.Held

	// Skip keeps the candidate's place in the slice while it cannot win: it is
	// unhealthy, or was tried already.
	Skip bool
}
