package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMessage means that the parts of a message are not those of a frame.
var ErrMessage = errors.New("kvevents: malformed message")

// replayEnd is the number that ends a replay and that no batch has.
const replayEnd uint64 = math.MaxUint64

// ParseMessage makes a frame of the parts of a published message, as a SUB socket
// receives them: topic, number, payload.
//
// O(topic). The payload is not copied.
func ParseMessage(parts [][]byte) (Frame, error) {
	if len(parts) != 3 {
		return Frame{}, fmt.Errorf("%w: %d parts, want 3", ErrMessage, len(parts))
	}
	return parseFrame(parts)
}

// ParseReplay makes a frame of the parts of a replay's answer, as a DEALER socket
// receives them: nothing, then topic, number and payload; older engines send no topic.
// end says that it is the mark that ends the replay, and no frame.
//
// O(topic). The payload is not copied.
func ParseReplay(parts [][]byte) (f Frame, end bool, err error) {
	if len(parts) != 3 && len(parts) != 4 {
		return Frame{}, false, fmt.Errorf("%w: %d parts in a replay, want 3 or 4", ErrMessage, len(parts))
	}
	if len(parts[0]) != 0 {
		return Frame{}, false, fmt.Errorf("%w: a replay begins with %d bytes, want none", ErrMessage, len(parts[0]))
	}
	// Only the first part is taken away: a topic may be empty as well.
	f, err = parseFrame(parts[1:])
	return f, err == nil && f.Seq == replayEnd, err
}

// parseFrame reads number and payload, with or without a topic before them.
func parseFrame(parts [][]byte) (f Frame, err error) {
	if len(parts) == 3 {
		f.Topic = string(parts[0])
		parts = parts[1:]
	}
	if len(parts[0]) != 8 {
		return Frame{}, fmt.Errorf("%w: a number of %d bytes, want 8", ErrMessage, len(parts[0]))
	}
	f.Seq = binary.BigEndian.Uint64(parts[0])
	f.Payload = parts[1]
	return f, nil
}

// ReplayRequest returns the parts that ask for a replay from a number on, as a DEALER
// socket sends them.
//
// O(1).
func ReplayRequest(from uint64) [][]byte {
	return [][]byte{nil, binary.BigEndian.AppendUint64(nil, from)}
}
