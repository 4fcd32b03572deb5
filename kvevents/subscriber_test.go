package kvevents_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// script is a Source that delivers the given frames and then ends with err.
func script(err error, frames ...kvevents.Frame) kvevents.Source {
	return kvevents.SourceFunc(func(ctx context.Context) (kvevents.Frame, error) {
		if len(frames) == 0 {
			if err == nil {
				<-ctx.Done()
				return kvevents.Frame{}, ctx.Err()
			}
			return kvevents.Frame{}, err
		}
		f := frames[0]
		frames = frames[1:]
		return f, nil
	})
}

func frame(seq uint64, events ...any) kvevents.Frame {
	return kvevents.Frame{Seq: seq, Payload: batch(events...)}
}

// run makes a subscriber of frames and lets it run to their end.
func run(t *testing.T, frames ...kvevents.Frame) (*prefixindex.Index, prefixindex.Endpoint, *kvevents.Subscriber) {
	t.Helper()
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: ep, Model: "m", Source: script(io.EOF, frames...),
		Clock: func() time.Time { return time.Unix(1750000002, 0) },
	})
	require.NoError(t, err)
	require.NoError(t, sub.Run(context.Background()))
	return ix, ep, sub
}

// An engine that restarts in place begins again with number 0, without replay.
func TestRestartWithoutReplay(t *testing.T) {
	ix, ep, sub := run(t,
		frame(0, stored([]uint64{1, 2}, nil, count(1, 8), 4)),
		frame(1, stored([]uint64{3}, 2, count(9, 4), 4)),
		frame(0, stored([]uint64{9}, nil, count(50, 4), 4)),
	)
	require.Zero(t, heldBy(ix, ep, base, count(1, 12)).Any)
	require.Equal(t, 4, heldBy(ix, ep, base, count(50, 4)).GPU)
	s := sub.Stats()
	require.EqualValues(t, 1, s.Stream.Restarts)
	require.EqualValues(t, 3, s.Batches)
	require.EqualValues(t, 3, s.Stream.Frames)
	require.Equal(t, 1500*time.Millisecond, s.Lag)
}

func TestUnreadablePayloads(t *testing.T) {
	ix, ep, sub := run(t,
		frame(0, stored([]uint64{1}, nil, count(1, 4), 4)),
		kvevents.Frame{Seq: 1, Payload: []byte("garbage")},
		kvevents.Frame{Seq: 2},
		frame(3, stored([]uint64{2}, 1, count(5, 4), 4)),
	)
	require.Equal(t, 8, heldBy(ix, ep, base, count(1, 8)).GPU)
	s := sub.Stats()
	require.EqualValues(t, 2, s.Unreadable)
	require.EqualValues(t, 2, s.Batches)
}

func TestRunEnds(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	sub := func(s kvevents.Source) *kvevents.Subscriber {
		x, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: ix, Endpoint: ep, Model: "m", Source: s})
		require.NoError(t, err)
		return x
	}
	boom := errors.New("boom")
	failing := sub(script(boom))
	require.ErrorIs(t, failing.Run(context.Background()), boom)
	require.ErrorIs(t, failing.Run(context.Background()), kvevents.ErrRan)

	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	require.NoError(t, sub(script(nil)).Run(ctx))

	first := sub(script(nil, frame(0, stored([]uint64{1}, nil, count(1, 4), 4))))
	require.NoError(t, first.Reset())
	leaving := sub(kvevents.SourceFunc(func(context.Context) (kvevents.Frame, error) {
		ix.Leave(ep)
		return frame(0, cleared), nil
	}))
	require.ErrorIs(t, leaving.Run(context.Background()), prefixindex.ErrNotJoined)
}

func TestNoSource(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	for _, s := range []kvevents.Source{nil, kvevents.SourceFunc(nil), (*kvevents.TopicSource)(nil)} {
		_, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: ix, Endpoint: ep, Source: s})
		require.ErrorIs(t, err, kvevents.ErrOptions)
		require.ErrorContains(t, err, "Source is nil")
		_, err = kvevents.NewDemux(kvevents.DemuxOptions{Source: s})
		require.ErrorIs(t, err, kvevents.ErrOptions)
	}
}
