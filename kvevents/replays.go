package kvevents

import (
	"context"
	"sync"
)

// replays runs the replays that a stream wants, one at a time. All but the replay's
// goroutine is under the subscriber's lock.
type replays struct {
	source Replayer // nil: there are none to run
	events chan replayEvent

	wanted  *Step // the next to run
	cancel  context.CancelFunc
	running bool // a goroutine is; it may have been told to stop
}

// replayEvent is what a replay does: it brings a frame, or ends.
type replayEvent struct {
	round uint64
	frame Frame
	end   bool
	err   error
}

// want has step run as soon as the replay before has ended, which is told to.
func (r *replays) want(step Step) {
	r.stop()
	r.wanted = &step
}

// stop tells the replay that runs to end, and forgets the one that waits.
func (r *replays) stop() {
	r.wanted = nil
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
}

// run starts what is wanted, if nothing runs.
func (r *replays) run(ctx context.Context, group *sync.WaitGroup) {
	if r.running || r.wanted == nil || r.source == nil {
		return
	}
	step := *r.wanted
	r.wanted = nil
	r.running = true
	own, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	group.Go(func() {
		defer cancel()
		err := r.source.Replay(own, step.From, func(f Frame) error {
			return r.tell(own, replayEvent{round: step.Round, frame: f})
		})
		// The end is told even of a replay that was stopped: the next one waits for it.
		_ = r.tell(ctx, replayEvent{round: step.Round, end: true, err: err})
	})
}

func (r *replays) tell(ctx context.Context, e replayEvent) error {
	select {
	case r.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// replayed passes on what a replay did. The caller holds the lock.
func (s *Subscriber) replayed(e replayEvent) {
	if !e.end {
		s.stream.Replayed(e.round, e.frame)
		return
	}
	s.replays.running = false
	s.replays.cancel = nil
	if e.err != nil {
		s.log.Debug("replay failed", "err", e.err)
	}
	s.stream.ReplayEnded(e.round, e.err)
}
