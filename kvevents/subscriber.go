package kvevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// ErrOptions means that an option is missing or out of its range. The message names
// the option, its value and the range.
var ErrOptions = errors.New("kvevents: invalid option")

// ErrRan is the answer to a second Run.
var ErrRan = errors.New("kvevents: subscriber has run")

// SubscriberOptions says whose events a Subscriber applies, and where they come from.
type SubscriberOptions struct {
	Index    *prefixindex.Index
	Endpoint prefixindex.Endpoint
	Rank     int    // data-parallel rank of the stream
	Model    string // the model that the endpoint serves: Scope.Model of its prompts, to the letter
	Source   Source // one that is a Replayer is asked for what is missing, and at first for all
	Ranks    RankSource
	Decoder  Decoder

	OtherRanks int // see ApplierOptions

	Stream StreamOptions    // Replay and Clock are the Subscriber's to set
	Queue  QueueOptions     // of frames received and not yet applied
	Logger *slog.Logger     // nil: nothing is logged
	Clock  func() time.Time // nil: time.Now
}

func (o *SubscriberOptions) validate() error {
	if isNil(o.Source) {
		return fmt.Errorf("%w: Source is nil", ErrOptions)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o.Queue.validate(QueueBlock)
}

// Subscriber keeps the owners of one stream up to date. It is the only one to open
// Writers for them.
type Subscriber struct {
	o     SubscriberOptions
	log   *slog.Logger
	queue *queue

	mu      sync.Mutex // over all below
	ran     bool       // Run was called
	ended   bool       // and has returned
	stream  *Stream
	applier *Applier
	batch   Batch
	decoded []byte           // payload that batch was decoded from, if it was not applied yet
	view    prefixindex.View // that the owners were given
	replays replays
	stats   SubscriberStats
}

// NewSubscriber returns a subscriber that does nothing until Run. An error names
// the option.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	applier, err := NewApplier(ApplierOptions{
		Index: o.Index, Endpoint: o.Endpoint, Rank: o.Rank, Model: o.Model, Ranks: o.Ranks, OtherRanks: o.OtherRanks,
	})
	if err != nil {
		return nil, err
	}
	replayer, _ := o.Source.(Replayer)
	o.Stream.Replay, o.Stream.Clock = replayer != nil, o.Clock
	stream, err := NewStream(o.Stream)
	if err != nil {
		return nil, err
	}
	return &Subscriber{
		o:       o,
		log:     o.Logger.With("endpoint", o.Index.Name(o.Endpoint), "rank", o.Rank),
		queue:   newQueue(o.Queue),
		stream:  stream,
		applier: applier,
		replays: replays{source: replayer, events: make(chan replayEvent)},
	}, nil
}

// Run receives and applies frames until ctx ends, the source fails, or the endpoint
// leaves. It returns nil for the first and for io.EOF, and otherwise the error.
// prefixindex.ErrNotJoined and ErrFenced say that the endpoint has left; ErrFenced also
// that another feeder has opened a Writer for the owner: a second Subscriber of the
// same endpoint and rank, which has it from then on. That is noticed at the next
// frame; end ctx to stop at once. After io.EOF it waits for a replay that
// is to fill a gap. When Run returns, no goroutine of the subscriber is left, and the
// view of owners that were heard of is ViewStale, since nobody looks after them any
// more. It runs once.
func (s *Subscriber) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.ran
	s.ran = true
	s.mu.Unlock()
	if again {
		return ErrRan
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.receive(ctx) })
	err := s.loop(ctx, &running)
	cancel()
	running.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.stream.View() != prefixindex.ViewNever {
		_ = s.applier.SetView(prefixindex.ViewStale) // fails only where nothing is left to mark
	}
	s.log.Info("stream ended", "err", err)
	return err
}

// receive puts what the source delivers into the queue, its last error too.
func (s *Subscriber) receive(ctx context.Context) {
	for {
		f, err := s.o.Source.Receive(ctx)
		if s.queue.put(ctx, arrival{f, err}) != nil || err != nil && !errors.Is(err, ErrReconnected) {
			return
		}
	}
}

// loop is the one goroutine that gives the stream what happens and takes its steps.
func (s *Subscriber) loop(ctx context.Context, running *sync.WaitGroup) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	silent := s.o.Stream.StaleAfter // until it is said that nothing was ever heard
	began := s.o.Clock()
	ended := false // the source has
	for {
		s.mu.Lock()
		err := s.follow(ctx, running)
		wait := s.wait()
		open := s.stream.open
		if silent > 0 && s.stats.LastFrame.IsZero() {
			left := began.Add(silent).Sub(s.o.Clock())
			if left <= 0 {
				s.log.Warn("nothing heard of the engine yet", "for", silent)
				silent = 0
			} else {
				wait = min(wait, left)
			}
		}
		s.mu.Unlock()
		if err != nil || ended && !open {
			return err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			s.mu.Lock()
			s.stream.Tick()
			s.mu.Unlock()
		case e := <-s.replays.events:
			s.mu.Lock()
			s.replayed(e)
			s.mu.Unlock()
		case <-s.queue.ready:
			done, err := s.arrivals(ctx, running)
			if err != nil {
				return err
			}
			ended = ended || done
		}
	}
}

// wait returns how long there is nothing to do if nothing happens.
func (s *Subscriber) wait() time.Duration {
	at, ok := s.stream.Deadline()
	if !ok {
		return time.Hour
	}
	return max(at.Sub(s.o.Clock()), 0)
}

// maxBurst is how many frames are applied before timers and replays are looked after.
const maxBurst = 64

// arrivals takes what is in the queue. done says that the source has ended well.
func (s *Subscriber) arrivals(ctx context.Context, running *sync.WaitGroup) (done bool, err error) {
	for range maxBurst {
		done, more, err := s.arrival(ctx, running)
		if done || !more || err != nil {
			return done, err
		}
	}
	signal(s.queue.ready)
	return false, nil
}

// arrival takes one thing from the queue. It holds the lock from taking a frame until
// that is applied, so that Reset finds each frame either waiting or applied.
func (s *Subscriber) arrival(ctx context.Context, running *sync.WaitGroup) (done, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, more := s.queue.take()
	switch {
	case !more:
		return false, false, nil
	case a.err == nil:
		s.live(a.frame)
	case errors.Is(a.err, ErrReconnected):
		s.log.Info("reconnected")
		s.stream.Reconnected()
	case ctx.Err() != nil || errors.Is(a.err, io.EOF):
		return true, true, nil
	default:
		return false, true, fmt.Errorf("kvevents: source: %w", a.err)
	}
	return false, true, s.follow(ctx, running)
}

// follow takes the steps that the stream wants. The caller holds the lock.
func (s *Subscriber) follow(ctx context.Context, running *sync.WaitGroup) error {
	for {
		step, ok := s.stream.Next()
		if !ok {
			s.replays.run(ctx, running)
			return s.showView()
		}
		switch step.Action {
		case Begin:
			s.log.Info("new epoch", "seq", s.stats.LastSeq)
			if err := s.begin(); err != nil {
				return err
			}
		case Apply:
			if err := s.apply(step.Frame); err != nil {
				return err
			}
		case Replay:
			s.log.Debug("replay", "from", step.From)
			s.replays.want(step)
		case StopReplay:
			s.replays.stop()
		}
	}
}

// begin starts an epoch, whose view is not the stream's yet.
func (s *Subscriber) begin() error {
	s.view = prefixindex.ViewNever
	s.applier.view = prefixindex.ViewNever
	return s.applier.Begin()
}

// showView hands the stream's view on where it has changed.
func (s *Subscriber) showView() error {
	view := s.stream.View()
	if view == s.view {
		return nil
	}
	s.log.Debug("view", "view", view, "before", s.view)
	s.view = view
	return s.applier.SetView(view)
}

// live gives the stream a frame that has just arrived. Where it can be replayed, it is
// decoded at once, since one that is broken must not be applied.
func (s *Subscriber) live(f Frame) {
	s.stats.LastSeq, s.stats.LastFrame = f.Seq, s.o.Clock()
	if s.replays.source == nil || s.decode(f) {
		s.stream.Live(f)
	} else {
		s.stream.Garbled(f)
	}
}

// decode decodes f into s.batch, unless that has been done, and reports whether it can
// be read.
func (s *Subscriber) decode(f Frame) bool {
	if len(f.Payload) > 0 && len(f.Payload) == len(s.decoded) && &f.Payload[0] == &s.decoded[0] {
		return true
	}
	s.decoded = nil
	if err := s.o.Decoder.Decode(f.Payload, &s.batch); err != nil {
		n := s.stats.Unreadable + s.stream.stats.Garbled + 1
		if bits.OnesCount64(n) == 1 { // the 1st, 2nd, 4th, 8th...
			s.log.Warn("payload cannot be read", "seq", f.Seq, "so_far", n, "err", err)
		}
		return false
	}
	s.decoded = f.Payload
	return true
}

// apply decodes and applies one frame. What of it cannot be applied for being
// malformed may have been a removal: it is a gap.
func (s *Subscriber) apply(f Frame) error {
	if !s.decode(f) {
		s.stats.Unreadable++
		s.stream.Damaged()
		return nil
	}
	s.decoded = nil // owners of the payload may do with it what they like
	if s.batch.Unknown > 0 && s.applier.stats.Unknown == 0 {
		s.log.Info("event of a kind that is not known", "tag", string(s.batch.UnknownTag))
	}
	clears, malformed := s.applier.stats.Cleared, s.applier.stats.Malformed
	if err := s.applier.Apply(&s.batch); err != nil {
		return err
	}
	if s.applier.stats.Malformed > malformed {
		s.stream.Damaged()
	}
	if s.applier.stats.Cleared > clears {
		s.stream.emptied(s.applier.emptied(s.stream.handed))
	}
	s.stats.Batches++
	if !s.batch.Time.IsZero() {
		s.stats.Lag = s.o.Clock().Sub(s.batch.Time)
	}
	return nil
}

// Reset says that the engine's cache is empty, as the host knows from elsewhere: it
// was put to sleep, or its weights were replaced. A new epoch begins, without the gap that
// the one before may have had; frames that were received before and not yet applied are
// dropped and counted, and a replay is stopped. What the source itself still holds is
// not known here and will be applied.
// Before Run, Reset empties the owners all the same. After it, Reset empties those that
// no other feeder has taken over, and they stay ViewStale.
//
// O(frames received and not applied, decoded). Safe for concurrent use.
func (s *Subscriber) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Resets++
	for _, f := range s.queue.frames() {
		s.live(f) // so that what is missing after it will be noticed
	}
	s.stream.Reset()
	s.replays.stop()
	if s.ended {
		s.applier.Clear()
		return nil
	}
	signal(s.queue.ready) // Run may have waited for what is no longer of interest
	if err := s.begin(); err != nil {
		return err
	}
	return s.showView()
}

// View returns how far the picture of the stream's owners can be trusted; after Run
// has returned, prefixindex.ViewStale if the engine was ever heard of.
//
// O(1). Safe for concurrent use.
func (s *Subscriber) View() prefixindex.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := s.stream.View()
	if s.ended && view != prefixindex.ViewNever {
		return prefixindex.ViewStale
	}
	return view
}

// Stats returns counts since NewSubscriber. It waits for a frame that is being
// applied. Safe for concurrent use.
func (s *Subscriber) Stats() SubscriberStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Stream, st.Applier = s.stream.Stats(), s.applier.Stats()
	st.Queued, st.QueueDropped = s.queue.fill()
	return st
}

// SubscriberStats counts what became of a stream. Unless Run has ended with an error,
//
//	Stream.Applied = Batches + Unreadable
type SubscriberStats struct {
	Stream  StreamStats
	Applier ApplierStats

	Batches      uint64        // payloads decoded and applied
	Unreadable   uint64        // payloads that could not be decoded, and that no replay brought whole
	Resets       uint64        // calls of Reset
	Queued       int           // frames that wait to be applied
	QueueDropped uint64        // frames dropped for want of room in the queue
	LastSeq      uint64        // number of the last live frame
	LastFrame    time.Time     // when it was taken from the queue; zero: nothing was ever heard
	Lag          time.Duration // from when the engine assembled the last batch to when it was applied
}
