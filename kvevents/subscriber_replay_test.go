package kvevents_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// engine is a Replayer: what is sent arrives, and what is kept can be replayed.
type engine struct {
	live chan any // kvevents.Frame or error

	mu      sync.Mutex
	kept    []kvevents.Frame
	refuse  error // of Replay
	silent  bool  // Replay brings nothing and does not end
	replays int
	running int
}

func newEngine() *engine { return &engine{live: make(chan any, 1024)} }

func (e *engine) Receive(ctx context.Context) (kvevents.Frame, error) {
	select {
	case v := <-e.live:
		if f, ok := v.(kvevents.Frame); ok {
			return f, nil
		}
		return kvevents.Frame{}, v.(error)
	case <-ctx.Done():
		return kvevents.Frame{}, ctx.Err()
	}
}

func (e *engine) Replay(ctx context.Context, from uint64, yield func(kvevents.Frame) error) error {
	e.mu.Lock()
	e.replays++
	e.running++
	kept, refuse, silent, running := e.kept, e.refuse, e.silent, e.running
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
	}()
	if running > 1 {
		panic("two replays at once")
	}
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, f := range kept {
		if f.Seq < from {
			continue
		}
		if err := yield(f); err != nil {
			return err
		}
	}
	return refuse
}

// keep has the engine number a batch without anyone hearing of it.
func (e *engine) keep(frames ...kvevents.Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept, frames...)
}

// send has the engine publish.
func (e *engine) send(frames ...kvevents.Frame) {
	e.keep(frames...)
	for _, f := range frames {
		e.live <- f
	}
}

// host is a subscriber that runs.
type host struct {
	*testing.T
	ix   *prefixindex.Index
	ep   prefixindex.Endpoint
	sub  *kvevents.Subscriber
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, s kvevents.Source, set ...func(*kvevents.SubscriberOptions)) *host {
	t.Helper()
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	h := &host{T: t, ix: ix, done: make(chan error, 1)}
	h.ep, err = ix.Join("a")
	require.NoError(t, err)
	o := kvevents.SubscriberOptions{Index: ix, Endpoint: h.ep, Model: "m", Source: s}
	for _, f := range set {
		f(&o)
	}
	h.sub, err = kvevents.NewSubscriber(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	go func() { h.done <- h.sub.Run(ctx) }()
	return h
}

// end stops the subscriber and waits for it.
func (h *host) end() {
	h.Helper()
	h.stop()
	require.NoError(h, <-h.done)
}

func (h *host) gpu(n int) int {
	synctest.Wait()
	return heldBy(h.ix, h.ep, base, count(1, n)).GPU
}

func (h *host) view() prefixindex.View {
	synctest.Wait()
	require.Equal(h, h.sub.View(), h.ix.View(h.ep, 0))
	return h.ix.View(h.ep, 0)
}

// chain returns n frames, from number 0 on, each of which stores one more block of the
// prompt count(1, …).
func chain(n int) []kvevents.Frame {
	frames := make([]kvevents.Frame, n)
	for i := range frames {
		var parent any
		if i > 0 {
			parent = i
		}
		frames[i] = frame(uint64(i), stored([]uint64{uint64(i + 1)}, parent, count(4*i+1, 4), 4))
	}
	return frames
}

// A router that starts late asks for all, and is as one that never restarted.
func TestLateJoinWithReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(60)
		e.keep(c[:57]...)
		h := start(t, e)
		require.Equal(t, 57*4, h.gpu(1000))
		require.Equal(t, prefixindex.ViewLive, h.view())
		e.send(c[57:]...)
		require.Equal(t, 240, h.gpu(1000))
		s := h.sub.Stats()
		require.EqualValues(t, 57, s.Stream.Recovered)
		require.EqualValues(t, 60, s.Batches)
		require.Zero(t, s.Stream.Lost)
		h.end()
		require.Equal(t, prefixindex.ViewStale, h.ix.View(h.ep, 0))
	})
}

// A replay that takes long does not let a live removal overtake the store before it.
func TestRemovalWaitsForTheStoreBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(2)
		e.send(c[0])
		h := start(t, e, func(o *kvevents.SubscriberOptions) { o.Stream.ReplayIdle = 5 * time.Second })
		require.Equal(t, 4, h.gpu(100))
		e.mu.Lock()
		e.silent = true
		e.mu.Unlock()
		e.keep(c[1])
		e.send(frame(2, removed([]uint64{2})))
		require.Equal(t, 4, h.gpu(100))
		require.Equal(t, prefixindex.ViewResyncing, h.view())
		e.mu.Lock()
		e.silent = false
		e.mu.Unlock()
		time.Sleep(6 * time.Second) // the first replay times out, the second succeeds
		require.Equal(t, 4, h.gpu(100), "stored, then removed")
		require.Equal(t, prefixindex.ViewLive, h.view())
		require.EqualValues(t, 1, h.sub.Stats().Stream.ReplaysIdle)
		h.end()
	})
}

// A replay and live frames overlap: a removal still takes the one copy.
func TestReplayDoesNotInflateCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(3)
		e.send(c...)
		h := start(t, e)
		e.send(frame(3, removed([]uint64{3})))
		require.Equal(t, 8, h.gpu(100))
		require.Zero(t, h.sub.Stats().Applier.Blocks.Copies)
		h.end()
	})
}

// A replay port that refuses: the caller's choice is kept, and live batches go on.
func TestReplayRefused(t *testing.T) {
	for name, c := range map[string]struct {
		loss kvevents.Loss
		want int
	}{
		"keep and mark": {kvevents.LossKeep, 8},
		"clear":         {kvevents.LossClear, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, frames := newEngine(), chain(10)
				e.refuse = errors.New("refused")
				h := start(t, e, func(o *kvevents.SubscriberOptions) { o.Stream.Loss = c.loss })
				e.live <- frames[0]
				e.live <- frames[1]
				time.Sleep(time.Minute)
				require.Equal(t, 8, h.gpu(100))
				e.live <- frames[3]
				time.Sleep(time.Minute)
				require.Equal(t, c.want, h.gpu(100))
				require.Equal(t, prefixindex.ViewGap, h.view())
				e.live <- frames[4]
				synctest.Wait()
				s := h.sub.Stats()
				require.EqualValues(t, 4, s.Batches)
				require.EqualValues(t, 1, s.Stream.Lost)
				require.Equal(t, s.Stream.Replays, s.Stream.ReplaysFailed)
				h.end()
			})
		})
	}
}

// The engine restarts; its numbers go backwards, or pass ours while nobody listens.
func TestRestartWithReplay(t *testing.T) {
	other := func(seq uint64) kvevents.Frame {
		return frame(seq, stored([]uint64{100 + seq}, nil, count(1000+4*int(seq), 4), 4))
	}
	for name, after := range map[string][]kvevents.Frame{
		"number 0":           {other(0)},
		"backwards":          {other(0), other(1)},
		"hidden in a gap":    {other(0), other(1), other(2), other(3), other(4), other(5)},
		"at the same number": {other(0), other(1), other(2), other(3)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, c := newEngine(), chain(3)
				e.send(c...)
				h := start(t, e)
				require.Equal(t, 12, h.gpu(100))
				e.mu.Lock()
				e.kept = nil
				e.mu.Unlock()
				last := len(after) - 1
				e.keep(after[:last]...)
				e.live <- kvevents.ErrReconnected
				e.send(after[last])
				time.Sleep(time.Minute)
				require.Zero(t, h.gpu(100))
				for i := range after {
					require.Equal(t, 4, heldBy(h.ix, h.ep, base, count(1000+4*i, 4)).GPU)
				}
				require.Equal(t, prefixindex.ViewLive, h.view())
				h.end()
			})
		})
	}
}

// Reset drops what waits, and stops the replay that would bring it back.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(6)
		e.send(c[0])
		h := start(t, e)
		require.Equal(t, 4, h.gpu(100))
		e.mu.Lock()
		e.silent = true
		e.mu.Unlock()
		e.keep(c[1])
		e.send(c[2], c[3])
		require.Equal(t, prefixindex.ViewResyncing, h.view())
		require.NoError(t, h.sub.Reset())
		require.Zero(t, h.gpu(100))
		require.Equal(t, prefixindex.ViewLive, h.view())
		time.Sleep(time.Minute)
		require.Zero(t, h.gpu(100))
		s := h.sub.Stats()
		require.EqualValues(t, 2, s.Stream.Discarded)
		require.EqualValues(t, 1, s.Resets)
		e.mu.Lock()
		require.Zero(t, e.running)
		e.silent = false
		e.mu.Unlock()
		e.send(frame(4, stored([]uint64{1}, nil, count(1, 4), 4)))
		require.Equal(t, 4, h.gpu(100))
		h.end()
		require.NoError(t, h.sub.Reset())
		require.Zero(t, heldBy(h.ix, h.ep, base, count(1, 100)).GPU)
	})
}

// A payload that was cut on the wire is whole in the engine's memory; one that the
// engine itself has broken is a gap.
func TestUnreadablePayloadIsAskedForAgain(t *testing.T) {
	for name, broken := range map[string]bool{"cut on the wire": false, "broken in the engine": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, c := newEngine(), chain(4)
				e.send(c[0])
				h := start(t, e)
				require.Equal(t, 4, h.gpu(100))
				cut := c[1]
				cut.Payload = cut.Payload[:len(cut.Payload)-1]
				e.live <- cut
				want, view := 16, prefixindex.ViewLive
				if broken {
					c[1] = cut
					want, view = 4, prefixindex.ViewGap
				}
				e.keep(c[1])
				e.send(c[2:]...)
				time.Sleep(time.Minute)
				require.Equal(t, want, h.gpu(100))
				require.Equal(t, view, h.view())
				s := h.sub.Stats()
				require.EqualValues(t, 1, s.Stream.Garbled)
				require.Equal(t, broken, s.Unreadable == 1)
				require.Equal(t, s.Stream.Applied, s.Batches+s.Unreadable)
				h.end()
			})
		})
	}
}

// An event that is malformed may have been a removal.
func TestMalformedEventIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(2)
		e.send(c...)
		h := start(t, e)
		require.Equal(t, prefixindex.ViewLive, h.view())
		e.send(frame(2, dict{"type", "BlockRemoved", "block_hashes", "none"}, stored([]uint64{3}, 2, count(9, 4), 4)))
		require.Equal(t, 12, h.gpu(100))
		require.Equal(t, prefixindex.ViewGap, h.view())
		e.send(frame(3, cleared, dict{"type", "BlockRemoved"}))
		require.Equal(t, prefixindex.ViewGap, h.view())
		e.send(frame(4, cleared))
		require.Equal(t, prefixindex.ViewLive, h.view())

		e.send(frame(5, dict{"type", "BlockRemoved"}))
		require.Equal(t, prefixindex.ViewGap, h.view())
		require.NoError(t, h.sub.Reset())
		require.Equal(t, prefixindex.ViewLive, h.view())
		h.end()
	})
}

// What was lost of a relay's stream may have been any rank's: it is over when all of them
// have been emptied since.
func TestGapOfSeveralRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		h := start(t, kvevents.SourceFunc(e.Receive), func(o *kvevents.SubscriberOptions) { o.Ranks = kvevents.RankPayload })
		ranked := func(seq uint64, rank int, event any) {
			e.live <- kvevents.Frame{Seq: seq, Payload: batchOf(rank, event)}
			synctest.Wait()
		}
		store := func(seq uint64, rank int) { ranked(seq, rank, stored([]uint64{seq + 1}, nil, count(1, 4), 4)) }
		store(0, 0)
		store(1, 1)
		ranked(2, 0, cleared)
		require.Equal(t, prefixindex.ViewLive, h.view())
		store(4, 1)
		ranked(5, 1, cleared)
		require.Equal(t, prefixindex.ViewGap, h.view(), "rank 0 was emptied before the loss")
		ranked(6, 0, cleared)
		require.Equal(t, prefixindex.ViewLive, h.view())
		require.Equal(t, prefixindex.ViewLive, h.ix.View(h.ep, 1))

		_, err := h.ix.Writer(h.ep, 1) // another feeder looks after rank 1 from now on
		require.NoError(t, err)
		store(7, 1)
		store(9, 0)
		require.Equal(t, prefixindex.ViewGap, h.view())
		ranked(10, 0, cleared)
		require.Equal(t, prefixindex.ViewLive, h.view())
		h.end()
	})
}

// Nobody looks after the owner when Run has returned: its view says so whatever the
// numbers said, and a Reset empties the owner, unless another feeder has it by then.
func TestAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(3)
		e.send(c...)
		h := start(t, e)
		require.Equal(t, 12, h.gpu(100))
		h.end()
		require.Equal(t, prefixindex.ViewStale, h.view())
		require.NoError(t, h.sub.Reset())
		require.Equal(t, prefixindex.ViewStale, h.view())
		require.Zero(t, h.gpu(100))

		next, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: h.ix, Endpoint: h.ep, Model: "m", Source: e})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- next.Run(ctx) }()
		require.Equal(t, 12, h.gpu(100))
		require.NoError(t, h.sub.Reset())
		e.send(frame(3, stored([]uint64{4}, 3, count(13, 4), 4)))
		require.Equal(t, 16, h.gpu(100))
		cancel()
		require.NoError(t, <-done)
	})
}

// A stream has ended and waits for a replay to be tried again: a Reset makes that
// needless.
func TestResetEndsTheWaitForAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(4)
		e.refuse = errors.New("refused")
		h := start(t, e, func(o *kvevents.SubscriberOptions) { o.Stream.ReplayBackoff = 30 * time.Second })
		e.live <- c[0]
		e.live <- c[3]
		e.live <- io.EOF
		synctest.Wait()
		began := time.Now()
		require.NoError(t, h.sub.Reset())
		require.NoError(t, <-h.done)
		require.Zero(t, time.Since(began))
	})
}

// A source that reconnects without end fills no queue.
func TestReconnectingWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		block := make(chan struct{})
		h := start(t, e, func(o *kvevents.SubscriberOptions) {
			o.Logger = slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
				if strings.Contains(string(b), "reconnected") {
					<-block // holds up the loop
				}
				return len(b), nil
			}), nil))
		})
		for range 1000 {
			e.live <- kvevents.ErrReconnected
		}
		time.Sleep(time.Second)
		close(block)
		synctest.Wait()
		require.LessOrEqual(t, h.sub.Stats().Stream.Reconnects, uint64(2))
		h.end()
	})
}

// A frame that waits in the queue cannot refill the cache after a Reset.
func TestResetDropsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
		require.NoError(t, err)
		ep, err := ix.Join("a")
		require.NoError(t, err)
		sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: ix, Endpoint: ep, Model: "m", Source: script(nil)})
		require.NoError(t, err)
		require.NoError(t, sub.Reset())
		require.Equal(t, prefixindex.ViewNever, sub.View())
		require.EqualValues(t, 1, sub.Stats().Resets)
	})
}

func TestQueueDropsAndResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(40)
		block := make(chan struct{})
		first := true
		h := start(t, e, func(o *kvevents.SubscriberOptions) {
			o.Queue = kvevents.QueueOptions{Frames: 4, Full: kvevents.QueueDrop}
			o.Clock = func() time.Time {
				if first { // holds up the loop while frames come in
					first = false
					<-block
				}
				return time.Now()
			}
			first = false
		})
		synctest.Wait()
		first = true
		e.send(c...)
		synctest.Wait()
		close(block)
		synctest.Wait()
		require.Positive(t, h.sub.Stats().QueueDropped)
		e.send(frame(40, removed([]uint64{40})))
		require.Equal(t, 39*4, h.gpu(1000))
		require.Zero(t, h.sub.Stats().Stream.Lost)
		require.Equal(t, prefixindex.ViewLive, h.view())
		h.end()
	})
}

func TestQueueBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(40)
		h := start(t, e, func(o *kvevents.SubscriberOptions) { o.Queue = kvevents.QueueOptions{Frames: 1, Bytes: 1} })
		e.send(c...)
		require.Equal(t, 160, h.gpu(1000))
		require.Zero(t, h.sub.Stats().QueueDropped)
		h.end()
	})
}

// An owner that was never heard of is told from one that is empty, and silence is
// noticed where that is asked for.
func TestViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var mu sync.Mutex
		log := slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return text.Write(b)
		}), &slog.HandlerOptions{Level: slog.LevelDebug}))
		frames := make(chan kvevents.Frame)
		h := start(t, kvevents.SourceFunc(func(ctx context.Context) (kvevents.Frame, error) {
			select {
			case f := <-frames:
				return f, nil
			case <-ctx.Done():
				return kvevents.Frame{}, ctx.Err()
			}
		}), func(o *kvevents.SubscriberOptions) { o.Stream.StaleAfter, o.Logger = time.Minute, log })
		time.Sleep(2 * time.Minute)
		require.Equal(t, prefixindex.ViewNever, h.view())
		frames <- frame(0)
		require.Equal(t, prefixindex.ViewLive, h.view())
		time.Sleep(59 * time.Second)
		require.Equal(t, prefixindex.ViewLive, h.view())
		time.Sleep(2 * time.Second)
		require.Equal(t, prefixindex.ViewStale, h.view())
		frames <- frame(2, dict{"type", "New"})
		require.Equal(t, prefixindex.ViewGap, h.view())
		frames <- frame(3, cleared)
		require.Equal(t, prefixindex.ViewLive, h.view())
		frames <- kvevents.Frame{Seq: 4, Payload: []byte("garbage")}
		require.Equal(t, prefixindex.ViewGap, h.view())
		frames <- frame(0)
		require.Equal(t, prefixindex.ViewLive, h.view())
		h.end()
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"nothing heard of the engine yet", "endpoint=a", "tag=New", "payload cannot be read", "new epoch"} {
			require.Contains(t, text.String(), want)
		}
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// After io.EOF a gap that can be filled still is.
func TestEndWaitsForReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := newEngine(), chain(5)
		e.keep(c[:3]...)
		e.send(c[3:]...)
		e.live <- io.EOF
		h := start(t, e)
		require.NoError(t, <-h.done)
		require.Equal(t, 20, heldBy(h.ix, h.ep, base, count(1, 100)).GPU)
	})
}

// Nothing is left behind, however Run ends.
func TestRunLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 100 {
		e := newEngine()
		e.silent = i%2 == 0
		e.send(chain(3)...)
		h := start(t, e, func(o *kvevents.SubscriberOptions) { o.Queue.Frames = 1 })
		if i%3 == 0 {
			e.live <- io.ErrUnexpectedEOF
			time.Sleep(time.Millisecond)
		}
		h.stop()
		if err := <-h.done; err != nil {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
		e.mu.Lock()
		require.Zero(t, e.running)
		e.mu.Unlock()
	}
	for i := 0; i < 1000 && runtime.NumGoroutine() > before; i++ {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// Resets, statistics and frames at once.
func TestSubscriberConcurrently(t *testing.T) {
	e, c := newEngine(), chain(500)
	e.silent = true
	h := start(t, e)
	var all sync.WaitGroup
	var sent atomic.Bool
	all.Go(func() {
		for _, f := range c {
			e.send(f)
			runtime.Gosched()
		}
		sent.Store(true)
	})
	for range 2 {
		all.Go(func() {
			for !sent.Load() {
				require.NoError(t, h.sub.Reset())
				h.sub.Stats()
				h.sub.View()
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool {
		s := h.sub.Stats()
		return s.Batches+s.Stream.Discarded+s.Stream.Duplicates == 500
	}, 5*time.Second, time.Millisecond)
	requireBalance(t, h.sub.Stats().Stream)
	h.end()
}
