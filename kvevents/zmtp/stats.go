package zmtp

import (
	"errors"
	"time"
)

// State is what a Source is doing.
type State uint8

// The states.
const (
	Connecting State = iota // dialling, or in a handshake; with Listen: nobody has come yet
	Connected               // subscribed to at least one publisher
	Waiting                 // between two attempts
	Closed
)

// String returns the state's name.
func (s State) String() string {
	if s > Closed {
		return "unknown"
	}
	return [...]string{"connecting", "connected", "waiting", "closed"}[s]
}

// SourceStats say what became of a Source's connections and messages. Counters are
// since NewSource. Every message that arrived is in Frames, in Malformed or in Dropped.
type SourceStats struct {
	State State
	Since time.Time // when State began
	Peers int       // publishers connected; at most 1 without Listen

	Connects    uint64      // handshakes finished
	Disconnects Disconnects // connections lost, and attempts that failed, by reason
	LastError   error       // of the last of those

	Frames    uint64 // queued for Receive
	Bytes     uint64 // of their payloads
	Malformed Malformed
	Dropped   uint64 // found the queue full
	LastFrame time.Time

	// TopicChanges counts frames with another topic than the one before: more than one
	// publisher is behind the address, and their numbers do not go together.
	TopicChanges uint64

	QueueFrames int // waiting for Receive now
	QueueBytes  int

	Replays ReplayStats
}

// Disconnects counts ends of connections and attempts by reason.
type Disconnects struct {
	Unreachable uint64 // ErrUnreachable: none was made
	Handshake   uint64 // ErrHandshake
	Silent      uint64 // ErrSilent
	Protocol    uint64 // ErrProtocol
	Lost        uint64 // closed or broken by the peer or the network
}

// countEnd counts an end for the reason that err is.
func countEnd(d *Disconnects, err error) {
	switch {
	case errors.Is(err, ErrHandshake):
		d.Handshake++
	case errors.Is(err, ErrProtocol):
		d.Protocol++
	case errors.Is(err, ErrSilent):
		d.Silent++
	case errors.Is(err, ErrUnreachable):
		d.Unreachable++
	default:
		d.Lost++
	}
}

// Total is the sum. O(1).
func (d Disconnects) Total() uint64 {
	return d.Unreachable + d.Handshake + d.Silent + d.Protocol + d.Lost
}

// Malformed counts messages that are no event by how many parts they had. An event has
// three: topic, number, payload.
type Malformed struct {
	One   uint64
	Two   uint64
	Three uint64 // the number is not 8 bytes long, or is the end marker's
	More  uint64
}

// countMalformed counts a message of so many parts.
func countMalformed(m *Malformed, parts int) {
	switch parts {
	case 1:
		m.One++
	case 2:
		m.Two++
	case 3:
		m.Three++
	default:
		m.More++
	}
}

// Total is the sum. O(1).
func (m Malformed) Total() uint64 { return m.One + m.Two + m.Three + m.More }

// ReplayStats counts replays.
type ReplayStats struct {
	Started   uint64
	Completed uint64 // the end marker came
	Failed    uint64 // ended by anything else
	Waiting   int    // for a place of the Limiter, now
	Running   int    // now
	Frames    uint64
	Bytes     uint64 // of their payloads
	Malformed uint64 // replies that are neither a frame nor the end marker
}
