package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrUnreachable means that no connection could be made: nobody listens, no route, no
// such name; or, for a socket that listens, that the address cannot be bound.
var ErrUnreachable = errors.New("zmtp: unreachable")

// Native is the Transport in pure Go: ZMTP 3.0 and 3.1 without security, over TCP and
// Unix sockets.
type Native struct{}

var _ Transport = Native{}

// Subscribe opens a SUB socket. One goroutine, the caller's; one more for each peer if it
// listens.
func (Native) Subscribe(ctx context.Context, o SocketOptions, events SocketEvents) error {
	at, err := parseAddress(o.Address)
	if err != nil {
		return err
	}
	if o.Listen {
		return subscribeListening(ctx, at, o, events)
	}
	c, release, err := dial(ctx, at, typeSub, o.Limits)
	if err != nil {
		return err
	}
	defer release()
	if err := c.subscribe(o.Topic); err != nil {
		return ended(ctx, err)
	}
	return ended(ctx, c.deliver(events))
}

// Request opens a DEALER socket of its own for each request, so that nothing which a
// former one left under way can be taken for an answer to this.
func (Native) Request(
	ctx context.Context, o SocketOptions, request [][]byte, yield func(message [][]byte) (bool, error),
) error {
	at, err := parseAddress(o.Address)
	if err != nil {
		return err
	}
	c, release, err := dial(ctx, at, typeDealer, o.Limits)
	if err != nil {
		return err
	}
	defer release()
	c.messagesOnly = true
	if err := c.write(appendMessage(nil, request)); err != nil {
		return ended(ctx, err)
	}
	for {
		message, err := c.receive()
		if err != nil {
			return ended(ctx, err)
		}
		more, err := yield(message)
		if err != nil || !more {
			return err
		}
		c.heard = time.Now() // the time that yield took is not the peer's
	}
}

// dial connects to a peer, for no longer than the handshake may take.
func dial(ctx context.Context, at endpoint, self socketType, limits Limits) (*conn, func(), error) {
	dialing, cancel := context.WithTimeout(ctx, limits.HandshakeTimeout)
	defer cancel()
	nc, err := at.dial(dialing)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return connect(ctx, nc, self, limits)
}

// ended is err of a connection, which is ctx's own when that closed it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// deliver hands over messages until the connection fails.
func (c *conn) deliver(events SocketEvents) error {
	events.Connected()
	for {
		message, err := c.receive()
		if err != nil {
			return err
		}
		events.Message(message)
	}
}

// subscribeListening binds, and delivers what every peer sends.
func subscribeListening(ctx context.Context, at endpoint, o SocketOptions, events SocketEvents) error {
	b, err := bind(ctx, at, func(ctx context.Context, nc net.Conn) {
		c, release, err := connect(ctx, nc, typeSub, o.Limits)
		if err == nil {
			err = c.subscribe(o.Topic)
		}
		connected := err == nil
		if connected {
			err = c.deliver(events)
		}
		if c != nil {
			release()
		}
		if ctx.Err() == nil {
			events.Disconnected(err, connected)
		}
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	b.close()
	return ctx.Err()
}
