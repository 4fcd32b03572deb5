package enginemetrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// roundTripper is a transport without sockets, which a bubble's clock would not see.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, page string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(page))}, nil
}

// run scrapes with that transport while body runs, in a bubble.
func run(t *testing.T, o enginemetrics.Options, transport roundTripper, body func(t *testing.T, s *enginemetrics.Scraper)) {
	synctest.Test(t, func(t *testing.T) {
		o.Client = &http.Client{Transport: transport}
		s, err := enginemetrics.New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(t, <-done)
		}()
		body(t, s)
	})
}

func add(t *testing.T, s *enginemetrics.Scraper, url string) *enginemetrics.Target {
	t.Helper()
	target, err := s.Add(enginemetrics.TargetOptions{URL: url})
	require.NoError(t, err)
	return target
}

func TestOptionsAreNamed(t *testing.T) {
	for want, o := range map[string]enginemetrics.Options{
		"Interval is 1ms, want 10ms to 1h0m0s": {Interval: time.Millisecond},
		"Timeout is 2m0s, want 1ms to 1m0s":    {Timeout: 2 * time.Minute},
		"StaleAfter is -1ns":                   {StaleAfter: -1},
		"Concurrency is -1, want 1 to 1024":    {Concurrency: -1},
		"MaxBytes is 10, want 1000":            {MaxBytes: 10},
		"Jitter is 2, want at most 1":          {Jitter: 2},
		"Jitter is NaN":                        {Jitter: math.NaN()},
	} {
		_, err := enginemetrics.New(o)
		require.ErrorIs(t, err, enginemetrics.ErrOption)
		require.ErrorContains(t, err, want)
	}
	s, err := enginemetrics.New(enginemetrics.Options{})
	require.NoError(t, err)
	for _, url := range []string{"", "10.0.0.7:8000/metrics", "ftp://a/metrics", "http:///metrics", "http://a b/"} {
		_, err := s.Add(enginemetrics.TargetOptions{URL: url})
		require.ErrorIs(t, err, enginemetrics.ErrOption, url)
	}
}

func TestSignalsHaveTheTimeOfTheScrape(t *testing.T) {
	var n atomic.Int64
	run(t, enginemetrics.Options{Jitter: -1, Seed: 1}, func(*http.Request) (*http.Response, error) {
		time.Sleep(50 * time.Millisecond)
		return answer(200, fmt.Sprintf("vllm:num_requests_waiting %d\n", n.Add(1)))
	}, func(t *testing.T, s *enginemetrics.Scraper) {
		target := add(t, s, "http://engine/metrics")
		require.Equal(t, scorer.Signals{}, target.Signals(), "never read")
		require.Nil(t, target.Report())
		began := time.Now()
		time.Sleep(60 * time.Millisecond)
		require.Equal(t, scorer.Signals{Waiting: scorer.Known(1), At: began}, target.Signals())
		require.NoError(t, target.Err())

		time.Sleep(10 * time.Second)
		st := s.Stats()
		require.InDelta(t, 11, st.Scrapes, 1, "each second")
		require.Equal(t, 2*st.Scrapes, st.Missing)
		require.Equal(t, 50*time.Millisecond*time.Duration(st.Scrapes), st.Spent)
		require.Equal(t, 1, st.Targets)
		require.Zero(t, st.Stale+st.Unread+st.Asleep)
		target.Remove()
		target.Remove()
		time.Sleep(10 * time.Second)
		require.Equal(t, st.Scrapes, s.Stats().Scrapes)
		require.Zero(t, s.Stats().Targets)
		known, _ := target.Signals().Waiting.Get()
		require.EqualValues(t, st.Scrapes, known, "the last report remains")
	})
}

func TestStampedSamplesAreAsOldAsTheySay(t *testing.T) {
	run(t, enginemetrics.Options{}, func(r *http.Request) (*http.Response, error) {
		at := time.Now().Add(-time.Minute)
		if r.URL.Host == "ahead" {
			at = time.Now().Add(time.Hour)
		}
		return answer(200, fmt.Sprintf("vllm:num_requests_waiting 1 %d\n", at.UnixMilli()))
	}, func(t *testing.T, s *enginemetrics.Scraper) {
		behind, ahead := add(t, s, "http://behind"), add(t, s, "http://ahead")
		began := time.Now()
		synctest.Wait()
		require.Equal(t, began.Add(-time.Minute).UnixMilli(), behind.Signals().At.UnixMilli())
		require.Equal(t, began, ahead.Signals().At)
		require.Equal(t, 1, s.Stats().Stale)
	})
}

func TestFailuresByReason(t *testing.T) {
	pages := map[string]func(r *http.Request) (*http.Response, error){
		"hangs":     func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"refuses":   func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"status":    func(*http.Request) (*http.Response, error) { return answer(503, "") },
		"large":     func(*http.Request) (*http.Response, error) { return answer(200, strings.Repeat("# \n", 1000)) },
		"truncated": func(*http.Request) (*http.Response, error) { return answer(200, "vllm:num_requests_waiting 1") },
		"broken": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader(three), broken{}))}, nil
		},
		"foreign": func(*http.Request) (*http.Response, error) { return answer(200, "# none\n") },
	}
	for name, want := range map[string]struct {
		stats enginemetrics.Stats
		err   error
	}{
		"hangs":     {enginemetrics.Stats{Timeouts: 1}, context.DeadlineExceeded},
		"refuses":   {enginemetrics.Stats{Transport: 1}, nil},
		"status":    {enginemetrics.Stats{Status: 1}, enginemetrics.ErrStatus},
		"large":     {enginemetrics.Stats{TooLarge: 1}, enginemetrics.ErrTooLarge},
		"truncated": {enginemetrics.Stats{Truncated: 1}, enginemetrics.ErrTruncated},
		"broken":    {enginemetrics.Stats{Truncated: 1}, io.ErrUnexpectedEOF},
		"foreign":   {enginemetrics.Stats{Foreign: 1}, enginemetrics.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			run(t, enginemetrics.Options{MaxBytes: 1000, Jitter: -1}, func(r *http.Request) (*http.Response, error) {
				if calls.Add(1) == 1 {
					return answer(200, three)
				}
				return pages[name](r)
			}, func(t *testing.T, s *enginemetrics.Scraper) {
				began := time.Now()
				target := add(t, s, "http://engine/metrics")
				for time.Sleep(time.Millisecond); target.Err() == nil; {
					time.Sleep(10 * time.Millisecond)
				}
				st := s.Stats()
				require.EqualValues(t, 2, st.Scrapes)
				st.Bytes, st.Spent, st.Scrapes, st.Targets = 0, 0, 0, 0
				require.Equal(t, want.stats, st)
				require.Error(t, target.Err())
				if want.err != nil {
					require.ErrorIs(t, target.Err(), want.err)
				}
				want := signals(1, 2, 0.5)
				want.At = began
				require.Equal(t, want, target.Signals(), "the last good ones, and their age")
				time.Sleep(10 * time.Second)
				require.Equal(t, 1, s.Stats().Stale)
			})
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Hung targets do not keep the others from being read.
func TestHungTargetsAreAskedLessOften(t *testing.T) {
	var hung, up atomic.Bool
	hung.Store(true)
	run(t, enginemetrics.Options{Concurrency: 4, Seed: 1}, func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "hung" && hung.Load() {
			up.Store(true)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return answer(200, three)
	}, func(t *testing.T, s *enginemetrics.Scraper) {
		var good, bad []*enginemetrics.Target
		for range 20 {
			bad = append(bad, add(t, s, "http://hung"))
			good = append(good, add(t, s, "http://good"))
		}
		time.Sleep(30 * time.Second)
		for _, target := range good {
			require.Less(t, time.Since(target.Signals().At), 5*time.Second)
		}
		st := s.Stats()
		require.Equal(t, 20, st.Unread)
		require.Less(t, st.Timeouts, uint64(20*8))
		require.Positive(t, st.Late, "four workers are too few for that")

		hung.Store(false)
		time.Sleep(10 * time.Second)
		before := s.Stats().Scrapes
		time.Sleep(10 * time.Second)
		require.InDelta(t, 400, s.Stats().Scrapes-before, 25, "the full rate again")
		for _, target := range bad {
			require.NoError(t, target.Err())
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	var now, most atomic.Int64
	run(t, enginemetrics.Options{Concurrency: 3}, func(*http.Request) (*http.Response, error) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(100 * time.Millisecond)
		now.Add(-1)
		return answer(200, three)
	}, func(t *testing.T, s *enginemetrics.Scraper) {
		for range 20 {
			add(t, s, "http://engine")
		}
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 3, most.Load())
	})
}

// Targets that were added together do not stay together, and a seed repeats it.
func TestScrapesSpread(t *testing.T) {
	times := func() (at []time.Duration) {
		var mu sync.Mutex
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s, err := enginemetrics.New(enginemetrics.Options{Seed: 7, Concurrency: 1, Client: &http.Client{
				Transport: roundTripper(func(*http.Request) (*http.Response, error) {
					mu.Lock()
					at = append(at, time.Since(began))
					mu.Unlock()
					return answer(200, three)
				}),
			}})
			require.NoError(t, err)
			for range 50 {
				add(t, s, "http://engine")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			require.NoError(t, s.Run(ctx))
		})
		return at
	}
	at := times()
	slots := map[time.Duration]int{}
	for _, d := range at[50:] {
		slots[d/(100*time.Millisecond)]++
	}
	for _, n := range slots {
		require.Less(t, n, 15)
	}
	require.Equal(t, at, times())
}

func TestResets(t *testing.T) {
	const awake, asleep = "vllm:engine_sleep_state{sleep_state=\"awake\",engine=\"%d\"} 1\n",
		"vllm:engine_sleep_state{sleep_state=\"discard_all\",engine=\"%d\"} 1\n"
	state := func(format string, engine int) string { return fmt.Sprintf(format, engine) }
	started := func(at float64) string { return fmt.Sprintf("process_start_time_seconds %g\n", at) }
	for name, c := range map[string]struct {
		pages []string
		want  []enginemetrics.Reset
	}{
		"nothing happens":        {pages: []string{started(5) + state(awake, 0), started(5) + state(awake, 0)}},
		"restart":                {[]string{started(5), started(6), started(6)}, []enginemetrics.Reset{enginemetrics.Restarted}},
		"restart, then another":  {[]string{started(5), started(6), started(7)}, []enginemetrics.Reset{enginemetrics.Restarted, enginemetrics.Restarted}},
		"start time not said":    {pages: []string{"", started(5), "", started(5)}},
		"two processes, a port":  {[]string{started(5), started(6), started(5), started(6)}, []enginemetrics.Reset{enginemetrics.Restarted}},
		"sleep":                  {[]string{state(awake, 0), state(asleep, 0), state(asleep, 0), state(awake, 0)}, []enginemetrics.Reset{enginemetrics.FellAsleep}},
		"asleep from the first":  {[]string{state(asleep, 0)}, []enginemetrics.Reset{enginemetrics.FellAsleep}},
		"one rank, then another": {[]string{state(asleep, 0) + state(awake, 1), state(asleep, 0) + state(asleep, 1)}, []enginemetrics.Reset{enginemetrics.FellAsleep, enginemetrics.FellAsleep}},
		"restart asleep":         {[]string{started(5), started(6) + state(asleep, 0)}, []enginemetrics.Reset{enginemetrics.Restarted}},
	} {
		t.Run(name, func(t *testing.T) {
			var next atomic.Int64
			var log bytes.Buffer
			run(t, enginemetrics.Options{Jitter: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))},
				func(*http.Request) (*http.Response, error) {
					i := min(int(next.Add(1)), len(c.pages)) - 1
					return answer(200, three+c.pages[i])
				}, func(t *testing.T, s *enginemetrics.Scraper) {
					var got []enginemetrics.Reset
					target, err := s.Add(enginemetrics.TargetOptions{
						URL: "http://engine", OnReset: func(r enginemetrics.Reset) { got = append(got, r) },
					})
					require.NoError(t, err)
					time.Sleep(6 * time.Second)
					synctest.Wait()
					require.Equal(t, c.want, got)
					st := s.Stats()
					require.EqualValues(t, len(got), st.Restarts+st.Sleeps)
					require.Equal(t, len(got), strings.Count(log.String(), "cache is void"))
					require.Equal(t, target.Report().Asleep > 0, st.Asleep > 0)
				})
		})
	}
}

func TestRunStopsCleanly(t *testing.T) {
	run(t, enginemetrics.Options{Timeout: time.Minute}, func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}, func(t *testing.T, s *enginemetrics.Scraper) {
		for range 40 {
			add(t, s, "http://hung")
		}
		time.Sleep(time.Second)
		require.ErrorIs(t, s.Run(t.Context()), enginemetrics.ErrRunning)
		require.Zero(t, s.Stats().Scrapes)
	}) // the bubble fails if a goroutine is left
}

func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := enginemetrics.New(enginemetrics.Options{Client: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, three) }),
		}})
		require.NoError(t, err)
		add(t, s, "http://engine")
		for range 2 {
			before := s.Stats().Scrapes
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			require.NoError(t, s.Run(ctx))
			cancel()
			require.Greater(t, s.Stats().Scrapes, before)
		}
	})
}

// Over sockets: an engine that works, is restarted, and goes away.
func TestEngineTest(t *testing.T) {
	engine, err := enginetest.New(enginetest.Options{})
	require.NoError(t, err)
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()
	s, err := enginemetrics.New(enginemetrics.Options{Interval: 10 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	resets := make(chan enginemetrics.Reset, 10)
	header := http.Header{"Authorization": {"Bearer k"}}
	target, err := s.Add(enginemetrics.TargetOptions{
		URL: server.URL + "/metrics", Header: header, OnReset: func(r enginemetrics.Reset) { resets <- r },
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return target.Report() != nil }, 5*time.Second, time.Millisecond)
	require.Equal(t, 16384, target.Report().Blocks)
	time.Sleep(5 * time.Millisecond) // the start time has a resolution of 1 ms
	require.NoError(t, engine.Restart())
	require.Equal(t, enginemetrics.Restarted, <-resets)
	engine.Close()
	require.Eventually(t, func() bool { return s.Stats().Status > 0 }, 5*time.Second, time.Millisecond)
	require.ErrorIs(t, target.Err(), enginemetrics.ErrStatus)
	cancel()
	require.NoError(t, <-done)
}

func TestConcurrentUse(t *testing.T) {
	s, err := enginemetrics.New(enginemetrics.Options{Interval: 10 * time.Millisecond, Client: &http.Client{
		Transport: roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, three) }),
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				target, err := s.Add(enginemetrics.TargetOptions{URL: "http://engine"})
				if err != nil {
					t.Error(err)
					return
				}
				for target.Report() == nil && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				_, _, _ = target.Signals(), target.Err(), s.Stats()
				target.Remove()
			}
		})
	}
	require.NoError(t, s.Run(ctx))
	wg.Wait()
	require.Zero(t, s.Stats().Targets)
}
