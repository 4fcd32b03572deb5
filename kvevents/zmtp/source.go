package zmtp

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvevents"
)

// Source receives the events of one engine rank over ZMQ: a kvevents.Source and, with a
// ReplayAddress, a kvevents.Replayer. It connects, and connects again, by itself, from
// NewSource until Close, whether anybody receives or not. Safe for concurrent use,
// though frames are in order for one receiver only.
type Source struct {
	o      SourceOptions
	queue  *queue
	cancel context.CancelFunc
	closed chan struct{} // Close was called
	done   chan struct{} // the connecting goroutine is gone

	mu    sync.Mutex
	topic string // of the last frame
	stats SourceStats
	since time.Time // of the connection; zero: there is none
}

var (
	_ kvevents.Replayer = (*Source)(nil)
	_ SocketEvents      = (*sink)(nil)
)

// NewSource returns a Source that has begun to connect. The engine need not be there
// yet. The error wraps ErrOptions and names the field, the value and the range.
//
// One goroutine; with Listen one more for each publisher. Close it.
func NewSource(o SourceOptions) (*Source, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{
		o: o, queue: newQueue(o.QueueFrames, o.QueueBytes),
		cancel: cancel, closed: make(chan struct{}), done: make(chan struct{}),
	}
	s.stats.Since = time.Now()
	go s.run(ctx)
	return s, nil
}

// run keeps a socket open.
func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	wait := newBackoff(s.o.BackoffMin, s.o.BackoffMax, s.o.Seed)
	socket := SocketOptions{Address: s.o.Address, Topic: s.o.Topic, Listen: s.o.Listen, Limits: s.o.limits()}
	for said := ""; ctx.Err() == nil; {
		err := s.o.Transport.Subscribe(ctx, socket, (*sink)(s))
		if ctx.Err() != nil {
			break
		}
		if s.ended(err) {
			wait.reset()
			said = ""
		}
		d := wait.next()
		level := slog.LevelWarn
		if said == err.Error() {
			level = slog.LevelDebug // an engine that is gone is gone for many attempts
		}
		said = err.Error()
		s.o.Logger.LogAttrs(ctx, level, "kv events: connection ended",
			slog.String("address", s.o.Address), slog.Any("error", err), slog.Duration("retry_in", d))
		sleep(ctx, d)
		s.mu.Lock()
		s.setState(Connecting)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.stats.Peers = 0
	s.setState(Closed)
	s.mu.Unlock()
}

// ended notes that the socket has failed, and tells whether it had been a healthy one.
func (s *Source) ended(err error) (healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	healthy = !s.since.IsZero() && time.Since(s.since) >= s.o.Healthy
	s.since = time.Time{}
	s.stats.Peers = 0
	countEnd(&s.stats.Disconnects, err)
	s.stats.LastError = err
	s.setState(Waiting)
	return healthy
}

func (s *Source) setState(state State) {
	if s.stats.State != state {
		s.stats.State, s.stats.Since = state, time.Now()
	}
}

// sink is the Source as its transport sees it.
type sink Source

// Connected is for transports.
func (k *sink) Connected() {
	s := (*Source)(k)
	s.queue.connected()
	s.mu.Lock()
	s.since = time.Now()
	s.stats.Peers++
	s.stats.Connects++
	s.setState(Connected)
	s.mu.Unlock()
	s.o.Logger.LogAttrs(context.Background(), slog.LevelInfo, "kv events: connected",
		slog.String("address", s.o.Address))
}

// Disconnected is for transports.
func (k *sink) Disconnected(err error, wasConnected bool) {
	s := (*Source)(k)
	s.mu.Lock()
	countEnd(&s.stats.Disconnects, err)
	s.stats.LastError = err
	if wasConnected {
		s.stats.Peers--
	}
	if s.stats.Peers == 0 {
		s.setState(Connecting)
	}
	s.mu.Unlock()
	s.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "kv events: publisher gone",
		slog.String("address", s.o.Address), slog.Any("error", err))
}

// Message is for transports.
func (k *sink) Message(parts [][]byte) {
	s := (*Source)(k)
	if len(parts) != 3 || len(parts[1]) != 8 || binary.BigEndian.Uint64(parts[1]) == endSeq {
		s.mu.Lock()
		countMalformed(&s.stats.Malformed, len(parts))
		s.mu.Unlock()
		return
	}
	// One lock around it all: whoever has the frame finds it counted.
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(parts[0]) != s.topic { // compares without a copy
		if !s.stats.LastFrame.IsZero() {
			s.stats.TopicChanges++
		}
		s.topic = string(parts[0])
	}
	f := kvevents.Frame{Topic: s.topic, Seq: binary.BigEndian.Uint64(parts[1]), Payload: parts[2]}
	parts[2] = nil // ours from here on
	if s.queue.put(f) {
		s.stats.Frames++
		s.stats.Bytes += uint64(len(f.Payload))
	} else {
		s.stats.Dropped++
	}
	s.stats.LastFrame = time.Now()
}

// Receive returns the next frame, waiting for it through any loss of the connection.
// The frame is the caller's.
//
// Where one connection ends and the next begins it returns kvevents.ErrReconnected, once
// however many there were, and at once, without waiting for a frame: the engine may be
// another, and surely there was a moment without ears. With Listen each publisher that
// comes after the first counts. Other errors are ctx's, and io.EOF after Close, when all
// that had arrived is out.
//
// O(1), no allocation. Safe for concurrent use.
func (s *Source) Receive(ctx context.Context) (kvevents.Frame, error) { return s.queue.get(ctx) }

// Stats returns counts and the state of the connection. O(1). Safe for concurrent use.
func (s *Source) Stats() SourceStats {
	frames, bytes := s.queue.depth()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.QueueFrames, stats.QueueBytes = frames, bytes
	return stats
}

// Close ends the connection, every Replay and, once it has returned what had arrived,
// every Receive. When it returns no goroutine of the Source is left but those that are
// in a call of it. It waits for no peer. Safe for concurrent use, any number of times.
func (s *Source) Close() error {
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	s.cancel()
	<-s.done
	s.queue.close()
	return nil
}

// String names the source in logs.
func (s *Source) String() string { return fmt.Sprintf("zmtp %s", s.o.Address) }
