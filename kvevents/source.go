package kvevents

import (
	"context"
	"errors"
)

// ErrReconnected is what Source.Receive returns once after its connection was lost and
// came back. The stream goes on. Numbers alone do not always show what happened in
// between: the engine may have restarted and be past the last number heard.
var ErrReconnected = errors.New("kvevents: reconnected")

// Frame is one message of an engine's event stream.
type Frame struct {
	Topic   string
	Seq     uint64 // the engine's number of the batch; from 0, one more for each, in each of its lives
	Payload []byte // belongs to whoever received the Frame
}

// Source delivers the frames of one stream, in the order in which the engine sent
// them and without repeats, as one socket does. A Source over a transport that
// redelivers removes the repeats, or each would pass for a restarted engine; one over
// a transport that has lost the engine's numbers counts from 0 itself.
type Source interface {
	// Receive waits for the next frame. An error ends Subscriber.Run, which returns
	// it; a Source that can reconnect does so itself, and may say so by
	// ErrReconnected, which ends nothing. io.EOF says that the stream has ended well.
	// When ctx ends it returns ctx's error.
	Receive(ctx context.Context) (Frame, error)
}

// SourceFunc is a Source made of a function.
type SourceFunc func(ctx context.Context) (Frame, error)

// Receive calls f.
func (f SourceFunc) Receive(ctx context.Context) (Frame, error) { return f(ctx) }

// isNil reports whether there is nothing that s could receive from.
func isNil(s Source) bool {
	switch s := s.(type) {
	case nil:
		return true
	case SourceFunc:
		return s == nil
	case *TopicSource:
		return s == nil
	}
	return false
}

// Replayer is a Source that can fetch past frames again. Replay is called beside
// Receive, but never beside another Replay.
type Replayer interface {
	Source

	// Replay yields what the engine still has of the frames from number from on, in
	// ascending order, and returns nil when the engine says that this was all. It
	// stops at the first error of yield and returns it, and when ctx ends. The engine
	// may have forgotten the oldest, and may lose any in between and the word that this
	// was all, so that Replay returns an error when none has come for some seconds.
	//
	// Payloads are byte for byte those that Receive returned: one that differs is taken
	// for another life of the engine, and what is known is dropped; where that happens
	// again and again, at growing intervals. How many replays run at once over several
	// streams is for the Source to bound, as zmtp.Limiter does.
	Replay(ctx context.Context, from uint64, yield func(Frame) error) error
}
