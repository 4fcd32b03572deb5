package zmtp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// fakeTransport plays connections without sockets, so that time can be a bubble's.
type fakeTransport struct {
	subscribe func(ctx context.Context, attempt int, events zmtp.SocketEvents) error
	replies   [][][]byte

	attempts []time.Time
}

func (f *fakeTransport) Subscribe(ctx context.Context, _ zmtp.SocketOptions, events zmtp.SocketEvents) error {
	f.attempts = append(f.attempts, time.Now())
	if f.subscribe == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.subscribe(ctx, len(f.attempts), events)
}

func (f *fakeTransport) Request(
	ctx context.Context, o zmtp.SocketOptions, _ [][]byte, yield func([][]byte) (bool, error),
) error {
	for _, m := range f.replies {
		if more, err := yield(m); err != nil || !more {
			return err
		}
	}
	select {
	case <-time.After(o.IdleTimeout):
		return zmtp.ErrSilent
	case <-ctx.Done():
		return ctx.Err()
	}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Waits grow to the cap, at random below the ceiling, and start anew after a healthy
// connection, not after a short one.
func TestBackoff(t *testing.T) {
	const low, high = 100 * time.Millisecond, 5 * time.Second
	next, reset := zmtp.Backoff(low, high, 1)
	var longest time.Duration
	for i := range 200 {
		ceiling := high
		if i < 6 {
			ceiling = low << i
		}
		d := next()
		require.LessOrEqual(t, d, ceiling)
		longest = max(longest, d)
	}
	require.Greater(t, longest, high*9/10, "full jitter comes near the cap at times")
	reset()
	require.LessOrEqual(t, next(), low)

	same, _ := zmtp.Backoff(low, high, 1)
	again, _ := zmtp.Backoff(low, high, 1)
	require.Equal(t, same(), again())
}

func TestReconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lost")
		tr := &fakeTransport{subscribe: func(ctx context.Context, attempt int, events zmtp.SocketEvents) error {
			switch attempt {
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
				return zmtp.ErrUnreachable
			case 11: // short
				events.Connected()
				time.Sleep(time.Second)
				return lost
			case 12: // healthy
				events.Connected()
				time.Sleep(time.Minute)
				return lost
			case 13:
				return zmtp.ErrHandshake
			default:
				events.Connected()
				<-ctx.Done()
				return ctx.Err()
			}
		}}
		s, err := zmtp.NewSource(zmtp.SourceOptions{
			Address: "tcp://127.0.0.1:1", Transport: tr, Seed: 7,
			BackoffMin: 10 * time.Millisecond, BackoffMax: time.Hour, Healthy: 30 * time.Second,
		})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, tr.attempts, 14)
		for i := range 10 {
			require.LessOrEqual(t, tr.attempts[i+1].Sub(tr.attempts[i]), 10*time.Millisecond<<i)
		}
		require.Greater(t, tr.attempts[10].Sub(tr.attempts[0]), time.Second)
		require.LessOrEqual(t, tr.attempts[11].Sub(tr.attempts[10]), time.Second+10*time.Millisecond<<10)
		require.LessOrEqual(t, tr.attempts[12].Sub(tr.attempts[11]), time.Minute+10*time.Millisecond, "anew")
		stats := s.Stats()
		require.Equal(t, zmtp.Connected, stats.State)
		require.Equal(t, "connected", stats.State.String())
		require.EqualValues(t, 3, stats.Connects)
		require.Equal(t, zmtp.Disconnects{Unreachable: 10, Handshake: 1, Lost: 2}, stats.Disconnects)
		require.ErrorIs(t, stats.LastError, zmtp.ErrHandshake)
		require.NoError(t, s.Close())
		require.Equal(t, zmtp.Closed, s.Stats().State)
	})
}

// That there is a new connection is said once, before its first frame, and without one
// when none has come.
func TestReconnectedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fakeTransport{subscribe: func(ctx context.Context, attempt int, events zmtp.SocketEvents) error {
			events.Connected()
			switch attempt {
			case 1, 2, 4:
				for i := range uint64(2) {
					events.Message([][]byte{nil, number(uint64(attempt)*10 + i), nil})
				}
				return io.EOF
			case 3: // nothing was heard of this one
				return io.EOF
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		s, err := zmtp.NewSource(zmtp.SourceOptions{Address: "tcp://127.0.0.1:1", Transport: tr})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		const reconnected = 0
		for _, want := range []uint64{10, 11, reconnected, 20, 21, reconnected, 40, 41, reconnected} {
			f, err := s.Receive(t.Context())
			if want == reconnected {
				require.ErrorIs(t, err, kvevents.ErrReconnected)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, f.Seq)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.Receive(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "said once")
		require.NoError(t, s.Close())
	})
}

// A Receive that waits learns of a new connection before there is a frame.
func TestReconnectedWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fakeTransport{subscribe: func(ctx context.Context, attempt int, events zmtp.SocketEvents) error {
			events.Connected()
			if attempt == 1 {
				time.Sleep(time.Second)
				return io.EOF
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		s, err := zmtp.NewSource(zmtp.SourceOptions{Address: "tcp://127.0.0.1:1", Transport: tr})
		require.NoError(t, err)
		_, err = s.Receive(t.Context())
		require.ErrorIs(t, err, kvevents.ErrReconnected)
		require.NoError(t, s.Close())
	})
}

// What was queued before Close can still be received, then the stream ends well.
func TestCloseLeavesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fakeTransport{subscribe: func(ctx context.Context, _ int, events zmtp.SocketEvents) error {
			events.Connected()
			events.Message([][]byte{[]byte("a"), number(1), []byte("x")})
			events.Message([][]byte{[]byte("b"), number(2), []byte("y")})
			<-ctx.Done()
			return ctx.Err()
		}}
		s, err := zmtp.NewSource(zmtp.SourceOptions{Address: "tcp://127.0.0.1:1", Transport: tr})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, s.Close())
		require.EqualValues(t, 1, s.Stats().TopicChanges)
		for _, want := range []kvevents.Frame{
			{Topic: "a", Seq: 1, Payload: []byte("x")}, {Topic: "b", Seq: 2, Payload: []byte("y")},
		} {
			f, err := s.Receive(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, f)
		}
		for range 2 {
			_, err = s.Receive(t.Context())
			require.ErrorIs(t, err, io.EOF)
		}
	})
}

// Replies that are none are counted and passed over; numbers that go back end a replay.
func TestReplayReplies(t *testing.T) {
	end := number(1<<64 - 1)
	tr := &fakeTransport{replies: [][][]byte{
		{{}, number(4), []byte("older than asked for")},
		{{}, number(5), []byte("a")},
		{{}, []byte("kv"), number(6), []byte("b")},
		{{}, {}, number(7), []byte("c")},
		{{}, number(8), {}}, // an empty payload is no end
		{number(9), []byte("no delimiter")},
		{[]byte("x"), number(9), []byte("delimiter not empty")},
		{{}, number(9)[:7], []byte("short number")},
		{{}, {}, {}, number(9), []byte("too many")},
		{{}, end, {}},
	}}
	s, err := zmtp.NewSource(zmtp.SourceOptions{
		Address: "tcp://127.0.0.1:1", ReplayAddress: "tcp://127.0.0.1:2", Transport: tr,
	})
	require.NoError(t, err)
	defer s.Close()
	var got []kvevents.Frame
	yield := func(f kvevents.Frame) error { got = append(got, f); return nil }
	require.NoError(t, s.Replay(t.Context(), 5, yield))
	require.Equal(t, []kvevents.Frame{
		{Seq: 5, Payload: []byte("a")},
		{Topic: "kv", Seq: 6, Payload: []byte("b")},
		{Seq: 7, Payload: []byte("c")},
		{Seq: 8, Payload: []byte{}},
	}, got)
	require.Equal(t, zmtp.ReplayStats{Started: 1, Completed: 1, Frames: 4, Bytes: 3, Malformed: 5}, s.Stats().Replays)

	tr.replies = [][][]byte{{{}, number(5), {}}, {{}, number(5), {}}}
	require.ErrorIs(t, s.Replay(t.Context(), 5, yield), zmtp.ErrProtocol)
	tr.replies = [][][]byte{{{}, {}, end, {}}}
	require.NoError(t, s.Replay(t.Context(), 5, yield), "the end marker with a topic")
}

// A replay may be long in coming, but once it has begun silence ends it soon: its end was
// lost. What yield takes is not silence.
func TestReplayWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fakeTransport{}
		s, err := zmtp.NewSource(zmtp.SourceOptions{
			Address: "tcp://127.0.0.1:1", ReplayAddress: "tcp://127.0.0.1:2", Transport: tr, ReplayTimeout: 10 * time.Second,
		})
		require.NoError(t, err)
		for _, c := range []struct {
			replies [][][]byte
			took    time.Duration
		}{
			{nil, 10 * time.Second},
			{[][][]byte{{{}, number(5), {}}, {{}, number(6), {}}}, 3*time.Second + 3*time.Second + 2*time.Second},
		} {
			tr.replies = c.replies
			began := time.Now()
			err := s.Replay(t.Context(), 5, func(kvevents.Frame) error {
				time.Sleep(3 * time.Second)
				return nil
			})
			require.ErrorIs(t, err, zmtp.ErrSilent)
			require.Equal(t, c.took, time.Since(began))
		}
		require.NoError(t, s.Close())
	})
}
