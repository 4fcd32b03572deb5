package zmtp

import (
	"context"
	"time"
)

// Transport opens the sockets of a Source. The zero [Native] is this package's own;
// package libzmq has another. Safe for concurrent use.
type Transport interface {
	// Subscribe opens a SUB socket and tells events what happens on it, until ctx ends
	// or the socket fails; then it closes the socket, leaves nothing behind, and
	// returns why. One that dials fails with its connection, and does not try again;
	// one that listens outlives its peers.
	//
	// Errors that say more than "closed" wrap ErrUnreachable, ErrHandshake, ErrSilent or
	// ErrProtocol.
	Subscribe(ctx context.Context, o SocketOptions, events SocketEvents) error

	// Request opens a DEALER socket, sends one message, and yields those that come
	// back, valid until yield returns, until yield returns false or an error, which
	// Request returns. Silence of IdleTimeout is ErrSilent.
	Request(ctx context.Context, o SocketOptions, request [][]byte, yield func(message [][]byte) (bool, error)) error
}

// SocketOptions says what to open. It has been validated.
type SocketOptions struct {
	Address string // tcp://host:port or ipc://path
	Topic   string // of a SUB
	Listen  bool   // of a SUB: bind, and let publishers dial
	Limits
}

// Limits bound what a peer can do to a socket.
type Limits struct {
	HandshakeTimeout time.Duration // from the start of a connection to its first message
	Heartbeat        time.Duration // between PINGs; not positive: none
	IdleTimeout      time.Duration // without anything from the peer; not positive: for ever
	MaxMessageBytes  int           // of all frames of a message, or of each where that is all that can be had
	QueueFrames      int           // messages that a transport may hold back
}

// SocketEvents hears of a SUB socket. Calls about one publisher come one at a time and
// in order; those about several, of a socket that listens, from several goroutines.
type SocketEvents interface {
	// Connected: the handshake with a publisher is over and it has been sent the
	// subscription.
	Connected()

	// Disconnected: a socket that listens lost a publisher; if not wasConnected, it was
	// one that never got as far as Connected.
	Disconnected(err error, wasConnected bool)

	// Message: one arrived. It is valid until Message returns, except that a part which
	// Message sets to nil is its to keep.
	Message(parts [][]byte)
}
