package enginetest_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// published is an engine that publishes, and a Source that has subscribed.
type published struct {
	*enginetest.Publisher

	t      *testing.T
	engine *enginetest.Engine
	src    *zmtp.Source
	prompt int
}

func newPublished(t *testing.T, po enginetest.PublishOptions, so zmtp.SourceOptions) *published {
	goroutines := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 5000 {
			if runtime.NumGoroutine() <= goroutines {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	})
	engine, err := enginetest.New(enginetest.Options{PrefillTokensPerSecond: 1e9, DecodeStep: time.Microsecond})
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	pub, err := engine.Publish(po)
	require.NoError(t, err)
	t.Cleanup(pub.Close)
	so.Address, so.ReplayAddress = pub.Address(), pub.ReplayAddress()
	so.BackoffMin, so.BackoffMax = time.Millisecond, 20*time.Millisecond
	src, err := zmtp.NewSource(so)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	p := &published{Publisher: pub, t: t, engine: engine, src: src}
	p.subscribed()
	return p
}

func (p *published) subscribed() {
	require.Eventually(p.t, func() bool { return p.Subscribers() == 1 }, 5*time.Second, time.Millisecond)
}

// batches makes the engine publish n of them, and returns them.
func (p *published) batches(n int) []kvevents.Frame {
	before := uint64(len(p.engine.Published(0)))
	for range n {
		p.prompt++
		tokens := make([]uint32, 16)
		for i := range tokens {
			tokens[i] = uint32(p.prompt)
		}
		_, err := p.engine.Generate(p.t.Context(), enginetest.Request{Prompt: tokens, MaxTokens: 1})
		require.NoError(p.t, err)
	}
	frames := p.engine.Published(before)
	require.Len(p.t, frames, n)
	return frames
}

func (p *published) receive(n int) []kvevents.Frame {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	var frames []kvevents.Frame
	for len(frames) < n {
		f, err := p.src.Receive(ctx)
		if errors.Is(err, kvevents.ErrReconnected) {
			continue
		}
		require.NoError(p.t, err, "%d of %d", len(frames), n)
		frames = append(frames, f)
	}
	return frames
}

func (p *published) replay(from uint64) []kvevents.Frame {
	var frames []kvevents.Frame
	require.NoError(p.t, p.src.Replay(p.t.Context(), from, func(f kvevents.Frame) error {
		frames = append(frames, f)
		return nil
	}))
	return frames
}

// numbers are those of frames.
func numbers(frames []kvevents.Frame) []uint64 {
	seqs := make([]uint64, len(frames))
	for i, f := range frames {
		seqs[i] = f.Seq
	}
	return seqs
}

// taken waits until the publisher has taken up all that the engine made.
func (p *published) taken() {
	require.Eventually(p.t, func() bool {
		return p.Published() == uint64(len(p.engine.Published(0)))
	}, 5*time.Second, time.Millisecond)
}

func TestPublish(t *testing.T) {
	for _, topicless := range []bool{false, true} {
		p := newPublished(t, enginetest.PublishOptions{
			ReplayAddress: "tcp://127.0.0.1:0", TopiclessReplay: topicless,
		}, zmtp.SourceOptions{})
		want := p.batches(40)
		require.Equal(t, want, p.receive(40))
		require.Equal(t, want, p.replay(0))
		require.Equal(t, want[30:], p.replay(30))
		require.Empty(t, p.replay(40))
		stats := p.Stats()
		require.Equal(t, enginetest.PublisherStats{Batches: 40, Replays: 3, Replayed: 50}, stats)
	}
}

// Who attaches late finds the past in the replay buffer, as a process that was there
// from the start has it.
func TestPublishLate(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{}, zmtp.SourceOptions{})
	want := p.batches(5)
	late, err := p.engine.Publish(enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"})
	require.NoError(t, err)
	defer late.Close()
	src, err := zmtp.NewSource(zmtp.SourceOptions{Address: late.Address(), ReplayAddress: late.ReplayAddress()})
	require.NoError(t, err)
	defer src.Close()
	require.Eventually(t, func() bool { return late.Published() == 5 }, 5*time.Second, time.Millisecond)
	var got []kvevents.Frame
	require.NoError(t, src.Replay(t.Context(), 0, func(f kvevents.Frame) error {
		got = append(got, f)
		return nil
	}))
	require.Equal(t, want, got)
}

func TestLiveFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault  enginetest.Fault
		live   []uint64
		replay []uint64
	}{
		"drop":      {enginetest.Drop, []uint64{1, 2}, []uint64{0, 1, 2}},
		"lose":      {enginetest.Lose, []uint64{1, 2}, []uint64{1, 2}},
		"duplicate": {enginetest.Duplicate, []uint64{0, 0, 1, 2}, []uint64{0, 1, 2}},
		"reorder":   {enginetest.Reorder, []uint64{1, 0, 2}, []uint64{0, 1, 2}},
		"truncate":  {enginetest.Truncate, []uint64{0, 1, 2}, []uint64{0, 1, 2}},
		"garbage":   {enginetest.Garbage, []uint64{0, 1, 2}, []uint64{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublished(t, enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"}, zmtp.SourceOptions{})
			p.Inject(c.fault, 1)
			want := p.batches(3)
			live := p.receive(len(c.live))
			require.Equal(t, c.live, numbers(live))
			replayed := p.replay(0)
			require.Equal(t, c.replay, numbers(replayed))
			require.Equal(t, want[len(want)-len(replayed):], replayed)
			require.EqualValues(t, 1, p.Injected(c.fault))
			switch c.fault {
			case enginetest.Truncate:
				require.Len(t, live[0].Payload, len(want[0].Payload)/2)
			case enginetest.Garbage:
				require.Len(t, live[0].Payload, len(want[0].Payload))
				require.EqualValues(t, 0xc1, live[0].Payload[0])
			default:
			}
		})
	}
}

func TestReplayFaults(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"},
		zmtp.SourceOptions{ReplayTimeout: 300 * time.Millisecond})
	p.batches(5)
	p.receive(5)
	p.Inject(enginetest.DropReplayed, 2)
	require.Equal(t, []uint64{2, 3, 4}, numbers(p.replay(0)))
	require.Equal(t, []uint64{0, 1, 2, 3, 4}, numbers(p.replay(0)))
	for _, fault := range []enginetest.Fault{enginetest.DropReplayEnd, enginetest.IgnoreReplay} {
		p.Inject(fault, 1)
		err := p.src.Replay(t.Context(), 0, func(kvevents.Frame) error { return nil })
		require.ErrorIs(t, err, zmtp.ErrSilent)
	}
	require.Equal(t, []uint64{0, 1, 2, 3, 4}, numbers(p.replay(0)))
	p.Inject(enginetest.Fault(99), 1)
	require.Zero(t, p.Injected(enginetest.Fault(99)))
}

// The queue of a replay overflows in its middle, and the end marker comes all the same.
func TestReplayHighWaterMark(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0", ReplayHWM: 100},
		zmtp.SourceOptions{ReplayTimeout: 500 * time.Millisecond})
	p.batches(400)
	p.receive(400)
	p.Slow(200_000)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var got []uint64
	err := p.src.Replay(ctx, 0, func(f kvevents.Frame) error {
		got = append(got, f.Seq)
		return nil
	})
	if err != nil {
		require.ErrorIs(t, err, zmtp.ErrSilent) // the end marker was lost as well
	}
	require.NotEmpty(t, got)
	require.Less(t, len(got), 400)
	require.EqualValues(t, 400, p.Stats().Replayed)
	require.GreaterOrEqual(t, p.Stats().LostReplayed, uint64(400-len(got)))
	require.Zero(t, p.Stats().Lost)
}

func TestRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		o    enginetest.RestartOptions
		live []uint64
	}{
		"plain": {enginetest.RestartOptions{}, []uint64{0, 1, 2, 3, 4, 5}},
		"down":  {enginetest.RestartOptions{Down: 100 * time.Millisecond}, []uint64{0, 1, 2, 3, 4, 5}},
		"kept":  {enginetest.RestartOptions{KeepConnections: true}, []uint64{0, 1, 2, 3, 4, 5}},
		"gap":   {enginetest.RestartOptions{KeepConnections: true, Hide: true}, []uint64{4, 5}},
		"count": {enginetest.RestartOptions{Hide: true}, []uint64{3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublished(t, enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"}, zmtp.SourceOptions{})
			old := p.batches(3)
			require.Equal(t, old, p.receive(3))
			require.NoError(t, p.Restart(c.o))
			require.Empty(t, p.replay(0))
			p.subscribed()
			require.Equal(t, !c.o.KeepConnections, p.src.Stats().Connects == 2)
			now := p.batches(6)
			require.Equal(t, c.live, numbers(p.receive(len(c.live))))
			p.taken()
			require.Equal(t, now, p.replay(0))
			require.NotEqual(t, old[2].Payload, now[2].Payload, "another life, other hashes")
		})
	}
}

// An engine that is restarted without a word to the publisher.
func TestRestartOfEngineAlone(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"}, zmtp.SourceOptions{})
	p.batches(3)
	p.receive(3)
	require.NoError(t, p.engine.Restart())
	first := p.batches(1)
	require.Eventually(t, func() bool { return p.src.Stats().Connects == 2 }, 5*time.Second, time.Millisecond)
	p.subscribed()
	second := p.batches(1)
	require.Equal(t, second, p.receive(1), "the first went out before anybody was back")
	require.Equal(t, append(first, second...), p.replay(0))
}

// Stalled, the publisher answers heartbeats and nothing else.
func TestStall(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{}, zmtp.SourceOptions{
		Heartbeat: 20 * time.Millisecond, IdleTimeout: 200 * time.Millisecond,
	})
	p.Stall(time.Hour)
	time.Sleep(150 * time.Millisecond) // the turn under way ends
	p.batches(2)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	_, err := p.src.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, p.src.Stats().Disconnects.Total())
	p.Stall(0)
	require.Equal(t, []uint64{0, 1}, numbers(p.receive(2)))
}

// Silent, the publisher is gone and its connections do not know.
func TestSilence(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{}, zmtp.SourceOptions{
		Heartbeat: 20 * time.Millisecond, IdleTimeout: 100 * time.Millisecond, HandshakeTimeout: 100 * time.Millisecond,
	})
	p.Silence(true)
	require.Eventually(t, func() bool {
		d := p.src.Stats().Disconnects
		return d.Silent == 1 && d.Handshake >= 1
	}, 5*time.Second, time.Millisecond)
	p.Silence(false)
	require.Eventually(t, func() bool { return p.src.Stats().Connects == 2 && p.Subscribers() == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, p.batches(3), p.receive(3))
}

// After Calm nothing goes wrong that was due.
func TestCalm(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"}, zmtp.SourceOptions{})
	for fault := enginetest.Drop; fault <= enginetest.IgnoreReplay; fault++ {
		p.Inject(fault, 100)
	}
	p.Stall(time.Hour)
	p.Silence(true)
	p.Slow(1)
	p.Calm()
	want := p.batches(5)
	require.Equal(t, want, p.receive(5))
	require.Equal(t, want, p.replay(0))
}

// Disconnected, the peers come back to the same process.
func TestDisconnect(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{}, zmtp.SourceOptions{})
	require.Equal(t, p.batches(1), p.receive(1))
	p.Disconnect()
	require.Eventually(t, func() bool { return p.src.Stats().Connects == 2 && p.Subscribers() == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, p.batches(1), p.receive(1))
	require.EqualValues(t, 1, p.src.Stats().Disconnects.Lost)
}

// A slow reader's queue reaches the high-water mark; what comes then is lost.
func TestSlowReader(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{HWM: 10}, zmtp.SourceOptions{})
	p.Slow(2000)
	p.batches(50)
	require.Eventually(t, func() bool { return p.Stats().Lost > 0 && p.Published() == 50 }, 5*time.Second, time.Millisecond)
	p.Slow(0)
	lost := int(p.Stats().Lost)
	require.Len(t, p.receive(50-lost), 50-lost)
}

func TestPublisherEnds(t *testing.T) {
	p := newPublished(t, enginetest.PublishOptions{}, zmtp.SourceOptions{})
	p.engine.Close()
	require.Eventually(t, func() bool { return p.src.Stats().Disconnects.Lost == 1 }, 5*time.Second, time.Millisecond)
	require.ErrorIs(t, p.Restart(enginetest.RestartOptions{}), enginetest.ErrClosed)
	p.Close()
	p.Close()
	require.ErrorIs(t, p.Restart(enginetest.RestartOptions{}), enginetest.ErrClosed)
	_, err := p.engine.Publish(enginetest.PublishOptions{})
	require.ErrorIs(t, err, enginetest.ErrClosed)

	other, err := enginetest.New(enginetest.Options{})
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Publish(enginetest.PublishOptions{Address: "udp://127.0.0.1:1"})
	require.ErrorIs(t, err, zmtp.ErrOptions)
}
