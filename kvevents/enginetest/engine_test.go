package enginetest_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
)

func newEngine(t *testing.T, o enginetest.Options) *enginetest.Engine {
	e, err := enginetest.New(o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

func generate(t *testing.T, e *enginetest.Engine, prompt []uint32, maxTokens int) enginetest.Result {
	t.Helper()
	res, err := e.Generate(t.Context(), enginetest.Request{Prompt: prompt, MaxTokens: maxTokens})
	if err != nil {
		t.Error(err) // not require: called from goroutines too
	}
	return res
}

func TestOptions(t *testing.T) {
	for field, o := range map[string]enginetest.Options{
		"Blocks":                 {Blocks: -1},
		"BlockTokens":            {BlockTokens: -1},
		"MaxModelTokens":         {Blocks: 10, BlockTokens: 16, MaxModelTokens: 161},
		"PrefillTokensPerSecond": {PrefillTokensPerSecond: -1},
		"DecodeStep":             {DecodeStep: -time.Second},
		"MaxRunning":             {MaxRunning: -1},
		"Rank":                   {Rank: -1},
		"ReplayBuffer":           {ReplayBuffer: -1},
		"Wire.Form":              {Wire: enginetest.Wire{Form: 9}},
		"Wire.Digests":           {Wire: enginetest.Wire{Form: enginetest.FormFirst, Digests: true}},
		"Adapters[1]":            {Adapters: []string{"a", "a"}},
		"Adapters[0]":            {Model: "m", Adapters: []string{"m"}},
	} {
		_, err := enginetest.New(o)
		require.ErrorIs(t, err, enginetest.ErrOptions, field)
		require.ErrorContains(t, err, field)
	}
	o := newEngine(t, enginetest.Options{}).Options()
	require.Equal(t, 16384, o.Blocks)
	require.Equal(t, 131072, o.MaxModelTokens)
}

// The stated model of time, in a bubble of package time's clock.
func TestTimeModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * time.Millisecond, MaxRunning: 2})
		start := time.Now()
		at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

		// 160 tokens at 1000/s, then 4 steps.
		res := generate(t, e, seq(1, 160), 5)
		require.Equal(t, at(160), res.FirstToken)
		require.Equal(t, at(240), res.Finished)
		require.Equal(t, at(240), time.Now())
		require.Len(t, res.Tokens, 5)

		// Warm: of the prompt's 10 blocks the last is computed again.
		res = generate(t, e, seq(1, 160), 1)
		require.Equal(t, 144, res.CachedTokens)
		require.Equal(t, at(256), res.FirstToken)
		require.Equal(t, at(256), res.Finished)

		// Three at once, two may run: prefills one after the other, and the
		// third waits for the first to finish.
		var wg sync.WaitGroup
		got := make([]enginetest.Result, 3)
		for i := range got {
			wg.Go(func() { got[i] = generate(t, e, seq(1000*(i+1), 100), 11) })
			synctest.Wait() // one after the other, at the same instant
		}
		s := e.Stats()
		require.Equal(t, 1, s.Running)
		require.Equal(t, 2, s.Waiting)
		wg.Wait()
		require.Equal(t, at(256+100), got[0].FirstToken)
		require.Equal(t, at(256+300), got[0].Finished)
		require.Equal(t, at(256+200), got[1].FirstToken)
		require.Equal(t, at(256+400), got[1].Finished)
		require.Equal(t, at(256+300+100), got[2].FirstToken)
		require.Equal(t, at(256+300+300), got[2].Finished)
	})
}

// manualClock moves when told to; timers run on the caller's goroutine.
type manualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*manualTimer]bool
}

type manualTimer struct {
	at time.Time
	f  func()
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{at: c.now.Add(d), f: f}
	c.timers[t] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		armed := c.timers[t]
		delete(c.timers, t)
		return armed
	}
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for t := range c.timers {
		if !t.at.After(c.now) {
			due = append(due, t.f)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// A clock that jumps over many events does not change when they happened.
func TestInjectedClock(t *testing.T) {
	start := time.Unix(1750000000, 0)
	clock := &manualClock{now: start, timers: make(map[*manualTimer]bool)}
	e := newEngine(t, enginetest.Options{Clock: clock, PrefillTokensPerSecond: 1000})
	done := make(chan enginetest.Result)
	go func() { done <- generate(t, e, seq(1, 100), 33) }()
	require.Eventually(t, func() bool { return e.Stats().Running == 1 }, 5*time.Second, time.Millisecond)

	clock.advance(99 * time.Millisecond)
	require.Zero(t, e.Stats().GeneratedTokens)
	require.Empty(t, e.Published(0))
	clock.advance(time.Hour)
	res := <-done
	require.Equal(t, start.Add(100*time.Millisecond), res.FirstToken)
	require.Equal(t, start.Add(420*time.Millisecond), res.Finished)
	// One batch for the prompt, one for each block the reply filled: 132 of
	// the 133 tokens are computed.
	require.Len(t, e.Published(0), 3)
	require.Empty(t, clock.timers)
}

// Blocks run out while decoding: the request admitted last is preempted, later
// recomputed, and still gets its whole reply, the same as without.
func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{BlockTokens: 4, Blocks: 12, DecodeStep: time.Millisecond})
		ample := newEngine(t, enginetest.Options{BlockTokens: 4, DecodeStep: time.Millisecond})
		var wg sync.WaitGroup
		got := make([]enginetest.Result, 3)
		for i := range got {
			wg.Go(func() { got[i] = generate(t, e, seq(1000*i, 12), 30) })
		}
		wg.Wait()
		for i := range got {
			require.Equal(t, generate(t, ample, seq(1000*i, 12), 30).Tokens, got[i].Tokens)
		}
		s := e.Stats()
		require.Positive(t, s.Preemptions)
		require.EqualValues(t, 3, s.Finished)
		require.EqualValues(t, 90, s.GeneratedTokens)
		require.EqualValues(t, 36, s.PromptTokens)
		require.Equal(t, 12, s.FreeBlocks)
	})
}

// A request in its prefill was admitted last, so it is the one to go; it is
// admitted again when its blocks can be had, and only then counts as cached.
func TestPreemptionOfAPrefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{BlockTokens: 4, Blocks: 8, PrefillTokensPerSecond: 1000, DecodeStep: time.Millisecond})
		start := time.Now()
		var first, second enginetest.Result
		var wg sync.WaitGroup
		wg.Go(func() { first = generate(t, e, seq(0, 12), 8) })
		synctest.Wait()
		wg.Go(func() { second = generate(t, e, seq(100, 20), 2) })
		wg.Wait()
		// At 12 ms the first has a token and all 8 blocks are taken; at 13 ms it
		// needs a fourth block, and has its 8 tokens at 19 ms.
		require.Equal(t, 12*time.Millisecond, first.FirstToken.Sub(start))
		require.Equal(t, 19*time.Millisecond, first.Finished.Sub(start))
		require.Equal(t, 39*time.Millisecond, second.FirstToken.Sub(start))
		s := e.Stats()
		require.EqualValues(t, 1, s.Preemptions)
		require.EqualValues(t, 32, s.PromptTokens)
		require.EqualValues(t, 52, s.ComputedTokens, "admitted twice")
	})
}

// Random traffic on pools that are always too small: preempted or not, every
// request ends with the reply that its prompt has, no sooner than its prefill
// allows, and nothing is left behind.
func TestScarcity(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			const step = time.Millisecond
			e := newEngine(t, enginetest.Options{BlockTokens: 4, Blocks: 12 + rng.IntN(12), MaxModelTokens: 48, DecodeStep: step, MaxRunning: 8})
			ample := newEngine(t, enginetest.Options{})
			prompts := make([][]uint32, 40)
			results := make([]enginetest.Result, len(prompts))
			replies := make([]int, len(prompts))
			var wg sync.WaitGroup
			for i := range prompts {
				prompts[i], replies[i] = seq(100*rng.IntN(4), 1+rng.IntN(24)), 1+rng.IntN(24)
				wg.Go(func() { results[i] = generate(t, e, prompts[i], replies[i]) })
				time.Sleep(time.Duration(rng.IntN(5)) * step)
			}
			wg.Wait()
			for i, res := range results {
				require.Equal(t, generate(t, ample, prompts[i], replies[i]).Tokens, res.Tokens)
				uncached := len(prompts[i]) - res.CachedTokens // at 10 a millisecond
				require.GreaterOrEqual(t, res.FirstToken.Sub(res.Arrived), time.Duration(uncached)*step/10)
				require.LessOrEqual(t, res.CachedTokens, (len(prompts[i])-1)/4*4)
			}
			s := e.Stats()
			require.EqualValues(t, len(prompts), s.Finished)
			require.Equal(t, e.Options().Blocks, s.FreeBlocks)
			require.Positive(t, s.Preemptions)
		})
	}
}

// A request whose context ends leaves at once, whether it waits, is in its
// prefill or decodes, and the next one has its place and blocks.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{PrefillTokensPerSecond: 1000, MaxRunning: 1})
		start := time.Now()
		launch := func(first int, d time.Duration) chan error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			done := make(chan error, 1)
			go func() {
				defer cancel()
				_, err := e.Generate(ctx, enginetest.Request{Prompt: seq(first, 100), MaxTokens: 1000})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		decoding := launch(0, 150*time.Millisecond)
		waiting := launch(1000, 50*time.Millisecond)
		prefilling := launch(2000, 200*time.Millisecond) // admitted at 150 ms
		last := launch(3000, time.Hour)
		require.ErrorIs(t, <-waiting, context.DeadlineExceeded)
		require.Equal(t, 2, e.Stats().Waiting)
		require.ErrorIs(t, <-decoding, context.DeadlineExceeded)
		require.ErrorIs(t, <-prefilling, context.DeadlineExceeded)
		require.Equal(t, 200*time.Millisecond, time.Since(start))
		require.NoError(t, <-last)
		require.Equal(t, 300*time.Millisecond+999*10*time.Millisecond, time.Since(start))

		s := e.Stats()
		require.EqualValues(t, 3, s.Aborted)
		require.EqualValues(t, 1, s.Finished)
		require.Equal(t, 16384, s.FreeBlocks)
		require.Zero(t, e.Holds(seq(2000, 100), enginetest.Scope{}), "its prefill never ended")
		require.Equal(t, 96, e.Holds(seq(0, 100), enginetest.Scope{}))
		require.Equal(t, 96, e.CachedTokens(seq(0, 100), enginetest.Scope{}))
		require.Equal(t, 80, e.CachedTokens(seq(0, 96), enginetest.Scope{}))
	})
}

func TestGenerateRefuses(t *testing.T) {
	e := newEngine(t, enginetest.Options{Blocks: 4, Adapters: []string{"a"}})
	for _, q := range []enginetest.Request{
		{MaxTokens: 1},
		{Prompt: seq(1, 4)},
		{Prompt: seq(1, 4), MaxTokens: -1},
		{Prompt: seq(1, 64), MaxTokens: 1},
		{Prompt: seq(1, 4), MaxTokens: math.MaxInt},
	} {
		_, err := e.Generate(t.Context(), q)
		require.ErrorIs(t, err, enginetest.ErrRequest)
	}
	_, err := e.Generate(t.Context(), enginetest.Request{Model: "b", Prompt: seq(1, 4), MaxTokens: 1})
	require.ErrorIs(t, err, enginetest.ErrModel)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Generate(ctx, enginetest.Request{Prompt: seq(1, 4), MaxTokens: 1})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, e.Stats().Requests)
}

func receive(t *testing.T, s *enginetest.Subscription) kvevents.Frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	f, err := s.Receive(ctx)
	require.NoError(t, err)
	return f
}

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{Topic: "kv@a@m", Rank: 2, ReplayBuffer: 3, Blocks: 64})
		generate(t, e, seq(0, 32), 1)
		late := e.Subscribe(2)
		require.Zero(t, late.Buffered(), "what was before is missed")
		generate(t, e, seq(0, 33), 1) // nothing new is cached: no batch
		require.Zero(t, late.Buffered())
		for i := range 4 {
			generate(t, e, seq(100*(i+1), 32), 1)
		}
		require.Equal(t, 2, late.Buffered())
		require.EqualValues(t, 2, late.Dropped())

		f := receive(t, late)
		require.EqualValues(t, 1, f.Seq)
		require.Equal(t, "kv@a@m", f.Topic)
		require.EqualValues(t, 2, f.Payload[len(f.Payload)-1], "rank")
		f.Payload[0] = 0 // ours to change
		require.EqualValues(t, 2, receive(t, late).Seq)

		var seqs []uint64
		for _, f := range e.Published(0) {
			require.EqualValues(t, 0x93, f.Payload[0])
			seqs = append(seqs, f.Seq)
		}
		require.Equal(t, []uint64{2, 3, 4}, seqs)
		require.Len(t, e.Published(4), 1)
		require.Empty(t, e.Published(5))

		require.NoError(t, e.ResetPrefixCache())
		require.EqualValues(t, 5, receive(t, late).Seq)
		require.Empty(t, e.Resident())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := late.Receive(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		// Closing wakes a receiver; what was buffered comes first.
		require.NoError(t, e.ResetPrefixCache())
		other := e.Subscribe(0)
		woken := make(chan error)
		go func() {
			_, err := other.Receive(context.Background())
			woken <- err
		}()
		synctest.Wait()
		e.Close()
		require.ErrorIs(t, <-woken, enginetest.ErrClosed)
		require.EqualValues(t, 6, receive(t, late).Seq)
		_, err = late.Receive(context.Background())
		require.ErrorIs(t, err, enginetest.ErrClosed)
		_, err = e.Subscribe(0).Receive(context.Background())
		require.ErrorIs(t, err, enginetest.ErrClosed)
		late.Close()
	})
}

func TestSubscriptionClose(t *testing.T) {
	e := newEngine(t, enginetest.Options{})
	s := e.Subscribe(0)
	s.Close()
	s.Close()
	_, err := s.Receive(t.Context())
	require.ErrorIs(t, err, enginetest.ErrClosed)
	require.NoError(t, e.ResetPrefixCache())
	require.Zero(t, s.Buffered())
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{})
		sub := e.Subscribe(0)
		generate(t, e, seq(0, 64), 1)
		generate(t, e, seq(500, 64), 1)
		before := e.Resident()
		require.Len(t, before, 8)
		receive(t, sub)
		require.EqualValues(t, 1, receive(t, sub).Seq)

		failed := make(chan error, 2)
		for range 2 { // one is in its prefill, one waits
			go func() {
				_, err := e.Generate(t.Context(), enginetest.Request{Prompt: seq(0, 1000), MaxTokens: 5})
				failed <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, e.Restart())
		require.ErrorIs(t, <-failed, enginetest.ErrRestarted)
		require.ErrorIs(t, <-failed, enginetest.ErrRestarted)
		require.Empty(t, e.Resident())
		require.Empty(t, e.Published(0))
		require.Zero(t, sub.Buffered(), "a dead process says nothing")

		res := generate(t, e, seq(0, 64), 1)
		require.Zero(t, res.CachedTokens)
		require.Zero(t, receive(t, sub).Seq)
		for h := range e.Resident() {
			require.NotContains(t, before, h)
		}
		s := e.Stats()
		require.EqualValues(t, 1, s.Restarts)
		require.EqualValues(t, 5, s.Requests)
		require.EqualValues(t, 3, s.Finished)
		require.EqualValues(t, 2, s.Aborted)
		require.EqualValues(t, 3, s.Batches)
	})
}

// With a seed, equal histories publish equal streams, life by life.
func TestSeed(t *testing.T) {
	stream := func(o enginetest.Options) (lives [2][]kvevents.Frame) {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, o)
			for i := range lives {
				generate(t, e, seq(0, 64), 40)
				lives[i] = e.Published(0)
				require.NoError(t, e.Restart())
			}
		})
		return lives
	}
	a, b := stream(enginetest.Options{Seed: 5}), stream(enginetest.Options{Seed: 5})
	require.Equal(t, a, b)
	require.NotEqual(t, a[0], a[1])
	require.NotEqual(t, a, stream(enginetest.Options{Seed: 6}))
	require.NotEqual(t, stream(enginetest.Options{}), stream(enginetest.Options{}))
}

// Many requests from many goroutines, on the real clock, some cancelled, with
// restarts and readers among them. In the end everything is accounted for and
// no goroutine is left.
func TestConcurrentUse(t *testing.T) {
	before := runtime.NumGoroutine()
	e := newEngine(t, enginetest.Options{
		Blocks: 256, PrefillTokensPerSecond: 1e6, DecodeStep: time.Millisecond, MaxRunning: 16, MaxModelTokens: 512,
	})
	sub := e.Subscribe(0)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			ctx := t.Context()
			if i%5 == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(50))*time.Millisecond)
				defer cancel()
			}
			n := 0
			res, err := e.Generate(ctx, enginetest.Request{
				Prompt: seq(1000*rng.IntN(8), 1+rng.IntN(400)), MaxTokens: 1 + rng.IntN(40),
				OnToken: func(uint32) { n++ },
			})
			if err == nil && len(res.Tokens) != n {
				t.Errorf("%d tokens in the result, %d seen", len(res.Tokens), n)
			}
			e.Stats()
			e.Holds(seq(0, 100), enginetest.Scope{})
			if i%100 == 99 {
				_ = e.Restart()
			}
		})
	}
	wg.Wait()
	s := e.Stats()
	require.Equal(t, s.Requests, s.Finished+s.Aborted)
	require.Equal(t, 256, s.FreeBlocks)
	require.EqualValues(t, s.Batches, sub.Buffered())
	e.Close()
	for range 1000 { // timers just fired are on their way out
		if runtime.NumGoroutine() <= before {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, enginetest.Options{})
		failed := make(chan error)
		go func() {
			_, err := e.Generate(context.Background(), enginetest.Request{Prompt: seq(0, 1000), MaxTokens: 5})
			failed <- err
		}()
		synctest.Wait()
		e.Close()
		e.Close()
		require.ErrorIs(t, <-failed, enginetest.ErrClosed)
		_, err := e.Generate(context.Background(), enginetest.Request{Prompt: seq(0, 10), MaxTokens: 5})
		require.ErrorIs(t, err, enginetest.ErrClosed)
		require.ErrorIs(t, e.Restart(), enginetest.ErrClosed)
		require.ErrorIs(t, e.ResetPrefixCache(), enginetest.ErrClosed)
		require.Equal(t, 16384, e.Stats().FreeBlocks)
	})
}

func ExampleNew() {
	engine, err := enginetest.New(enginetest.Options{PrefillTokensPerSecond: 1e6, DecodeStep: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	events := engine.Subscribe(0)

	ctx := context.Background()
	prompt := enginetest.Tokenize("You are a careful assistant who answers in one short sentence.")
	for range 2 {
		res, err := engine.Generate(ctx, enginetest.Request{Prompt: prompt, MaxTokens: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d prompt tokens, %d from the cache\n", len(prompt), res.CachedTokens)
	}
	frame, err := events.Receive(ctx)
	fmt.Printf("batch %d, error %v\n", frame.Seq, err)
	// Output:
	// 25 prompt tokens, 0 from the cache
	// 25 prompt tokens, 16 from the cache
	// batch 0, error <nil>
}
