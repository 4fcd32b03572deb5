package kvevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// ErrRan is the answer to a second Run.
var ErrRan = errors.New("kvevents: subscriber has run")

// SubscriberOptions says whose events a Subscriber applies, and where they come from.
type SubscriberOptions struct {
	Index    *prefixindex.Index
	Endpoint prefixindex.Endpoint
	Rank     int    // data-parallel rank of the stream
	Model    string // the model that the endpoint serves: Scope.Model of its prompts, to the letter
	Ranks    RankSource
	Source   Source
	Decoder  Decoder
	Logger   *slog.Logger     // nil: nothing is logged
	Clock    func() time.Time // nil: time.Now
}

func (o *SubscriberOptions) validate() error {
	if o.Source == nil {
		return errors.New("kvevents: Source is nil")
	}
	return nil
}

// Subscriber keeps the owners of one stream up to date. It is the only one to open
// Writers for them.
type Subscriber struct {
	o   SubscriberOptions
	log *slog.Logger

	mu      sync.Mutex // over all below
	started bool       // Run was called
	stream  Stream
	applier *Applier
	batch   Batch
	view    prefixindex.View // that the owners were given
	stats   SubscriberStats
}

// NewSubscriber returns a subscriber that does nothing until Run. An error names
// the option.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	applier, err := NewApplier(ApplierOptions{
		Index: o.Index, Endpoint: o.Endpoint, Rank: o.Rank, Model: o.Model, Ranks: o.Ranks,
	})
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	log := slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		log = o.Logger.With("endpoint", o.Index.Name(o.Endpoint), "rank", o.Rank)
	}
	return &Subscriber{o: o, log: log, applier: applier}, nil
}

// Run receives and applies frames until ctx ends, the source fails, or the endpoint
// leaves. It returns nil for the first and for io.EOF, and otherwise the error, with
// prefixindex.ErrNotJoined or ErrFenced for the last. That the endpoint left is noticed
// at the next frame; end ctx to stop at once. When Run returns, no goroutine of the
// subscriber is left. It runs once.
func (s *Subscriber) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		return ErrRan
	}
	for {
		f, err := s.o.Source.Receive(ctx)
		switch {
		case err == nil:
			err = s.frame(f)
			if err != nil {
				return err
			}
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("kvevents: source: %w", err)
		}
	}
}

// frame takes one frame as far as it goes.
func (s *Subscriber) frame(f Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.LastSeq, s.stats.LastFrame = f.Seq, s.o.Clock()
	s.stream.Live(f)
	for {
		step, ok := s.stream.Next()
		if !ok {
			break
		}
		switch step.Action {
		case Begin:
			s.log.Info("the engine has restarted", "seq", f.Seq)
			s.view = prefixindex.ViewNever
			if err := s.applier.Begin(); err != nil {
				return err
			}
		case Apply:
			if err := s.apply(step.Frame); err != nil {
				return err
			}
		}
	}
	if view := s.stream.View(); view != s.view {
		s.view = view
		return s.applier.SetView(view)
	}
	return nil
}

// apply decodes and applies one frame.
func (s *Subscriber) apply(f Frame) error {
	if err := s.o.Decoder.Decode(f.Payload, &s.batch); err != nil {
		s.stats.Unreadable++
		s.log.Warn("a batch is lost", "seq", f.Seq, "err", err)
		return nil
	}
	if err := s.applier.Apply(&s.batch); err != nil {
		return err
	}
	s.stats.Batches++
	if !s.batch.Time.IsZero() {
		s.stats.Lag = s.o.Clock().Sub(s.batch.Time)
	}
	return nil
}

// Reset says that the engine's cache is empty, as the host knows from elsewhere: it
// was put to sleep, or its weights were replaced. A new epoch begins; frames that
// were received before and not yet applied are dropped and counted. What the source
// itself still holds is not known here and will be applied. Before Run and after it,
// Reset empties the owners all the same.
//
// Safe for concurrent use.
func (s *Subscriber) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Resets++
	return s.applier.Begin()
}

// Stats returns counts since NewSubscriber. Safe for concurrent use.
func (s *Subscriber) Stats() SubscriberStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Stream, st.Applier = s.stream.Stats(), s.applier.Stats()
	return st
}

// SubscriberStats counts what became of a stream.
type SubscriberStats struct {
	Stream  StreamStats
	Applier ApplierStats

	Batches    uint64        // payloads decoded and applied
	Unreadable uint64        // payloads refused with ErrPayload
	Resets     uint64        // calls of Reset
	Discarded  uint64        // frames dropped by a Reset
	LastSeq    uint64        // number of the last frame
	LastFrame  time.Time     // when it arrived; zero: nothing was ever heard
	Lag        time.Duration // from when the engine assembled it to when it was applied
}
