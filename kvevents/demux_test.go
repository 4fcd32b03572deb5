package kvevents_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

func topicFrame(topic string, seq uint64, events ...any) kvevents.Frame {
	f := frame(seq, events...)
	f.Topic = topic
	return f
}

// Publishers of several endpoints on one socket: numbers are counted by topic, and one
// restarting does not concern the other.
func TestTopicsOnOneSocket(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	subs := map[string]*kvevents.Subscriber{}
	eps := map[string]prefixindex.Endpoint{}
	var d *kvevents.Demux
	d, err = kvevents.NewDemux(kvevents.DemuxOptions{
		Source: script(io.EOF,
			topicFrame("kv@a@m", 0, stored([]uint64{1}, nil, count(1, 4), 4)),
			topicFrame("kv@b@m", 0, stored([]uint64{1}, nil, count(1, 4), 4)),
			topicFrame("other", 0, cleared),
			topicFrame("kv@a@m", 1, stored([]uint64{2}, 1, count(5, 4), 4)),
			topicFrame("kv@b@m", 1, stored([]uint64{2}, 1, count(5, 4), 4)),
			topicFrame("kv@b@m", 0, stored([]uint64{1}, nil, count(1, 4), 4)),
			topicFrame("kv@a@m", 3, stored([]uint64{3}, 2, count(9, 4), 4)),
			topicFrame("other", 1, cleared),
		),
		New: func(key string) {
			name, ok := strings.CutPrefix(key, "kv@")
			if !ok {
				return
			}
			ep, err := ix.Join(name)
			require.NoError(t, err)
			eps[key] = ep
			subs[key], err = kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: ix, Endpoint: ep, Model: "m", Source: d.Source(key)})
			require.NoError(t, err)
		},
	})
	require.NoError(t, err)
	require.NoError(t, d.Run(context.Background()))
	require.ErrorIs(t, d.Run(context.Background()), kvevents.ErrRan)
	require.Len(t, subs, 2)
	for _, sub := range subs {
		require.NoError(t, sub.Run(context.Background()))
	}
	require.Equal(t, 12, heldBy(ix, eps["kv@a@m"], base, count(1, 12)).GPU)
	require.Equal(t, 4, heldBy(ix, eps["kv@b@m"], base, count(1, 12)).GPU)
	require.EqualValues(t, 1, subs["kv@a@m"].Stats().Stream.Gaps)
	require.Zero(t, subs["kv@a@m"].Stats().Stream.Restarts)
	require.EqualValues(t, 1, subs["kv@b@m"].Stats().Stream.Restarts)
	require.Equal(t, kvevents.DemuxStats{Keys: 2, Frames: 8, Unrouted: 2}, d.Stats())
}

// Ranks of one pod share a topic; their payloads tell them apart.
func TestRanksUnderOneTopic(t *testing.T) {
	d, err := kvevents.NewDemux(kvevents.DemuxOptions{
		Source: script(io.EOF,
			kvevents.Frame{Payload: batchOf(0, cleared)},
			kvevents.Frame{Payload: batchOf(1, cleared)},
			kvevents.Frame{Payload: []byte("garbage")},
		),
		Key: func(f kvevents.Frame) string {
			rank, ok := kvevents.PayloadRank(f.Payload)
			return fmt.Sprint(rank, ok)
		},
	})
	require.NoError(t, err)
	zero, one := d.Source("0 true"), d.Source("1 true")
	require.Same(t, one, d.Source("1 true"))
	require.NoError(t, d.Run(context.Background()))
	for want, s := range []*kvevents.TopicSource{zero, one} {
		f, err := s.Receive(context.Background())
		require.NoError(t, err)
		rank, _ := kvevents.PayloadRank(f.Payload)
		require.Equal(t, want, rank)
		_, err = s.Receive(context.Background())
		require.ErrorIs(t, err, io.EOF)
	}
	require.EqualValues(t, 1, d.Stats().Unrouted)
}

func TestPayloadRank(t *testing.T) {
	for _, c := range []struct {
		payload []byte
		rank    int
		ok      bool
	}{
		{batchOf(7, stored([]uint64{1}, nil, count(1, 40), 4)), 7, true},
		{batch(cleared), 0, false},
		{vector(t, "H11"), 0, true},
		{vector(t, "H1"), 0, false},
		{vector(t, "H2")[:40], 0, false},
		{nil, 0, false},
	} {
		rank, ok := kvevents.PayloadRank(c.payload)
		require.Equal(t, c.ok, ok)
		require.Equal(t, c.rank, rank)
		require.Zero(t, testing.AllocsPerRun(10, func() { kvevents.PayloadRank(c.payload) }))
	}
}

func TestDemuxIsBounded(t *testing.T) {
	boom := errors.New("boom")
	var frames []kvevents.Frame
	for i := range 10 {
		frames = append(frames, topicFrame("a", uint64(i), cleared))
	}
	d, err := kvevents.NewDemux(kvevents.DemuxOptions{Source: script(boom, frames...), Queue: kvevents.QueueOptions{Frames: 3, Full: kvevents.QueueDrop}})
	require.NoError(t, err)
	a, b := d.Source("a"), d.Source("b")
	require.ErrorIs(t, d.Run(context.Background()), boom)
	require.EqualValues(t, 7, d.Stats().Dropped)
	for range 3 {
		_, err = a.Receive(context.Background())
		require.NoError(t, err)
	}
	for _, s := range []*kvevents.TopicSource{a, b, d.Source("after the end")} {
		_, err = s.Receive(context.Background())
		require.ErrorIs(t, err, boom)
	}
	b.Close()
	_, err = b.Receive(context.Background())
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 7, d.Stats().Dropped)

	_, err = kvevents.NewDemux(kvevents.DemuxOptions{})
	require.ErrorContains(t, err, "Source is nil")
	_, err = kvevents.NewDemux(kvevents.DemuxOptions{Source: script(nil), Queue: kvevents.QueueOptions{Frames: -1}})
	require.ErrorContains(t, err, "Queue.Frames is -1, want 0 to 16777216")
}

// A key that nobody receives stops no other, whatever else of the queue is set.
func TestDemuxDropsByDefault(t *testing.T) {
	var frames []kvevents.Frame
	for i := range 10 {
		frames = append(frames, topicFrame("a", uint64(i), cleared))
	}
	d, err := kvevents.NewDemux(kvevents.DemuxOptions{Source: script(io.EOF, frames...), Queue: kvevents.QueueOptions{Frames: 3}})
	require.NoError(t, err)
	d.Source("a")
	require.NoError(t, d.Run(context.Background()))
	require.EqualValues(t, 7, d.Stats().Dropped)
}

// What Run waited to hand to a source that was closed does not come out of it.
func TestClosedTopicSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := []kvevents.Frame{topicFrame("a", 0, cleared), topicFrame("a", 1, cleared), topicFrame("a", 2, cleared)}
		d, err := kvevents.NewDemux(kvevents.DemuxOptions{Source: script(nil, frames...), Queue: kvevents.QueueOptions{Frames: 1, Full: kvevents.QueueBlock}})
		require.NoError(t, err)
		a := d.Source("a")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		synctest.Wait()
		a.Close()
		synctest.Wait()
		for range 3 {
			_, err := a.Receive(ctx)
			require.ErrorIs(t, err, io.EOF)
		}
		cancel()
		require.NoError(t, <-done)
	})
}
