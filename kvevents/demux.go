package kvevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// DemuxOptions configures a Demux.
type DemuxOptions struct {
	// Source delivers the frames of several streams.
	Source Source

	// Key names the stream of a frame. Nil: the topic. Where several ranks publish
	// under one topic, PayloadRank tells them apart.
	Key func(Frame) string

	// New is called when a frame has a key that no TopicSource has, once for each such
	// key and again after it had one. It may call Demux.Source, which then gets that
	// frame. It is called by Run, which waits for it. Nil: such frames are dropped.
	New func(key string)

	// Queue bounds the frames that wait for each key. With QueueBlock, a key whose
	// frames nobody receives stops all of them.
	Queue QueueOptions
}

// Demux parts the streams of several publishers that arrive on one socket, so that
// each has sequence numbers of its own. Safe for concurrent use.
type Demux struct {
	o DemuxOptions

	mu       sync.Mutex
	ran      bool
	ended    error // what Run has ended with
	sources  map[string]*TopicSource
	unrouted map[string]struct{} // keys that New was told of
	stats    DemuxStats
}

// DemuxStats counts what a Demux did with frames.
type DemuxStats struct {
	Keys     int    // that have a TopicSource
	Frames   uint64 // received
	Unrouted uint64 // of them: dropped, since their key has no TopicSource
	Dropped  uint64 // of them: dropped for want of room in the queue of their key
}

// maxUnrouted bounds the keys without a TopicSource that a Demux remembers.
const maxUnrouted = 4096

// NewDemux returns a Demux that does nothing until Run. An error names the option.
func NewDemux(o DemuxOptions) (*Demux, error) {
	if isNil(o.Source) {
		return nil, fmt.Errorf("%w: Source is nil", ErrOptions)
	}
	if err := o.Queue.validate(QueueDrop); err != nil {
		return nil, err
	}
	if o.Key == nil {
		o.Key = func(f Frame) string { return f.Topic }
	}
	return &Demux{o: o, sources: map[string]*TopicSource{}, unrouted: map[string]struct{}{}}, nil
}

// Source returns the source of the frames with a key, from now on. There is one for
// each key; a second call returns the same.
//
// O(1).
func (d *Demux) Source(key string) *TopicSource {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sources[key]; s != nil {
		return s
	}
	s := &TopicSource{d: d, key: key, queue: newQueue(d.o.Queue)}
	d.sources[key] = s
	delete(d.unrouted, key)
	if d.ended != nil {
		s.queue.close(d.ended)
	}
	return s
}

// Run receives frames and hands them out until ctx ends or the source fails, of which
// all sources hear: as io.EOF if it was ctx. It returns nil for ctx and for io.EOF,
// and runs once.
func (d *Demux) Run(ctx context.Context) error {
	d.mu.Lock()
	again := d.ran
	d.ran = true
	d.mu.Unlock()
	if again {
		return ErrRan
	}
	for {
		f, err := d.o.Source.Receive(ctx)
		switch {
		case errors.Is(err, ErrReconnected):
			d.reconnected()
			continue
		case err == nil:
			err = d.route(ctx, f)
		}
		if err != nil {
			return d.end(ctx, err)
		}
	}
}

// route hands out one frame.
func (d *Demux) route(ctx context.Context, f Frame) error {
	key := d.o.Key(f)
	s, isNew := d.find(key)
	if isNew && d.o.New != nil {
		d.o.New(key)
		s, _ = d.find(key)
	}
	d.mu.Lock()
	d.stats.Frames++
	if s == nil {
		d.stats.Unrouted++
	}
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.queue.put(ctx, arrival{frame: f})
}

// find returns the source of a key. Without one, it reports whether the key is new.
func (d *Demux) find(key string) (s *TopicSource, isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s = d.sources[key]; s != nil {
		return s, false
	}
	if _, known := d.unrouted[key]; known {
		return nil, false
	}
	if len(d.unrouted) >= maxUnrouted {
		clear(d.unrouted)
	}
	d.unrouted[key] = struct{}{}
	return nil, true
}

// reconnected tells all sources.
func (d *Demux) reconnected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sources {
		s.queue.fail(ErrReconnected)
	}
}

// end lets all sources hear how Run ended, and returns what it is to return.
func (d *Demux) end(ctx context.Context, err error) error {
	well := ctx.Err() != nil || errors.Is(err, io.EOF)
	if well {
		err = io.EOF
	}
	d.mu.Lock()
	d.ended = err
	for _, s := range d.sources {
		s.queue.close(err)
	}
	d.mu.Unlock()
	if well {
		return nil
	}
	return err
}

// Stats returns counts since NewDemux. O(keys).
func (d *Demux) Stats() DemuxStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := d.stats
	st.Keys = len(d.sources)
	for _, s := range d.sources {
		_, dropped := s.queue.fill()
		st.Dropped += dropped
	}
	return st
}

// TopicSource is the Source of one key of a Demux. Receive is for one goroutine.
type TopicSource struct {
	d     *Demux
	key   string
	queue *queue
}

// Receive returns the next frame with the key. Once the stream has ended, it says so at
// each call.
func (s *TopicSource) Receive(ctx context.Context) (Frame, error) {
	for {
		if a, ok := s.queue.take(); ok {
			return a.frame, a.err
		}
		select {
		case <-s.queue.ready:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

// Close ends the source: frames that wait and those that come are dropped, and Receive
// returns io.EOF from now on. Another source for the key may be had from Demux.Source.
//
// O(frames that wait).
func (s *TopicSource) Close() {
	s.d.mu.Lock()
	if s.d.sources[s.key] == s {
		delete(s.d.sources, s.key)
		_, dropped := s.queue.fill()
		s.d.stats.Dropped += dropped
	}
	s.d.mu.Unlock()
	s.queue.close(io.EOF)
	s.queue.drop()
}
