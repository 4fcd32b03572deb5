package zmtp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrHandshake means that a peer was reached and no ZMTP connection came of it: it kept
// silent, speaks something else, wants security, or is a socket of the wrong type.
var ErrHandshake = errors.New("zmtp: handshake failed")

// socketType is one end of a pattern.
type socketType string

const (
	typePub    socketType = "PUB"
	typeSub    socketType = "SUB"
	typeDealer socketType = "DEALER"
	typeRouter socketType = "ROUTER"
)

// accepts tells whether t may talk to a peer of the given type.
func (t socketType) accepts(peer string) bool {
	switch t {
	case typePub:
		return peer == "SUB" || peer == "XSUB"
	case typeSub:
		return peer == "PUB" || peer == "XPUB"
	case typeDealer:
		return peer == "ROUTER"
	case typeRouter:
		return peer == "DEALER" || peer == "REQ"
	default:
		return false
	}
}

// The greeting: signature (10 bytes), version (2), mechanism (20), as-server (1), and
// filler.
const (
	greetingSize  = 64
	versionAt     = 10
	mechanismAt   = 12
	mechanismSize = 20
)

func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[9] = 0xff, 0x7f
	g[versionAt], g[versionAt+1] = 3, 1
	copy(g[mechanismAt:], "NULL")
	return g
}

// checkGreeting returns the peer's minor version.
func checkGreeting(g []byte) (minor byte, err error) {
	mechanism := string(bytes.TrimRight(g[mechanismAt:mechanismAt+mechanismSize], "\x00"))
	switch {
	case mechanism != "NULL":
		return 0, fmt.Errorf("%w: security mechanism is %q, want NULL", ErrHandshake, mechanism)
	default:
		return g[versionAt+1], nil
	}
}

// handshake makes a ZMTP connection of a byte stream, on which a deadline has been set.
func (c *conn) handshake(self socketType) error {
	if _, err := c.nc.Write(greeting()); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	// What tells a foreign protocol is read first: it may never send 64 bytes.
	g := make([]byte, greetingSize)
	if _, err := io.ReadFull(c.in.br, g[:versionAt+1]); err != nil {
		return fmt.Errorf("%w: no greeting: %w", ErrHandshake, noEOF(err))
	}
	if g[0] != 0xff || g[9]&1 == 0 {
		return fmt.Errorf("%w: greeting begins % x, which is no ZMTP", ErrHandshake, g[:versionAt])
	}
	if major := g[versionAt]; major < 3 {
		return fmt.Errorf("%w: ZMTP version %d, want 3", ErrHandshake, major)
	}
	if _, err := io.ReadFull(c.in.br, g[versionAt+1:]); err != nil {
		return fmt.Errorf("%w: no greeting: %w", ErrHandshake, noEOF(err))
	}
	minor, err := checkGreeting(g)
	if err != nil {
		return err
	}
	c.peerMinor = minor

	ready := appendProperty(nil, "Socket-Type", string(self))
	if self == typeDealer || self == typeRouter {
		ready = appendProperty(ready, "Identity", "")
	}
	if _, err := c.nc.Write(appendCommand(nil, cmdReady, ready)); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	message, command, err := c.in.read()
	switch {
	case err != nil:
		return fmt.Errorf("%w: no READY: %w", ErrHandshake, noEOF(err))
	case message != nil:
		return fmt.Errorf("%w: message before READY", ErrHandshake)
	}
	name, data, err := splitCommand(command)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	case name == cmdError:
		return fmt.Errorf("%w: peer says %s", ErrHandshake, errorReason(data))
	case name != cmdReady:
		return fmt.Errorf("%w: command %q, want READY", ErrHandshake, name)
	}
	peer, err := parseSocketType(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if !self.accepts(peer) {
		// So that the peer's log says why, too. It may be gone: nothing more to do.
		reason := "Invalid socket type"
		_, _ = c.nc.Write(appendCommand(nil, cmdError, append([]byte{byte(len(reason))}, reason...)))
		return fmt.Errorf("%w: peer is a %q socket, which cannot talk to %s", ErrHandshake, peer, self)
	}
	return nil
}

// errorReason is the text of an ERROR command, quoted.
func errorReason(data []byte) string {
	if len(data) == 0 {
		return `""`
	}
	n := min(int(data[0]), len(data)-1)
	return fmt.Sprintf("%q", slices.Clone(data[1:1+n]))
}
