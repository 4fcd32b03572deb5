package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/warmroute/warmroute/kvevents"
)

// ErrNoReplay means that the Source has no ReplayAddress.
var ErrNoReplay = errors.New("zmtp: no replay address")

// endSeq in place of a number ends a replay.
const endSeq = math.MaxUint64

// Replay asks the engine for what it still has from a number on, as
// kvevents.Replayer says. Frames that yield is given are its to keep. It waits for a
// place of the Limiter first. An error wraps ErrNoReplay, ErrUnreachable, ErrHandshake,
// ErrProtocol or ErrSilent, or is that of yield, of ctx, or ErrClosed; what has been
// yielded before it is good. It does not try again.
//
// The engine loses frames in the middle of a replay when they are not read fast
// enough, and says nothing: yield should do little, and look at the numbers.
//
// One connection and one round trip, and the frames. Safe for concurrent use.
func (s *Source) Replay(ctx context.Context, from uint64, yield func(kvevents.Frame) error) error {
	if s.o.ReplayAddress == "" {
		return ErrNoReplay
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	defer func() { <-watched }()
	defer cancel(nil)
	go func() {
		defer close(watched)
		select {
		case <-s.closed:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()

	s.countReplay(func(r *ReplayStats) { r.Started++; r.Waiting++ })
	err := s.o.Replays.acquire(ctx)
	s.countReplay(func(r *ReplayStats) { r.Waiting-- })
	if err == nil {
		s.countReplay(func(r *ReplayStats) { r.Running++ })
		err = s.replay(ctx, from, yield)
		s.o.Replays.release()
		s.countReplay(func(r *ReplayStats) { r.Running-- })
	}
	s.countReplay(func(r *ReplayStats) {
		if err == nil {
			r.Completed++
		} else {
			r.Failed++
		}
	})
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrClosed) {
		return ErrClosed
	}
	return err
}

func (s *Source) countReplay(f func(*ReplayStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats.Replays)
}

func (s *Source) replay(ctx context.Context, from uint64, yield func(kvevents.Frame) error) error {
	socket := SocketOptions{Address: s.o.ReplayAddress, Limits: s.o.limits()}
	socket.IdleTimeout = s.o.ReplayTimeout
	socket.Heartbeat = -1
	// A DEALER writes by itself the empty frame that a REQ would put before its request.
	request := [][]byte{{}, binary.BigEndian.AppendUint64(nil, from)}
	var next uint64 // the least number that may follow
	return s.o.Transport.Request(ctx, socket, request, func(message [][]byte) (bool, error) {
		f, end, ok := parseReply(message)
		switch {
		case end:
			return false, nil
		case !ok || f.Seq < from:
			s.countReplay(func(r *ReplayStats) { r.Malformed++ })
			return true, nil
		case f.Seq < next:
			return false, fmt.Errorf("%w: replay of %d after %d", ErrProtocol, f.Seq, next-1)
		}
		next = f.Seq + 1
		s.countReplay(func(r *ReplayStats) {
			r.Frames++
			r.Bytes += uint64(len(f.Payload))
		})
		if err := yield(f); err != nil {
			return false, err
		}
		return true, ctx.Err()
	})
}

// parseReply reads one reply to a replay request: [∅][seq][payload] of engines that
// leave out the topic, [∅][topic][seq][payload] of those that do not. Exactly one empty
// frame goes first, for an empty topic looks the same. The end marker alone has the
// number 2^64-1; an empty payload proves nothing.
func parseReply(message [][]byte) (f kvevents.Frame, end, ok bool) {
	if len(message) < 3 || len(message) > 4 || len(message[0]) != 0 {
		return f, false, false
	}
	seq, payload := message[len(message)-2], len(message)-1
	if len(seq) != 8 {
		return f, false, false
	}
	f.Seq = binary.BigEndian.Uint64(seq)
	if f.Seq == endSeq {
		return f, true, false
	}
	if len(message) == 4 {
		f.Topic = string(message[1])
	}
	f.Payload = message[payload]
	message[payload] = nil // ours from here on
	return f, false, true
}
