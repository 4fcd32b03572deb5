//go:build libzmq && unix

package libzmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	zmq "github.com/pebbe/zmq4"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// Options configure a Transport. The zero value is plain ZMTP.
type Options struct {
	// Keys of CURVE, in Z85, all three or none. ServerKey is the engine's public key. A
	// Source that listens is itself the server: it shows PublicKey to whoever connects,
	// and admits whoever knows it.
	ServerKey string
	PublicKey string
	SecretKey string
}

const keyLength = 40 // of a CURVE key in Z85

func (o *Options) validate() error {
	keys := 0
	for _, key := range []struct{ field, value string }{
		{"ServerKey", o.ServerKey}, {"PublicKey", o.PublicKey}, {"SecretKey", o.SecretKey},
	} {
		if key.value == "" {
			continue
		}
		keys++
		if len(key.value) != keyLength {
			return fmt.Errorf("%w: %s has %d characters, want %d",
				zmtp.ErrOptions, key.field, len(key.value), keyLength)
		}
	}
	switch {
	case keys != 0 && keys != 3:
		return fmt.Errorf("%w: %d of ServerKey, PublicKey and SecretKey are set, want all or none",
			zmtp.ErrOptions, keys)
	case keys != 0 && !zmq.HasCurve():
		return fmt.Errorf("%w: this libzmq was built without CURVE", zmtp.ErrOptions)
	}
	return nil
}

// Transport is a zmtp.Transport. Safe for concurrent use.
type Transport struct {
	o    Options
	zctx *zmq.Context
	ids  atomic.Uint64 // of monitors

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	sockets sync.WaitGroup
}

var _ zmtp.Transport = (*Transport)(nil)

// New returns a transport with a libzmq context of its own. Close it after the Sources
// that use it. The error wraps zmtp.ErrOptions and names the field, or is libzmq's.
func New(o Options) (*Transport, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	zctx, err := zmq.NewContext()
	if err != nil {
		return nil, fmt.Errorf("libzmq: new context: %w", err)
	}
	const maxSockets = 1 << 16 // three for each Source; libzmq's own bound is 1023
	if err := zctx.SetMaxSockets(maxSockets); err != nil {
		return nil, errors.Join(fmt.Errorf("libzmq: max sockets: %w", err), zctx.Term())
	}
	return &Transport{o: o, zctx: zctx, closing: make(chan struct{})}, nil
}

// Close ends what is open, waits for it, which waits for no peer, and ends the context.
// Sources that still use the transport go on trying, in vain. Any number of times.
func (t *Transport) Close() error {
	t.mu.Lock()
	closed := t.closed
	t.closed = true
	if !closed {
		close(t.closing)
	}
	t.mu.Unlock()
	t.sockets.Wait()
	if closed {
		return nil
	}
	return t.zctx.Term()
}

// Subscribe is zmtp.Transport's.
func (t *Transport) Subscribe(ctx context.Context, o zmtp.SocketOptions, events zmtp.SocketEvents) error {
	s, err := t.open(zmq.SUB, o)
	if err != nil {
		return err
	}
	defer t.sockets.Done()
	defer s.close()
	if err := s.soc.SetSubscribe(o.Topic); err != nil {
		return fmt.Errorf("libzmq: subscribe: %w", err)
	}
	if err := s.start(o); err != nil {
		return err
	}
	s.events = events
	idle := o.IdleTimeout
	if o.Heartbeat > 0 || o.Listen {
		idle = 0 // libzmq watches the connection, or each of them
	}
	return s.run(ctx, o, idle, func(message [][]byte) (bool, error) {
		events.Message(message)
		return true, nil
	})
}

// Request is zmtp.Transport's.
func (t *Transport) Request(
	ctx context.Context, o zmtp.SocketOptions, request [][]byte, yield func(message [][]byte) (bool, error),
) error {
	s, err := t.open(zmq.DEALER, o)
	if err != nil {
		return err
	}
	defer t.sockets.Done()
	defer s.close()
	if err := s.start(o); err != nil {
		return err
	}
	if _, err := s.soc.SendMessageDontwait(request); err != nil {
		return fmt.Errorf("libzmq: send: %w", err)
	}
	return s.run(ctx, o, o.IdleTimeout, yield)
}

// open makes a socket, its monitor, and what wakes its goroutine. The caller closes it
// and then says Done to t.sockets.
func (t *Transport) open(kind zmq.Type, o zmtp.SocketOptions) (*socket, error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, zmtp.ErrClosed
	}
	t.sockets.Add(1)
	t.mu.Unlock()
	s := &socket{wake: make(chan struct{}, 1), closing: t.closing}
	err := s.open(t, kind, o)
	if err != nil {
		s.close()
		t.sockets.Done()
		return nil, err
	}
	return s, nil
}

func (s *socket) open(t *Transport, kind zmq.Type, o zmtp.SocketOptions) (err error) {
	if s.soc, err = t.zctx.NewSocket(kind); err != nil {
		return fmt.Errorf("libzmq: new socket: %w", err)
	}
	for _, set := range []struct {
		option string
		err    error
	}{
		{"LINGER", s.soc.SetLinger(0)},
		{"RCVHWM", s.soc.SetRcvhwm(o.QueueFrames)},
		{"MAXMSGSIZE", s.soc.SetMaxmsgsize(int64(o.MaxMessageBytes))},
		{"HANDSHAKE_IVL", s.soc.SetHandshakeIvl(o.HandshakeTimeout)},
		{"RECONNECT_IVL", s.soc.SetReconnectIvl(-1)},
		{"IPV6", s.soc.SetIpv6(true)},
		{"TCP_KEEPALIVE", s.soc.SetTcpKeepalive(1)},
		{"heartbeat", s.setHeartbeat(o)},
		{"curve", s.setKeys(t.o, o.Listen)},
	} {
		if set.err != nil {
			return fmt.Errorf("libzmq: set %s: %w", set.option, set.err)
		}
	}
	inproc := "inproc://monitor-" + strconv.FormatUint(t.ids.Add(1), 10)
	if err = s.soc.Monitor(inproc, monitored); err != nil {
		return fmt.Errorf("libzmq: monitor: %w", err)
	}
	if s.mon, err = t.zctx.NewSocket(zmq.PAIR); err != nil {
		return fmt.Errorf("libzmq: new socket: %w", err)
	}
	// No high-water mark: one that is reached would block libzmq's thread, too.
	if err = errors.Join(s.mon.SetLinger(0), s.mon.SetRcvhwm(0), s.mon.Connect(inproc)); err != nil {
		return fmt.Errorf("libzmq: monitor: %w", err)
	}
	return errors.Join(s.watch(s.soc), s.watch(s.mon))
}

// setHeartbeat asks libzmq to give up a peer from which nothing has come for
// IdleTimeout, as zmtp.Native does. libzmq counts from the PING.
func (s *socket) setHeartbeat(o zmtp.SocketOptions) error {
	if o.Heartbeat <= 0 {
		return nil
	}
	err := s.soc.SetHeartbeatIvl(o.Heartbeat)
	if o.IdleTimeout > 0 {
		const most = 6553 * time.Second // TTL is 16 bits of tenths of a second
		err = errors.Join(err,
			s.soc.SetHeartbeatTimeout(max(o.IdleTimeout-o.Heartbeat, time.Millisecond)),
			s.soc.SetHeartbeatTtl(min(o.IdleTimeout, most)))
	}
	return err
}

func (s *socket) setKeys(o Options, listen bool) error {
	switch {
	case o.SecretKey == "":
		return nil
	case listen:
		return errors.Join(s.soc.SetCurveServer(1), s.soc.SetCurveSecretkey(o.SecretKey))
	default:
		return errors.Join(s.soc.SetCurveServerkey(o.ServerKey),
			s.soc.SetCurvePublickey(o.PublicKey), s.soc.SetCurveSecretkey(o.SecretKey))
	}
}
