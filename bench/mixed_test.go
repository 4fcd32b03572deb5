package bench_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/bench/internal/latency"
	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkMixedMatch times batches of 64 lookups while a writer works at a stated
// rate, in block writes a second, and while it rests. The two alternate every 20 ms,
// so that whatever else the machine does falls on both alike.
//
// 128,000 is what 64 engines write that prefill 16,000 tokens a second each and evict
// as much. The writer takes the last 64 blocks of a looked-up prompt from one owner
// after another and puts them back, so the index neither grows nor shrinks, and
// readers and writer meet at the same blocks.
func BenchmarkMixedMatch(b *testing.B) {
	for _, rate := range []float64{128_000, math.Inf(1)} {
		name := fmt.Sprintf("%.0f", rate)
		if math.IsInf(rate, 1) {
			name = "max"
		}
		b.Run("impl=warmroute/owners=64/writes="+name, func(b *testing.B) {
			small(b)
			mixedMatch(b, rate)
		})
	}
}

const (
	mixedOwners = 64
	mixedChains = 16
	mixedBatch  = 64
	mixedSpan   = 64 // blocks
)

func mixedMatch(b *testing.B, rate float64) {
	const phase = 20 * time.Millisecond
	var (
		index   = harness.NewWarmroute(b, mixedOwners)
		chains  = make([]*harness.Chain, mixedChains)
		prompts = make([]*prefixindex.Prompt, mixedChains)
	)
	for i := range chains {
		chains[i] = harness.NewChain(uint64(i), harness.PromptTokens)
		prompts[i] = chains[i].Prompt(index.Hasher())
		for owner := range mixedOwners {
			harness.Must(b, index.Store(owner, chains[i], 0, harness.PromptBlocks))
		}
		harness.Expect(b, index, prompts[i], mixedOwners, func(int) int { return harness.PromptBlocks })
	}
	writer := &steadyWriter{index: index, chains: chains, rate: rate, turn: make(chan struct{}), done: make(chan struct{})}
	go writer.run()

	var (
		idle, busy latency.Histogram
		writing    bool
		busyTime   time.Duration
		began      = time.Now()
	)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if start.Sub(began) >= phase {
			if writing {
				busyTime += start.Sub(began)
			}
			writing = !writing
			writer.turn <- struct{}{}
			start = time.Now()
			began = start
		}
		for i := range mixedBatch {
			index.Lookup(prompts[i%mixedChains])
		}
		if writing {
			busy.Record(time.Since(start))
		} else {
			idle.Record(time.Since(start))
		}
	}
	if writing {
		busyTime += time.Since(began)
	}
	close(writer.turn)
	<-writer.done
	harness.Must(b, writer.err)

	b.ReportMetric(0, "ns/op") // of idle and busy together, which means nothing
	harness.Report(b, &idle, "idle-")
	harness.Report(b, &busy, "")
	if busyTime > 0 {
		b.ReportMetric(float64(writer.spans*mixedSpan)/busyTime.Seconds(), "writes/s")
	}
}

// steadyWriter writes at a rate, in steady state. It rests until the first word on
// turn; each further word makes it write, or rest, and is taken only once it has
// stopped what it was doing.
type steadyWriter struct {
	index  *harness.Warmroute
	chains []*harness.Chain
	rate   float64       // blocks a second
	turn   chan struct{} // closed: the end
	done   chan struct{}

	// For others once done is closed.
	spans int
	err   error
}

func (w *steadyWriter) run() {
	defer close(w.done)
	for range w.turn {
		if !w.write() {
			return
		}
	}
}

// write works until the next word, and reports false if that is the end.
func (w *steadyWriter) write() bool {
	pace := time.NewTicker(500 * time.Microsecond)
	defer pace.Stop()
	start := time.Now()
	for written := 0; ; {
		for float64(written) < w.rate*time.Since(start).Seconds() {
			w.step()
			written += mixedSpan
			select {
			case _, more := <-w.turn:
				return more
			default:
			}
		}
		select {
		case _, more := <-w.turn:
			return more
		case <-pace.C:
		}
	}
}

// step takes away a tail, or puts the one before back.
func (w *steadyWriter) step() {
	turn := w.spans / 2
	owner, c := turn%mixedOwners, w.chains[turn/mixedOwners%len(w.chains)]
	write := w.index.Remove
	if w.spans%2 == 1 {
		write = w.index.Store
	}
	if err := write(owner, c, harness.PromptBlocks-mixedSpan, harness.PromptBlocks); err != nil && w.err == nil {
		w.err = err
	}
	w.spans++
}
