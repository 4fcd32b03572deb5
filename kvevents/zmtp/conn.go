package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// ErrSilent means that a peer was given up because nothing came from it for too long,
// not even an answer to a heartbeat.
var ErrSilent = errors.New("zmtp: peer is silent")

const (
	readBuffer = 32 << 10 // bytes of a connection's buffer

	// writeTimeout bounds the writes of a connection that only listens: requests,
	// subscriptions, heartbeats. They fit the kernel's buffer of a peer that is alive.
	writeTimeout = 5 * time.Second
)

// keepAlive finds a peer that is gone without a word within a minute, when it takes no
// part in heartbeats.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 10 * time.Second, Count: 4}
}

// conn is one ZMTP connection. One goroutine reads; writes are the owner's to order.
type conn struct {
	nc        net.Conn
	in        frameReader
	peerMinor byte

	// What the reading side watches. heard counts bytes of any kind.
	heartbeat time.Duration // between PINGs; 0: none are sent
	idle      time.Duration // without a byte until ErrSilent; 0: for ever
	ttl       time.Duration // the same, as the peer's PING asked for
	heard     time.Time
	pinged    time.Time

	armed        bool // the network connection has a read deadline of ours
	messagesOnly bool // commands do not count as heard: an answer is waited for

	writing     sync.Mutex
	pong        func(frame []byte) error // how an answer to a PING is sent
	onSubscribe func(topic []byte, on bool)
}

// connect makes a ZMTP connection of nc, which is closed when ctx ends or an error is
// returned. release must be called in the end; it closes nc.
func connect(ctx context.Context, nc net.Conn, self socketType, limits Limits) (c *conn, release func(), err error) {
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	release = func() {
		stop()
		_ = nc.Close()
	}
	c = &conn{nc: nc}
	c.pong = c.write
	c.in = frameReader{br: bufio.NewReaderSize(c, readBuffer), maxBytes: limits.MaxMessageBytes}
	if err = nc.SetDeadline(time.Now().Add(limits.HandshakeTimeout)); err == nil {
		err = c.handshake(self)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		release()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, nil, err
	}
	c.heartbeat, c.idle = max(0, limits.Heartbeat), max(0, limits.IdleTimeout)
	if c.peerMinor == 0 {
		c.heartbeat = 0 // PING came with 3.1
	}
	c.heard = time.Now()
	c.pinged = c.heard
	return c, release, nil
}

// Read reads from the network for the frame reader's buffer. While it waits it sends
// heartbeats and watches for silence, which is why a connection needs no second
// goroutine for them.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if err := c.armDeadline(); err != nil {
			return 0, err
		}
		n, err := c.nc.Read(p)
		if n > 0 {
			c.heard = time.Now()
			return n, nil
		}
		if !c.watched() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		now := time.Now()
		if limit := c.patience(); limit > 0 && now.Sub(c.heard) >= limit {
			return 0, fmt.Errorf("%w: nothing for %v", ErrSilent, limit)
		}
		if c.heartbeat > 0 && now.Sub(c.pinged) >= c.heartbeat {
			c.pinged = now
			if err := c.write(appendCommand(nil, cmdPing, pingData(c.idle))); err != nil {
				return 0, err
			}
		}
	}
}

// watched tells whether there is anything to do while nothing arrives. Not so in a
// handshake, whose deadline covers all of it.
func (c *conn) watched() bool { return c.heartbeat > 0 || c.idle > 0 || c.ttl > 0 }

// patience is how long nothing may arrive; 0: for ever.
func (c *conn) patience() time.Duration {
	if c.ttl > 0 && (c.idle == 0 || c.ttl < c.idle) {
		return c.ttl
	}
	return c.idle
}

func (c *conn) armDeadline() error {
	if !c.watched() && !c.armed {
		return nil
	}
	c.armed = c.watched()
	var at time.Time // none
	if limit := c.patience(); limit > 0 {
		at = c.heard.Add(limit)
	}
	if c.heartbeat > 0 {
		if ping := c.pinged.Add(c.heartbeat); at.IsZero() || ping.Before(at) {
			at = ping
		}
	}
	return c.nc.SetReadDeadline(at)
}

// write sends bytes that a live peer takes at once.
func (c *conn) write(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// receive returns the next message; commands are obeyed on the way. The message is
// valid until the next receive, as with frameReader.read.
func (c *conn) receive() ([][]byte, error) {
	for {
		before := c.heard
		message, command, err := c.in.read()
		if err != nil {
			return nil, err
		}
		if message != nil {
			return message, nil
		}
		if c.messagesOnly {
			c.heard = before
		}
		if err := c.obey(command); err != nil {
			return nil, err
		}
	}
}

// obey does what a command asks for. Unknown ones are ignored, as the protocol wants.
func (c *conn) obey(command []byte) error {
	name, data, err := splitCommand(command)
	if err != nil {
		return err
	}
	switch name {
	case cmdPing:
		ttl, context, err := parsePing(data)
		if err != nil {
			return err
		}
		if c.ttl == 0 && ttl > 0 {
			c.heard = time.Now()
		}
		c.ttl = ttl
		return c.pong(appendCommand(nil, cmdPong, context))
	case cmdSubscribe, cmdCancel:
		if c.onSubscribe != nil {
			c.onSubscribe(data, name == cmdSubscribe)
		}
	case cmdError:
		return fmt.Errorf("%w: peer says %s", ErrProtocol, errorReason(data))
	default:
	}
	return nil
}

// subscribe asks a PUB for topics with this prefix: since 3.1 by command, before by a
// message.
func (c *conn) subscribe(topic string) error {
	if c.peerMinor > 0 {
		return c.write(appendCommand(nil, cmdSubscribe, []byte(topic)))
	}
	return c.write(appendMessage(nil, [][]byte{append([]byte{1}, topic...)}))
}
