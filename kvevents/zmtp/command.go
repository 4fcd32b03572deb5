package zmtp

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// The commands of ZMTP 3.1, by name. HELLO, WELCOME and INITIATE belong to mechanisms
// other than NULL.
const (
	cmdReady     = "READY"
	cmdError     = "ERROR"
	cmdPing      = "PING"
	cmdPong      = "PONG"
	cmdSubscribe = "SUBSCRIBE"
	cmdCancel    = "CANCEL"
)

const maxPingContext = 16 // bytes that a PONG gives back

// splitCommand cuts a command's body into name and data.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 || body[0] == 0 {
		return "", nil, fmt.Errorf("%w: command without a name", ErrProtocol)
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}

// appendCommand appends the frame of a command.
func appendCommand(dst []byte, name string, data []byte) []byte {
	body := make([]byte, 0, 1+len(name)+len(data))
	body = append(body, byte(len(name)))
	body = append(body, name...)
	body = append(body, data...)
	return appendFrame(dst, flagCommand, body)
}

// pingData is what follows the name PING: how long the peer may hear nothing from us
// before it gives us up, in tenths of a second, and no context.
func pingData(ttl time.Duration) []byte {
	tenths := min(ttl/(100*time.Millisecond), 1<<16-1)
	return binary.BigEndian.AppendUint16(nil, uint16(tenths))
}

// parsePing returns what pingData encodes, and the context to give back.
func parsePing(data []byte) (ttl time.Duration, context []byte, err error) {
	if len(data) < 2 || len(data)-2 > maxPingContext {
		return 0, nil, fmt.Errorf("%w: PING with %d bytes, want 2 to %d", ErrProtocol, len(data), 2+maxPingContext)
	}
	return time.Duration(binary.BigEndian.Uint16(data)) * 100 * time.Millisecond, data[2:], nil
}

// appendProperty appends a property of READY.
func appendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// parseSocketType returns the property Socket-Type of READY. Names of properties have
// no case.
func parseSocketType(data []byte) (string, error) {
	var socketType string
	for len(data) > 0 {
		n := int(data[0])
		if n == 0 || len(data) < 1+n+4 {
			return "", fmt.Errorf("%w: READY with a property cut short", ErrProtocol)
		}
		name, rest := string(data[1:1+n]), data[1+n:]
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return "", fmt.Errorf("%w: READY with a property cut short", ErrProtocol)
		}
		if strings.EqualFold(name, "Socket-Type") {
			socketType = string(rest[:size])
		}
		data = rest[size:]
	}
	return socketType, nil
}
