package kvevents

import (
	"context"
	"log/slog"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// SubscriberOptions says whose events a Subscriber applies, and where they come from.
type SubscriberOptions struct {
	Index    *prefixindex.Index
	Endpoint prefixindex.Endpoint
	Rank     int    // data-parallel rank of the stream
	Model    string // the model that the endpoint serves: Scope.Model of its prompts, to the letter
	Source   Source
	Decoder  Decoder
	Logger   *slog.Logger     // nil: nothing is logged
	Clock    func() time.Time // nil: time.Now
}

// Subscriber keeps the owners of one stream up to date. It is the only one to open
// Writers for them.
type Subscriber struct{}

// NewSubscriber returns a subscriber that does nothing until Run. An error names
// the option.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) { return nil, errUnbuilt }

// Run receives and applies frames until ctx ends, the source fails, or the endpoint
// leaves. It returns nil for the first and for io.EOF, and otherwise the error, with
// prefixindex.ErrNotJoined or ErrFenced for the last. That the endpoint left is noticed
// at the next frame; end ctx to stop at once. When Run returns, no goroutine of the
// subscriber is left. It runs once.
func (s *Subscriber) Run(ctx context.Context) error { return errUnbuilt }

// Reset says that the engine's cache is empty, as the host knows from elsewhere: it
// was put to sleep, or its weights were replaced. A new epoch begins; frames that
// were received before and not yet applied are dropped and counted. What the source
// itself still holds is not known here and will be applied. Before Run and after it,
// Reset empties the owners all the same.
//
// Safe for concurrent use.
func (s *Subscriber) Reset() error { return errUnbuilt }

// Stats returns counts since NewSubscriber. Safe for concurrent use.
func (s *Subscriber) Stats() SubscriberStats { return SubscriberStats{} }

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
