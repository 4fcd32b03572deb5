package conformance_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// rawServer accepts connections and hands each to serve, which speaks for itself.
func rawServer(t *testing.T, serve func(p *rawPeer)) (address string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	conns := make(chan net.Conn, 1024)
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			conns <- nc
			go serve(&rawPeer{Conn: nc, r: bufio.NewReader(nc)})
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
		close(conns)
		for nc := range conns {
			_ = nc.Close()
		}
	})
	return "tcp://" + ln.Addr().String()
}

type rawPeer struct {
	net.Conn
	r *bufio.Reader
}

// frame reads one frame.
func (p *rawPeer) frame() (flags byte, body []byte, err error) {
	if flags, err = p.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := uint64(0)
	if flags&2 == 0 {
		b, err := p.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(b)
	} else if err := binary.Read(p.r, binary.BigEndian, &size); err != nil {
		return 0, nil, err
	}
	body = make([]byte, size)
	_, err = io.ReadFull(p.r, body)
	return flags, body, err
}

func greeting(minor byte) []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10], g[11] = 0xff, 0x7f, 3, minor
	copy(g[12:], "NULL")
	return g
}

const readyPub = "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"

// handshake plays the PUB as far as the subscription; false when the other side left.
func (p *rawPeer) handshake(minor byte) bool {
	if _, err := p.Write(greeting(minor)); err != nil {
		return false
	}
	if _, err := io.ReadFull(p.r, make([]byte, 64)); err != nil {
		return false
	}
	if _, _, err := p.frame(); err != nil { // READY
		return false
	}
	if _, err := p.Write([]byte(readyPub)); err != nil {
		return false
	}
	_, _, err := p.frame() // the subscription
	return err == nil
}

// event is the bytes of a message of three frames.
func event(seq uint64, payload string) []byte {
	b := []byte{1, 0, 1, 8}
	b = binary.BigEndian.AppendUint64(b, seq)
	return append(append(b, 0, byte(len(payload))), payload...)
}

// A peer that accepts and says nothing costs the handshake's time and no more, and
// Close need not wait for that.
func TestSilentHandshake(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		address := rawServer(t, func(*rawPeer) { <-stop })
		s := newSource(t, tr, zmtp.SourceOptions{Address: address, HandshakeTimeout: 100 * time.Millisecond})
		eventually(t, func() bool { return s.Stats().Disconnects.Handshake >= 2 })
		require.ErrorIs(t, s.Stats().LastError, zmtp.ErrHandshake)
		require.Zero(t, s.Stats().Connects)

		patient := newSource(t, tr, zmtp.SourceOptions{Address: address, HandshakeTimeout: time.Minute})
		time.Sleep(20 * time.Millisecond)
		closeSoon(t, patient)
	})
}

// Peers that speak something else, or are the wrong socket, are failed handshakes.
func TestForeignPeer(t *testing.T) {
	for name, says := range map[string]string{
		"http":      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + string(make([]byte, 64)),
		"closed":    "",
		"mechanism": string(greeting(1)[:12]) + "PLAIN" + string(make([]byte, 64-17)),
		"type":      string(greeting(1)) + "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH",
		"command":   string(greeting(1)) + "\x04\x06\x05HELLO",
		"error":     string(greeting(1)) + "\x04\x0a\x05ERROR\x03why",
		"property":  string(greeting(1)) + "\x04\x19\x05READY\x0bSocket-Type\xff\xff\xff\xffPUB",
	} {
		t.Run("says="+name, func(t *testing.T) {
			eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
				address := rawServer(t, func(p *rawPeer) {
					_, _ = p.Write([]byte(says))
					if says != "" {
						_ = p.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
						_, _ = io.Copy(io.Discard, p.r)
					}
					_ = p.Close()
				})
				s := newSource(t, tr, zmtp.SourceOptions{Address: address, HandshakeTimeout: 200 * time.Millisecond})
				eventually(t, func() bool { return s.Stats().Disconnects.Handshake >= 2 })
				require.Zero(t, s.Stats().Connects)
			})
		})
	}
}

// A PING is answered with its context, between messages and inside one.
func TestPingIsAnswered(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		pongs := make(chan string, 16)
		address := rawServer(t, func(p *rawPeer) {
			if !p.handshake(1) {
				return
			}
			ping := "\x04\x0a\x04PING\x00\x00abc"
			_, _ = p.Write([]byte(ping))
			whole := event(7, "seven")
			_, _ = p.Write(append(append(whole[:2:2], ping...), whole[2:]...))
			for {
				flags, body, err := p.frame()
				if err != nil {
					return
				}
				if flags == 4 && string(body[:5]) == "\x04PONG" {
					pongs <- string(body[5:])
				}
			}
		})
		s := newSource(t, tr, zmtp.SourceOptions{Address: address})
		require.EqualValues(t, 7, receive(t, s).Seq)
		for range 2 {
			select {
			case context := <-pongs:
				require.Equal(t, "abc", context)
			case <-time.After(5 * time.Second):
				t.Fatal("no PONG")
			}
		}
		require.Zero(t, s.Stats().Malformed.Total(), "a PING is no message")
		require.EqualValues(t, 1, s.Stats().Connects)
	})
}

// A publisher with heartbeats keeps a subscriber that has nothing to say.
func TestPublisherHeartbeats(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		if !kind.heartbeats {
			t.Skip("this publisher sends none, as engines do")
		}
		o := engineOptions{address: freeAddress(t), heartbeat: 100 * time.Millisecond}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, Heartbeat: -1, IdleTimeout: -1})
		seq := join(t, e, s, "", 0)
		time.Sleep(time.Second)
		e.publish("", seq, nil)
		require.Equal(t, seq, receive(t, s).Seq)
		require.Zero(t, s.Stats().Disconnects.Total())
	})
}

// A quiet publisher that answers heartbeats is no silent one.
func TestQuietPublisherIsKept(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, Heartbeat: 50 * time.Millisecond, IdleTimeout: 300 * time.Millisecond})
		seq := join(t, e, s, "", 0)
		time.Sleep(time.Second)
		e.publish("", seq, nil)
		require.Equal(t, seq, receive(t, s).Seq)
		require.Zero(t, s.Stats().Disconnects.Total())
	})
}

// A peer that is gone without a word is given up and connected to anew, whether it
// speaks ZMTP 3.1, or 3.0, which has no heartbeats.
func TestHalfOpen(t *testing.T) {
	for name, minor := range map[string]byte{"minor=0": 0, "minor=1": 1} {
		t.Run(name, func(t *testing.T) {
			eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
				stop := make(chan struct{})
				t.Cleanup(func() { close(stop) })
				address := rawServer(t, func(p *rawPeer) {
					if p.handshake(minor) {
						_, _ = p.Write(event(1, ""))
					}
					<-stop
				})
				s := newSource(t, tr, zmtp.SourceOptions{
					Address: address, Heartbeat: 50 * time.Millisecond, IdleTimeout: 200 * time.Millisecond,
				})
				for i := range uint64(3) {
					receive(t, s)
					require.Equal(t, i, s.reconnects)
				}
				d := s.Stats().Disconnects
				require.GreaterOrEqual(t, d.Silent+d.Lost, uint64(2))

				// Without heartbeats the absence of frames has to do.
				s = newSource(t, tr, zmtp.SourceOptions{Address: address, Heartbeat: -1, IdleTimeout: 100 * time.Millisecond})
				receive(t, s)
				receive(t, s)
				require.NotZero(t, s.Stats().Disconnects.Silent)
			})
		})
	}
}

// A frame that claims more than the bound ends the connection, without the memory for
// it and without a panic; so does what is no frame.
func TestHostileFrames(t *testing.T) {
	for name, bytes := range map[string]string{
		"length=2^62":    "\x02\x40\x00\x00\x00\x00\x00\x00\x00",
		"length=2^64-1":  "\x02\xff\xff\xff\xff\xff\xff\xff\xff",
		"length=max+1":   "\x02\x00\x00\x00\x00\x00\x10\x00\x01",
		"flags=reserved": "\x08\x01x",
		"command=long":   "\x06\x40\x00\x00\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
				if _, ours := tr.(zmtp.Native); !ours && name == "flags=reserved" {
					t.Skip("libzmq ignores reserved flags")
				}
				address := rawServer(t, func(p *rawPeer) {
					if p.handshake(1) {
						_, _ = p.Write(event(1, ""))
						_, _ = p.Write([]byte(bytes))
						_, _ = io.Copy(io.Discard, p.r)
					}
					_ = p.Close()
				})
				s := newSource(t, tr, zmtp.SourceOptions{Address: address, MaxMessageBytes: 1 << 20})
				receive(t, s)
				receive(t, s) // of the next connection
				d := s.Stats().Disconnects
				require.NotZero(t, d.Protocol+d.Lost)
			})
		})
	}
}

// Two Sources of one process: when the first publisher goes, nothing moves to the
// second, and the first is found again when it is back after seconds.
func TestFirstOfTwoDropsAndReturns(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		one, two := engineOptions{address: freeAddress(t)}, engineOptions{address: freeAddress(t)}
		first, second := kind.open(t, one), kind.open(t, two)
		defer second.close()
		a := newSource(t, tr, zmtp.SourceOptions{Address: one.address})
		b := newSource(t, tr, zmtp.SourceOptions{Address: two.address})
		join(t, first, a, "", 0)
		seq := join(t, second, b, "", 0)
		first.close()
		eventually(t, func() bool { return a.Stats().State != zmtp.Connected })
		second.publish("", seq, []byte("second"))
		require.Equal(t, "second", string(receive(t, b).Payload))
		quiet(t, a, 50*time.Millisecond)
		if !testing.Short() {
			time.Sleep(3 * time.Second)
		}
		first = kind.open(t, one)
		defer first.close()
		join(t, first, a, "", 0)
		require.EqualValues(t, 1, a.reconnects)
		require.Zero(t, b.reconnects)
	})
}

// A queue that nobody empties is bounded: what does not fit is dropped, counted, and
// seen as a gap; the connection is read all the same. Close does not wait for it.
func TestCloseWithFullQueue(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, QueueFrames: 10, QueueBytes: 1 << 20})
		seq := join(t, e, s, "", 0)
		for i := range uint64(500) {
			e.publish("", seq+i, payload(i, 1000))
		}
		eventually(t, func() bool { return s.Stats().Dropped == 490 })
		stats := s.Stats()
		require.Equal(t, 10, stats.QueueFrames)
		require.Equal(t, 10_000, stats.QueueBytes)
		for i := range uint64(10) {
			require.Equal(t, seq+i, receive(t, s).Seq)
		}
		e.publish("", seq+500, nil)
		require.Equal(t, seq+500, receive(t, s).Seq, "a gap, not an end")
		for i := range uint64(500) {
			e.publish("", seq+501+i, payload(i, 1000))
		}
		closeSoon(t, s)
	})
}

// The bound on bytes holds too, and lets a single frame of any length through.
func TestQueueBytes(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		o := engineOptions{address: freeAddress(t)}
		e := openNative(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, QueueBytes: 1 << 10})
		seq := join(t, e, s, "", 0)
		e.publish("", seq, payload(1, 10_000))
		e.publish("", seq+1, payload(2, 1))
		eventually(t, func() bool { return s.Stats().Dropped == 1 })
		require.Len(t, receive(t, s).Payload, 10_000)
		for i := range uint64(4) {
			e.publish("", seq+2+i, payload(i, 300))
		}
		eventually(t, func() bool { return s.Stats().Dropped == 2 })
		require.Equal(t, 900, s.Stats().QueueBytes)
	})
}

// A thousand lives, of which some are closed at every stage of connecting, leave
// nothing behind.
func TestThousandCycles(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 100
	}
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		o := engineOptions{address: freeAddress(t), replay: freeAddress(t)}
		e := openNative(t, o)
		defer e.close()
		heard := 0
		for i := range cycles {
			s, err := zmtp.NewSource(zmtp.SourceOptions{Address: o.address, ReplayAddress: o.replay, Transport: tr})
			require.NoError(t, err)
			switch i % 4 {
			case 0: // closed as soon as made
			case 1:
				time.Sleep(time.Duration(i%16) * 50 * time.Microsecond)
			case 2:
				require.Eventually(t, func() bool { return s.Stats().State == zmtp.Connected }, 10*time.Second, time.Millisecond, "cycle %d", i)
			case 3:
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%64)*20*time.Microsecond)
				_ = s.Replay(ctx, 0, nil) // of nothing
				cancel()
			}
			heard += int(s.Stats().Connects)
			closeSoon(t, s)
		}
		require.Greater(t, heard, cycles/4)
	})
}

// Started and stopped while the publisher bounces.
func TestCloseWhilePublisherBounces(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		o := engineOptions{address: freeAddress(t)}
		stop, bouncing := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(bouncing)
			for {
				e, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: o.address})
				if err == nil {
					time.Sleep(time.Millisecond)
					e.Close()
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		for i := range 100 {
			s, err := zmtp.NewSource(zmtp.SourceOptions{
				Address: o.address, Transport: tr, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10)*time.Millisecond)
			_, err = (&source{Source: s}).Receive(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			closeSoon(t, s)
		}
		close(stop)
		<-bouncing
	})
}
