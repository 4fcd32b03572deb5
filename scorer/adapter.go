package scorer

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// MaxAdapters is how many LoRA adapters of one endpoint Adapters has room for.
const MaxAdapters = 11

// Adapters are the LoRA adapters of an endpoint, by a fingerprint of their names: a
// plain value of fixed size, filled where metrics are read and copied by picks. The zero
// Adapters is that nothing is known.
//
// Fingerprints have 32 bits; two names that share one cost a poor route.
type Adapters struct { //nolint:recvcheck // values and pointers are written as JSON
	names            [MaxAdapters]uint32 // running, then waiting
	running, waiting uint8
	slots            uint8
	state            adapterState
}

type adapterState uint8

const (
	adaptersUnknown adapterState = iota
	adaptersKnown
	adaptersCut // some did not find room
)

// NewAdapters returns the known state of an engine that can run slots adapters at
// once, 1 to 255 (0: it did not say), and has none. O(1).
func NewAdapters(slots int) Adapters {
	return Adapters{slots: uint8(min(max(slots, 0), 255)), state: adaptersKnown}
}

// AddRunning adds an adapter that requests run with. It is false if there was no room:
// an adapter that is not found is unknown then, not absent.
//
// O(MaxAdapters); not safe beside other use of a.
func (a *Adapters) AddRunning(name string) bool {
	if !a.add() {
		return false
	}
	n := int(a.running) + int(a.waiting)
	a.names[n] = a.names[a.running] // the first waiting one makes place
	a.names[a.running] = fingerprint(name)
	a.running++
	return true
}

// AddWaiting adds an adapter that requests wait for, as AddRunning does.
func (a *Adapters) AddWaiting(name string) bool {
	if !a.add() {
		return false
	}
	a.names[int(a.running)+int(a.waiting)] = fingerprint(name)
	a.waiting++
	return true
}

// add reports whether there is room for one more.
func (a *Adapters) add() bool {
	if a.state == adaptersUnknown {
		a.state = adaptersKnown
	}
	if int(a.running)+int(a.waiting) == MaxAdapters {
		a.state = adaptersCut
		return false
	}
	return true
}

func fingerprint(name string) uint32 { return uint32(xxhash.Sum64String(name)) }

// adaptersJSON is how Adapters are written; null stands for unknown.
type adaptersJSON struct {
	Slots   uint8    `json:"Slots"`
	Running []uint32 `json:"Running"` // fingerprints
	Waiting []uint32 `json:"Waiting"`
	Cut     bool     `json:"Cut"`
}

// MarshalJSON writes what a record needs to be replayed: fingerprints, not names. O(1).
func (a Adapters) MarshalJSON() ([]byte, error) {
	if a.state == adaptersUnknown {
		return []byte("null"), nil
	}
	return json.Marshal(adaptersJSON{
		Slots:   a.slots,
		Running: a.names[:a.running],
		Waiting: a.names[a.running : a.running+a.waiting],
		Cut:     a.state == adaptersCut,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote. The error is ErrJSON. O(1).
func (a *Adapters) UnmarshalJSON(text []byte) error {
	*a = Adapters{}
	var from *adaptersJSON
	if err := json.Unmarshal(text, &from); err != nil {
		return fmt.Errorf("%w: adapters: %w", ErrJSON, err)
	}
	if from == nil {
		return nil
	}
	names := slices.Concat(from.Running, from.Waiting)
	if len(names) > MaxAdapters {
		return fmt.Errorf("%w: %d adapters; there is room for %d", ErrJSON, len(names), MaxAdapters)
	}
	*a = Adapters{
		slots:   from.Slots,
		running: uint8(len(from.Running)),
		waiting: uint8(len(from.Waiting)),
		state:   adaptersKnown,
	}
	copy(a.names[:], names)
	if from.Cut {
		a.state = adaptersCut
	}
	return nil
}

// Adapter scores by whether the request's LoRA adapter is there:
//
//	1     requests run with it
//	0.8   they do not, and the engine has a slot free
//	0.6   requests wait for it
//	0     it would have to wait for a slot
//
// The steps are llm-d-router's. An engine that did not say how many slots there are
// has none free. A request without an adapter: 1 for all. Adapters not known: no opinion. It
// reads signals.
type Adapter struct{}

// Score implements Scorer. O(candidates * MaxAdapters), no allocation.
func (s Adapter) Score(in *Input, out []float64) {
	if in.Request == nil || in.Request.Adapter == "" {
		for i := range out {
			out[i] = 1
		}
		return
	}
	want := fingerprint(in.Request.Adapter)
	for i := range in.Candidates {
		if score, known := in.Candidates[i].Signals.Adapters.score(want); known {
			out[i] = score
		}
	}
}

// ReadsSignals implements SignalScorer.
func (s Adapter) ReadsSignals() {}

func (a *Adapters) score(want uint32) (score float64, known bool) {
	if a.state == adaptersUnknown {
		return 0, false
	}
	at := 0
	for at < int(a.running)+int(a.waiting) && a.names[at] != want {
		at++
	}
	switch {
	case at < int(a.running):
		return 1, true
	case at == int(a.running)+int(a.waiting) && a.state == adaptersCut:
		return 0, false
	case a.running < a.slots:
		return 0.8, true
	case at < int(a.running)+int(a.waiting):
		return 0.6, true
	default:
		return 0, true
	}
}
