package soak_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

const engines = 8

// Whatever goes wrong between engines and the index: at quiet points an owner is its
// engine's pool or says that it is not, and soon after it ends all are.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	length, seed := settings(t)
	t.Logf("WARMROUTE_SOAK=%v WARMROUTE_SOAK_SEED=%d", length, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: blockTokens})
	require.NoError(t, err)
	ways := transports(t)

	followers := make([]*follower, engines)
	for i := range followers {
		followers[i] = newFollower(t, ix, i, seed, ways[i/2%len(ways)])
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, f := range followers {
		running.Go(func() {
			if err := f.sub.Run(ctx); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		})
	}
	defer running.Wait()
	defer stop()

	var flat flatness
	began := time.Now()
	for last := false; !last; {
		chaos, end := context.WithTimeout(ctx, time.Duration(300+r.IntN(1200))*time.Millisecond)
		tame := r.IntN(2) == 0
		all(t, followers, func(f *follower) error { return f.chaos(chaos, tame) })
		end()
		all(t, followers, (*follower).quiet)
		last = time.Since(began) >= length
		all(t, followers, func(f *follower) error {
			const long = 1000 // batches of a life, which the history keeps
			live := ix.View(f.ep, 0) == prefixindex.ViewLive
			if !(last && !live) && f.past.next() < long && (live || f.trouble.IntN(2) > 0) {
				return nil
			}
			if err := f.heal(); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if err := f.quiet(); err != nil {
				return err
			}
			if view := ix.View(f.ep, 0); view != prefixindex.ViewLive {
				return f.failure(f.snapshot(), "view is %v after the cache was emptied", view)
			}
			return nil
		})
		flat.measure()
	}
	report(t, followers, time.Since(began), &flat)
	flat.check(t)
	for _, f := range followers {
		// Epochs that no log told of, but the first and those of a Reset, would spoil toBlame.
		s := f.sub.Stats()
		require.LessOrEqual(t, s.Applier.Blocks.Epochs, f.tap.begins+s.Resets+1, f.name)
	}
}

// settings returns how long, and with which seed.
func settings(t *testing.T) (length time.Duration, seed uint64) {
	length, seed = 20*time.Second, rand.Uint64()
	var err error
	if text := os.Getenv("WARMROUTE_SOAK"); text != "" {
		length, err = time.ParseDuration(text)
		require.NoError(t, err, "WARMROUTE_SOAK")
	}
	if text := os.Getenv("WARMROUTE_SOAK_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "WARMROUTE_SOAK_SEED")
	}
	return length, seed
}

// all does it for all followers at once.
func all(t *testing.T, followers []*follower, do func(f *follower) error) {
	t.Helper()
	errs := make([]error, len(followers))
	var group sync.WaitGroup
	for i, f := range followers {
		group.Go(func() { errs[i] = do(f) })
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// freeAddress returns an address to listen at later, below the ports that dialling takes.
func freeAddress(t *testing.T) string {
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err == nil {
			require.NoError(t, ln.Close())
			return "tcp://" + ln.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// flatness is what the process has at each quiet point.
type flatness struct{ goroutines, heap []int }

func (fl *flatness) measure() {
	least := runtime.NumGoroutine()
	for range 200 { // those of a connection that ended just now go
		time.Sleep(time.Millisecond)
		least = min(least, runtime.NumGoroutine())
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	fl.goroutines = append(fl.goroutines, least)
	fl.heap = append(fl.heap, int(m.HeapAlloc))
}

// check compares the last third with the first.
func (fl *flatness) check(t *testing.T) {
	n := len(fl.heap)
	third := n / 3
	if third == 0 {
		return
	}
	require.LessOrEqual(t, slices.Min(fl.goroutines[n-third:]), slices.Max(fl.goroutines[:third]), "goroutines: %v", fl.goroutines)
	if n < 15 {
		return // the first are too early for all to be as large as it gets
	}
	const slack = 8 << 20
	require.Less(t, slices.Min(fl.heap[n-third:]), slices.Max(fl.heap[:third])+slack, "bytes of heap: %v", fl.heap)
}

func report(t *testing.T, followers []*follower, took time.Duration, fl *flatness) {
	var sum tally
	faults := map[string]int{}
	var batches, frames, applied, recovered, lost, unreadable, replays, restarts, hidden, unchecked uint64
	for _, f := range followers {
		s := f.snapshot()
		batches += f.engine.Stats().Batches
		frames += s.sub.Stream.Frames
		applied += s.sub.Batches
		recovered += s.sub.Stream.Recovered
		lost += s.sub.Stream.Lost
		unreadable += s.sub.Unreadable
		replays += s.sub.Stream.Replays
		restarts += s.sub.Stream.Restarts
		hidden += s.sub.Stream.HiddenRestarts
		unchecked += s.sub.Stream.Unchecked
		sum.quiet += f.tally.quiet
		sum.notLive += f.tally.notLive
		sum.accounted += f.tally.accounted
		sum.blocks += f.tally.blocks
		sum.blamed += f.tally.blamed
		sum.unproven += f.tally.unproven
		sum.rests = append(sum.rests, f.tally.rests...)
		for name, n := range f.faults {
			faults[name] += n
		}
	}
	slices.Sort(sum.rests)
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(&list, "  %5d %s\n", faults[name], name)
	}
	t.Logf(`%v, %d engines
faults
%sbatches %d published; %d came live, %d by replay; %d applied, %d payloads unreadable, %d numbers lost for good
replays %d; restarts seen: %d by numbers, %d by replay; %d times went on unchecked
quiet points %d, of which %d not live; live and equal after %v (median), %v (most)
spells whose frames all add up: %d
blocks that differed where the view was not live: %d; %d have a frame to blame, %d where frames were dropped later
goroutines %d to %d, heap %.1f to %.1f MiB`,
		took.Round(time.Second), len(followers), list.String(),
		batches, frames, recovered, applied, unreadable, lost,
		replays, restarts, hidden, unchecked,
		sum.quiet, sum.notLive, sum.rests[len(sum.rests)/2].Round(time.Millisecond), sum.rests[len(sum.rests)-1].Round(time.Millisecond),
		sum.accounted,
		sum.blocks, sum.blamed, sum.unproven,
		slices.Min(fl.goroutines), slices.Max(fl.goroutines),
		float64(slices.Min(fl.heap))/(1<<20), float64(slices.Max(fl.heap))/(1<<20))
}
