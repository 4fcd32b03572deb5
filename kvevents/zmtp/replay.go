package zmtp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warmroute/warmroute/kvevents"
)

// ErrNoReplay means that the Source has no ReplayAddress.
var ErrNoReplay = errors.New("zmtp: no replay address")

// endSeq in place of a number ends a replay; no frame has it.
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
		err = s.replay(ctx, cancel, from, yield)
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
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, ErrClosed) || errors.Is(cause, ErrSilent)) {
		return cause
	}
	return err
}

func (s *Source) countReplay(f func(*ReplayStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats.Replays)
}

func (s *Source) replay(
	ctx context.Context, cancel context.CancelCauseFunc, from uint64, yield func(kvevents.Frame) error,
) error {
	socket := SocketOptions{Address: s.o.ReplayAddress, Limits: s.o.limits()}
	socket.IdleTimeout = s.o.ReplayTimeout
	socket.Heartbeat = -1
	// An engine sends a replay in one go. Silence within it means that the end was lost, as
	// ends are, and the sooner that shows, the sooner the rest is asked for.
	lull := s.o.ReplayTimeout / 5
	late := time.AfterFunc(math.MaxInt64, func() {
		cancel(fmt.Errorf("%w: no whole frame for %v within a replay", ErrSilent, lull))
	})
	defer late.Stop()
	var next uint64 // the least number that may follow
	return s.o.Transport.Request(ctx, socket, kvevents.ReplayRequest(from), func(message [][]byte) (bool, error) {
		late.Stop()
		defer late.Reset(lull)
		f, end, err := kvevents.ParseReplay(message)
		switch {
		case end:
			return false, nil
		case err != nil || f.Seq < from:
			s.countReplay(func(r *ReplayStats) { r.Malformed++ })
			return true, nil
		case f.Seq < next:
			return false, fmt.Errorf("%w: replay of %d after %d", ErrProtocol, f.Seq, next-1)
		}
		next = f.Seq + 1
		message[len(message)-1] = nil // the payload is ours from here on
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
