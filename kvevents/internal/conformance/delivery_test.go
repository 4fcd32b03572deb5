package conformance_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// payload has the given length and differs for each number.
func payload(seq uint64, n int) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, seq), n/8+1)[:n]
}

// Every frame arrives once, in order, unharmed, whatever its length.
func TestDelivery(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
		seq := join(t, e, s, "", 0)
		lengths := []int{0, 1, 254, 255, 256, 257, 4096, 65_535, 65_536, 1_000_000}
		for i := range uint64(3000) {
			e.publish("", seq+i, payload(seq+i, int(i%97)))
		}
		for i, n := range lengths {
			e.publish("", seq+3000+uint64(i), payload(uint64(i), n))
		}
		for i := range uint64(3000) {
			f := receive(t, s)
			require.Equal(t, seq+i, f.Seq)
			require.True(t, bytes.Equal(payload(seq+i, int(i%97)), f.Payload))
		}
		for i, n := range lengths {
			f := receive(t, s)
			require.Equal(t, seq+3000+uint64(i), f.Seq)
			require.True(t, bytes.Equal(payload(uint64(i), n), f.Payload), "length %d", n)
		}
		stats := s.Stats()
		require.Equal(t, zmtp.Connected, stats.State)
		require.EqualValues(t, 1, stats.Connects)
		require.Zero(t, stats.Disconnects.Total())
		require.Zero(t, stats.Dropped)
		require.Zero(t, stats.Malformed.Total())
		require.Zero(t, stats.TopicChanges)
		require.Zero(t, s.reconnects)
	})
}

// A topic is a prefix: others are not even sent.
func TestTopic(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, Topic: "kv@a@"})
		seq := join(t, e, s, "kv@a@model", 0)
		for _, topic := range []string{"", "kv", "kv@ab@model", "kv@a@model", "kv@a@", "\x01kv@a@"} {
			e.publish(topic, seq, nil)
		}
		require.Equal(t, kvevents.Frame{Topic: "kv@a@model", Seq: seq, Payload: nil}, normal(receive(t, s)))
		require.Equal(t, kvevents.Frame{Topic: "kv@a@", Seq: seq, Payload: nil}, normal(receive(t, s)))
		require.EqualValues(t, 1, s.Stats().TopicChanges)
		quiet(t, s, 50*time.Millisecond)
	})
}

// normal makes no difference between payloads that are empty and nil.
func normal(f kvevents.Frame) kvevents.Frame {
	if len(f.Payload) == 0 {
		f.Payload = nil
	}
	return f
}

// What is no event is counted by its number of parts, and what follows it arrives.
func TestMalformed(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
		seq := join(t, e, s, "", 0)
		number := binary.BigEndian.AppendUint64(nil, seq)
		e.raw([]byte("one"))
		e.raw(nil, []byte("two"))
		e.raw(nil, number[:7], []byte("short number"))
		e.raw(nil, append(number, 0), []byte("long number"))
		e.raw(nil, bytes.Repeat([]byte{0xff}, 8), nil)
		e.raw(nil, nil, number, []byte("a replay's reply"))
		e.publish("", seq, []byte("good"))
		require.Equal(t, kvevents.Frame{Seq: seq, Payload: []byte("good")}, receive(t, s))
		require.Equal(t, zmtp.Malformed{One: 1, Two: 1, Three: 3, More: 1}, s.Stats().Malformed)
	})
}

// A Source that is there first waits, visibly, and hears the engine when it comes.
func TestStartBeforePublisher(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
		eventually(t, func() bool { return s.Stats().Disconnects.Unreachable >= 3 })
		require.Zero(t, s.Stats().Connects)
		require.ErrorIs(t, s.Stats().LastError, zmtp.ErrUnreachable)
		e := kind.open(t, o)
		defer e.close()
		join(t, e, s, "", 0)
		require.Zero(t, s.reconnects, "the first connection is no reconnection")
	})
}

// A publisher that goes and comes back is found again, and each time is seen to be a
// new connection exactly before its first frame.
func TestBounce(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t)}
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
		for life := range uint64(4) {
			e := kind.open(t, o)
			seq := join(t, e, s, "", 0)
			require.Equal(t, life, s.reconnects)
			e.publish("", seq, []byte("last words"))
			eventually(t, func() bool { return s.Stats().QueueFrames == 1 })
			e.close()
			eventually(t, func() bool { return s.Stats().Disconnects.Lost == life+1 })
			require.Equal(t, "last words", string(receive(t, s).Payload))
			require.Equal(t, life, s.reconnects, "what was received before is of the old connection")
		}
	})
}

// The engine dials a Source that listens; one of two may go, and come back.
func TestListen(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: freeAddress(t), connect: true}
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, Listen: true})
		first := kind.open(t, o)
		join(t, first, s, "first", 0)
		second := kind.open(t, o)
		defer second.close()
		seq := join(t, second, s, "second", 0)
		require.EqualValues(t, 1, s.reconnects)
		require.Equal(t, 2, s.Stats().Peers)
		first.close()
		eventually(t, func() bool { return s.Stats().Peers == 1 })
		require.EqualValues(t, 1, s.Stats().Disconnects.Lost)
		second.publish("second", seq, []byte("still here"))
		require.Equal(t, "still here", string(receive(t, s).Payload))
		first = kind.open(t, o)
		defer first.close()
		join(t, first, s, "first", 0)
		require.EqualValues(t, 2, s.reconnects)
		require.Equal(t, zmtp.Connected, s.Stats().State)
	})
}

// Unix sockets, and the namespace without files.
func TestIPC(t *testing.T) {
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		o := engineOptions{address: "ipc://" + filepath.Join(t.TempDir(), "events")}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
		join(t, e, s, "", 0)
	})
}

func TestReplay(t *testing.T) {
	for name, topics := range map[string]bool{"topics=no": false, "topics=yes": true} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
				o := engineOptions{address: freeAddress(t), replay: freeAddress(t), topics: topics}
				e := kind.open(t, o)
				defer e.close()
				s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, ReplayAddress: o.replay})
				for i := range uint64(500) {
					e.publish("kv", i, payload(i, int(i)))
				}
				e.publish("kv", 500, nil) // nothing in it, and no end
				join(t, e, s, "kv", 501)
				for _, from := range []uint64{0, 1, 490, 500} {
					next := from
					err := s.Replay(t.Context(), from, func(f kvevents.Frame) error {
						want := kvevents.Frame{Seq: next, Payload: payload(next, int(next%500))}
						if topics {
							want.Topic = "kv"
						}
						if next <= 500 {
							require.Equal(t, normal(want), normal(f))
						}
						next++
						return nil
					})
					require.NoError(t, err)
					require.GreaterOrEqual(t, next, uint64(501))
				}
				require.NoError(t, s.Replay(t.Context(), 1<<40, func(kvevents.Frame) error {
					return errors.New("nothing is that new")
				}))

				stop := errors.New("stop")
				require.ErrorIs(t, s.Replay(t.Context(), 0, func(kvevents.Frame) error { return stop }), stop)
				ctx, cancel := context.WithCancel(t.Context())
				require.ErrorIs(t, s.Replay(ctx, 0, func(kvevents.Frame) error { cancel(); return nil }), context.Canceled)
				stats := s.Stats().Replays
				require.EqualValues(t, 7, stats.Started)
				require.EqualValues(t, 5, stats.Completed)
				require.EqualValues(t, 2, stats.Failed)
				require.Zero(t, stats.Malformed)
				require.Zero(t, stats.Running+stats.Waiting)
			})
		})
	}
}

// A replay from nobody, or from somebody who does not answer, ends in time.
func TestReplayWithoutAnswer(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		yield := func(kvevents.Frame) error { return nil }
		router, err := zmtp.NewRouter(zmtp.RouterOptions{Address: "tcp://127.0.0.1:0"})
		require.NoError(t, err)
		defer router.Close()
		o := zmtp.SourceOptions{
			Address: freeAddress(t), ReplayAddress: router.Address(),
			ReplayTimeout: 200 * time.Millisecond, HandshakeTimeout: time.Second,
		}
		s := newSource(t, tr, o)
		require.ErrorIs(t, s.Replay(t.Context(), 0, yield), zmtp.ErrSilent)

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Replay(ctx, 0, yield), context.DeadlineExceeded)

		o.ReplayAddress = freeAddress(t)
		s = newSource(t, tr, o)
		require.ErrorIs(t, s.Replay(t.Context(), 0, yield), zmtp.ErrUnreachable)

		o.ReplayAddress = ""
		s = newSource(t, tr, o)
		require.ErrorIs(t, s.Replay(t.Context(), 0, yield), zmtp.ErrNoReplay)

		o.ReplayAddress, o.ReplayTimeout = router.Address(), time.Minute
		s = newSource(t, tr, o)
		ended := make(chan error, 1)
		go func() { ended <- s.Replay(context.Background(), 0, yield) }()
		eventually(t, func() bool { return s.Stats().Replays.Running == 1 })
		closeSoon(t, s)
		require.ErrorIs(t, <-ended, zmtp.ErrClosed)
		require.ErrorIs(t, s.Replay(t.Context(), 0, yield), zmtp.ErrClosed)
	})
}

// No more replays run at once than a Limiter that two Sources share has places.
func TestReplayLimiter(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		o := engineOptions{address: freeAddress(t), replay: freeAddress(t)}
		e := openNative(t, o)
		defer e.close()
		e.publish("", 0, nil)
		limiter, err := zmtp.NewLimiter(1)
		require.NoError(t, err)
		so := zmtp.SourceOptions{Address: o.address, ReplayAddress: o.replay, Replays: limiter}
		a, b := newSource(t, tr, so), newSource(t, tr, so)
		inside, leave := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 2)
		go func() {
			ended <- a.Replay(context.Background(), 0, func(kvevents.Frame) error {
				close(inside)
				<-leave
				return nil
			})
		}()
		<-inside
		go func() { ended <- b.Replay(context.Background(), 0, func(kvevents.Frame) error { return nil }) }()
		eventually(t, func() bool { return b.Stats().Replays.Waiting == 1 })
		require.Equal(t, 1, limiter.Running())
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, b.Replay(ctx, 0, nil), context.DeadlineExceeded)
		close(leave)
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		require.Zero(t, limiter.Running())
	})
}

// Receive ends with its context, without harm to what comes later, and with Close.
func TestReceiveEnds(t *testing.T) {
	eachTransport(t, func(t *testing.T, tr zmtp.Transport) {
		o := engineOptions{address: freeAddress(t)}
		e := openNative(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
		seq := join(t, e, s, "", 0)
		for range 50 {
			quiet(t, s, time.Millisecond)
			e.publish("", seq, nil)
			require.Equal(t, seq, receive(t, s).Seq)
			seq++
		}
		ended := make(chan error, 1)
		go func() {
			_, err := s.Receive(context.Background())
			ended <- err
		}()
		closeSoon(t, s)
		require.ErrorIs(t, <-ended, io.EOF)
		_, err := s.Receive(t.Context())
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, zmtp.Closed, s.Stats().State)
		closeSoon(t, s)
	})
}
