//go:build libzmq && unix

package libzmq

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	zmq "github.com/pebbe/zmq4"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// socket is a libzmq socket and its monitor. One goroutine, that of the Transport's
// method, touches the two.
type socket struct {
	soc, mon *zmq.Socket
	closing  <-chan struct{} // the Transport's

	wake     chan struct{} // holds one token while there may be something to read
	files    []*os.File
	watchers sync.WaitGroup

	listen    bool
	connected int               // peers, after the handshake
	reached   bool              // TCP is connected
	failing   int               // handshakes that failed and whose disconnection is still to come
	events    zmtp.SocketEvents // nil for a DEALER
}

const monitored = zmq.EVENT_CONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_DISCONNECTED |
	zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL |
	zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH

// watch wakes the owner at each edge of a socket's descriptor, which libzmq raises when
// a socket that was drained has something new. The descriptor stays libzmq's: a
// duplicate is polled, on Go's poller.
func (s *socket) watch(soc *zmq.Socket) error {
	fd, err := soc.GetFd()
	if err != nil {
		return fmt.Errorf("libzmq: descriptor: %w", err)
	}
	dup, err := syscall.Dup(fd)
	if err != nil {
		return fmt.Errorf("libzmq: dup: %w", err)
	}
	syscall.CloseOnExec(dup)
	file := os.NewFile(uintptr(dup), "libzmq")
	s.files = append(s.files, file)
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("libzmq: poll: %w", err)
	}
	s.watchers.Go(func() {
		// One Read for the whole life, which never says that it is done: between two
		// Reads an edge could be lost. It ends when the file is closed.
		_ = raw.Read(func(uintptr) bool {
			s.signal()
			return false
		})
	})
	return nil
}

func (s *socket) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// start binds or connects.
func (s *socket) start(o zmtp.SocketOptions) error {
	s.listen = o.Listen
	address := o.Address
	if o.Listen {
		address = strings.Replace(address, "tcp://:", "tcp://*:", 1)
		if err := s.soc.Bind(address); err != nil {
			return fmt.Errorf("%w: bind %s: %w", zmtp.ErrUnreachable, address, err)
		}
		return nil
	}
	if err := s.soc.Connect(address); err != nil {
		return fmt.Errorf("%w: connect %s: %w", zmtp.ErrUnreachable, address, err)
	}
	return nil
}

// close may be called in any state that open and start leave.
func (s *socket) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
	s.watchers.Wait()
	// Only a socket that was closed already, or a context that is gone, can fail here.
	// The monitor must be told to stop while somebody still listens: otherwise libzmq's
	// thread, which closes soc in its own time, waits for ever for somebody to take in
	// what it says of that, and with it everything on this context.
	if s.soc != nil {
		_ = s.soc.Monitor("", 0)
		_ = s.soc.Close()
	}
	if s.mon != nil {
		_ = s.mon.Close()
	}
}

// run hands over messages until ctx ends, the connection does, or yield wants no more.
// idle without a message is zmtp.ErrSilent; 0: never.
func (s *socket) run(
	ctx context.Context, o zmtp.SocketOptions, idle time.Duration, yield func(message [][]byte) (bool, error),
) error {
	const burst = 256 // messages between two looks at everything else
	timer := time.NewTimer(o.HandshakeTimeout)
	defer timer.Stop()
	limit := o.HandshakeTimeout
	var message [][]byte
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return zmtp.ErrClosed
		default:
		}
		before := s.connected
		ended := s.monitor()
		if s.connected > before {
			limit = idle
		}
		got := 0
		for ; got < burst || ended != nil; got++ {
			var err error
			message, err = s.receive(message)
			if err != nil && zmq.AsErrno(err) != zmq.Errno(syscall.EAGAIN) {
				return fmt.Errorf("libzmq: receive: %w", err)
			}
			if err != nil {
				break
			}
			// Its handshake precedes a message, but the monitor may lag behind.
			for s.connected == 0 && ended == nil && !s.listen {
				if ended = s.await(ctx); s.connected > 0 {
					limit = idle
				}
			}
			if more, err := yield(message); err != nil || !more {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if ended != nil {
			return ended
		}
		if got > 0 || s.connected > before {
			timer.Reset(limitOr(limit))
		}
		if got == burst {
			continue
		}
		select {
		case <-s.wake:
		case <-timer.C:
			if err := s.late(limit); err != nil {
				return err
			}
			timer.Reset(limitOr(limit))
		case <-ctx.Done():
		case <-s.closing:
		}
	}
}

// limitOr is d, or a time that is as good as for ever.
func limitOr(d time.Duration) time.Duration {
	if d <= 0 {
		return 24 * time.Hour
	}
	return d
}

// late is what it means that nothing happened for so long.
func (s *socket) late(limit time.Duration) error {
	switch {
	case s.listen || limit <= 0:
		return nil
	case s.connected > 0:
		return fmt.Errorf("%w: nothing for %v", zmtp.ErrSilent, limit)
	case s.reached:
		return fmt.Errorf("%w: not finished in %v", zmtp.ErrHandshake, limit)
	default:
		return fmt.Errorf("%w: no connection in %v", zmtp.ErrUnreachable, limit)
	}
}

// await waits for the monitor to say something.
func (s *socket) await(ctx context.Context) error {
	select {
	case <-s.wake:
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return zmtp.ErrClosed
	}
	return s.monitor()
}

// receive reads a message into the memory of m, without waiting.
func (s *socket) receive(m [][]byte) ([][]byte, error) {
	m = m[:0]
	for {
		part, err := s.soc.RecvBytes(zmq.DONTWAIT)
		if err != nil {
			return m, err
		}
		m = append(m, part)
		more, err := s.soc.GetRcvmore()
		if err != nil || !more {
			return m, err
		}
	}
}

// monitor takes in what libzmq has noted about connections. An error says why the only
// connection of a socket that dials has ended.
func (s *socket) monitor() error {
	for {
		event, _, value, err := s.mon.RecvEvent(zmq.DONTWAIT)
		if err != nil {
			return nil //nolint:nilerr // EAGAIN: there is no more; anything else shows at the socket itself
		}
		switch event {
		case zmq.EVENT_CONNECTED:
			s.reached = true
		case zmq.EVENT_HANDSHAKE_SUCCEEDED:
			s.connected++
			if s.events != nil {
				s.events.Connected()
			}
		case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_AUTH:
			err := fmt.Errorf("%w: %v %d", zmtp.ErrHandshake, event, value)
			if !s.listen {
				return err
			}
			s.failing++
			s.events.Disconnected(err, false)
		case zmq.EVENT_DISCONNECTED:
			err := fmt.Errorf("libzmq: disconnected: %w", syscall.ECONNRESET)
			switch {
			case !s.listen && s.connected == 0:
				return fmt.Errorf("%w: %w", zmtp.ErrHandshake, err)
			case !s.listen:
				return err
			case s.failing > 0:
				s.failing-- // libzmq says both, one right after the other, and not of whom
			default:
				s.connected--
				s.events.Disconnected(err, true)
			}
		case zmq.EVENT_CLOSED, zmq.EVENT_CONNECT_RETRIED:
			if !s.listen && s.connected == 0 {
				return fmt.Errorf("%w: %v", zmtp.ErrUnreachable, event)
			}
		default:
		}
	}
}
