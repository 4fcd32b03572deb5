package enginetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/warmroute/warmroute/kvevents"
)

// ErrClosed means that the engine, or the subscription, was closed.
var ErrClosed = errors.New("enginetest: closed")

// feed numbers batches, keeps the latest and hands them to subscribers. The
// engine's lock guards it.
type feed struct {
	topic string
	limit int // batches kept
	next  uint64
	kept  []kvevents.Frame // ring: frame seq stands at seq mod limit
	subs  map[*Subscription]struct{}
}

func (f *feed) publish(payload []byte) {
	frame := kvevents.Frame{Topic: f.topic, Seq: f.next, Payload: payload}
	if len(f.kept) < f.limit {
		f.kept = append(f.kept, frame)
	} else {
		f.kept[f.next%uint64(f.limit)] = frame
	}
	f.next++
	for s := range f.subs {
		s.offer(frame)
	}
}

// restart is what a new process has: nothing published, but the same peers.
func (f *feed) restart() {
	f.next = 0
	f.kept = nil
}

func (f *feed) published(from uint64) []kvevents.Frame {
	from = max(from, f.next-uint64(len(f.kept)))
	var frames []kvevents.Frame
	for seq := from; seq < f.next; seq++ {
		frame := f.kept[seq%uint64(f.limit)]
		frame.Payload = slices.Clone(frame.Payload)
		frames = append(frames, frame)
	}
	return frames
}

// DefaultSubscriptionBuffer is the high-water mark of vLLM's PUB socket.
const DefaultSubscriptionBuffer = 100_000

// Subscription is one subscriber's end of an engine's event feed: a
// kvevents.Source. It behaves as a SUB socket does: what was published before
// Subscribe is missed; when its buffer is full further batches are dropped,
// and counted, until there is room; it outlives a Restart of the engine.
type Subscription struct {
	engine *Engine
	limit  int
	more   chan struct{} // holds one token while the queue may be non-empty, or closed

	mu      sync.Mutex
	queue   []kvevents.Frame
	dropped uint64
	closed  bool
}

var _ kvevents.Source = (*Subscription)(nil)

func (s *Subscription) offer(f kvevents.Frame) {
	s.mu.Lock()
	if len(s.queue) < s.limit {
		s.queue = append(s.queue, f)
	} else {
		s.dropped++
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Receive returns the next batch, waiting for it if need be. The error is
// ctx's, or ErrClosed once the engine or the subscription is closed and what
// was buffered has been received. The frame is the caller's own. Copies the
// payload. One goroutine at a time.
func (s *Subscription) Receive(ctx context.Context) (kvevents.Frame, error) {
	for {
		if err := ctx.Err(); err != nil {
			return kvevents.Frame{}, err
		}
		s.mu.Lock()
		if len(s.queue) > 0 {
			f := s.queue[0]
			s.queue[0] = kvevents.Frame{}
			s.queue = s.queue[1:]
			s.mu.Unlock()
			f.Payload = slices.Clone(f.Payload)
			return f, nil
		}
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return kvevents.Frame{}, ErrClosed
		}
		select {
		case <-s.more:
		case <-ctx.Done():
		}
	}
}

// Buffered returns how many batches wait to be received. O(1), any goroutine.
func (s *Subscription) Buffered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Dropped returns how many batches found the buffer full. O(1), any goroutine.
func (s *Subscription) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Close ends the subscription; a Receive under way returns. Any goroutine,
// any number of times.
func (s *Subscription) Close() {
	s.engine.mu.Lock()
	delete(s.engine.feed.subs, s)
	s.engine.mu.Unlock()
	s.end()
}

func (s *Subscription) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wake()
}
