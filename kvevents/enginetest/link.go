package enginetest

import (
	"net"
	"sync"
	"time"
)

// link is the network between a publisher and its peers: every connection goes through
// it, and with it through what is wrong with it.
type link struct {
	mu      sync.Mutex
	silent  bool
	rate    int           // bytes a second and connection; 0: any
	changed chan struct{} // closed, and replaced, at each change
	conns   map[*linkConn]struct{}
}

func newLink() *link {
	return &link{changed: make(chan struct{}), conns: make(map[*linkConn]struct{})}
}

func (l *link) wrap(nc net.Conn) net.Conn {
	c := &linkConn{Conn: nc, link: l, closed: make(chan struct{})}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	return c
}

// set changes the link and lets everybody look again.
func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Silence makes the machine go dark, or ends that: connections stay and new ones are
// accepted by the system, but nothing is read or written any more, not even a
// handshake or an answer to a heartbeat. O(1).
func (p *Publisher) Silence(on bool) { p.link.set(func() { p.link.silent = on }) }

// Slow limits how many bytes a second each connection carries, as to a slow reader, so
// that queues fill and high-water marks are reached; 0 or less: no limit. O(1).
func (p *Publisher) Slow(bytesPerSecond int) {
	p.link.set(func() { p.link.rate = max(0, bytesPerSecond) })
}

// Disconnect breaks every connection. The sockets stay; peers may come back at once.
// O(connections).
func (p *Publisher) Disconnect() {
	p.link.mu.Lock()
	conns := make([]*linkConn, 0, len(p.link.conns))
	for c := range p.link.conns {
		conns = append(conns, c)
	}
	p.link.mu.Unlock()
	for _, c := range conns {
		_ = c.Conn.Close()
	}
}

// linkConn is one connection over a link.
type linkConn struct {
	net.Conn

	link   *link
	once   sync.Once
	closed chan struct{}
}

// wait returns once the link lets bytes through, with the rate; false: closed.
func (c *linkConn) wait() (rate int, open bool) {
	for {
		c.link.mu.Lock()
		silent, rate, changed := c.link.silent, c.link.rate, c.link.changed
		c.link.mu.Unlock()
		if !silent {
			return rate, true
		}
		select {
		case <-changed:
		case <-c.closed:
			return 0, false
		}
	}
}

// Read reads nothing while the link is silent.
func (c *linkConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		// What the system has received in a silence is there when it ends.
		if _, open := c.wait(); !open {
			return 0, net.ErrClosed
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write takes as long as the link's rate makes it.
func (c *linkConn) Write(b []byte) (written int, err error) {
	const piece = 4 << 10
	for {
		rate, open := c.wait()
		if !open {
			return written, net.ErrClosed
		}
		part := b[written:]
		if rate > 0 && len(part) > piece {
			part = part[:piece]
		}
		n, err := c.Conn.Write(part)
		written += n
		if err != nil {
			return written, err
		}
		if rate > 0 {
			timer := time.NewTimer(time.Duration(n) * time.Second / time.Duration(rate))
			select {
			case <-timer.C:
			case <-c.closed:
			}
			timer.Stop()
		}
		if written == len(b) {
			return written, nil
		}
	}
}

// Close closes, and lets go of whoever waits for the link.
func (c *linkConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.link.mu.Lock()
		delete(c.link.conns, c)
		c.link.mu.Unlock()
	})
	return c.Conn.Close()
}
