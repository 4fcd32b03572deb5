package enginetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvevents"
)

// Fault is what can happen to a batch, or to a replay, on its way.
type Fault uint8

// The faults. Those of live batches leave the replay buffer as it should be, but for
// Lose.
const (
	Drop      Fault = iota + 1 // not sent live
	Lose                       // neither sent live nor kept: encoding failed after the number was taken
	Duplicate                  // sent twice
	Reorder                    // sent after the batch that follows
	Truncate                   // sent with half its payload
	Garbage                    // sent with a payload that is no msgpack

	DropReplayed  // a frame of a replay is not sent: the high-water mark
	DropReplayEnd // the end marker of a replay is not sent
	IgnoreReplay  // a request is read and not answered

	numFaults
)

// faults is what is still to go wrong, and what did.
type faults struct {
	mu       sync.Mutex
	due      [numFaults]int
	injected [numFaults]uint64
	held     []kvevents.Frame // reordered, to be sent after the next
	rng      *rand.Rand
	until    time.Time // stalled
	changed  chan struct{}
}

func newFaults() *faults {
	return &faults{rng: rand.New(rand.NewPCG(1, 2)), changed: make(chan struct{}, 1)}
}

// Inject makes a fault happen to the next n batches, replayed frames or requests that
// it can happen to. Of several faults that are due, a batch gets the first by number.
// Further calls add up; an unknown fault or n below 1 changes nothing. O(1).
func (p *Publisher) Inject(f Fault, n int) {
	if f < Drop || f >= numFaults || n < 1 {
		return
	}
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.due[f] += n
}

// Injected returns how often a fault has happened. O(1).
func (p *Publisher) Injected(f Fault) uint64 {
	if f >= numFaults {
		return 0
	}
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	return p.faults.injected[f]
}

// Stall makes the publisher do nothing for a while: no batches, no replays, while
// connections stay and heartbeats are answered. Batches pile up meanwhile. The last call
// counts; 0 ends it. O(1).
func (p *Publisher) Stall(d time.Duration) {
	p.faults.mu.Lock()
	p.faults.until = time.Now().Add(d)
	p.faults.mu.Unlock()
	select {
	case p.faults.changed <- struct{}{}:
	default:
	}
}

// Calm ends whatever goes wrong: no fault is due any more, and nothing is stalled, silent
// or slow. What was held back to be reordered still follows the next batch, and what is
// hidden by a Restart stays hidden. O(1).
func (p *Publisher) Calm() {
	p.faults.mu.Lock()
	clear(p.faults.due[:])
	p.faults.mu.Unlock()
	p.Stall(0)
	p.link.set(func() { p.link.silent, p.link.rate = false, 0 })
}

// stalled waits until nothing is stalled.
func (f *faults) stalled(ctx context.Context) {
	for {
		f.mu.Lock()
		wait := time.Until(f.until)
		f.mu.Unlock()
		if wait <= 0 || ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-f.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// restart forgets what a process held back.
func (f *faults) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = nil
}

// take tells whether a fault is due, and counts it.
func (f *faults) take(fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeLocked(fault)
}

func (f *faults) takeLocked(fault Fault) bool {
	if f.due[fault] == 0 {
		return false
	}
	f.due[fault]--
	f.injected[fault]++
	return true
}

// live is what is sent when a batch is due, and whether it is kept for replays.
func (f *faults) live(frame kvevents.Frame, hidden bool) (send []kvevents.Frame, keep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hidden {
		return nil, true
	}
	after := f.held
	f.held = nil
	bad := frame
	switch {
	case f.takeLocked(Drop):
		return after, true
	case f.takeLocked(Lose):
		return after, false
	case f.takeLocked(Duplicate):
		send = append(send, frame, frame)
	case f.takeLocked(Reorder):
		f.held = []kvevents.Frame{frame}
		return after, true
	case f.takeLocked(Truncate):
		bad.Payload = frame.Payload[:len(frame.Payload)/2]
		send = append(send, bad)
	case f.takeLocked(Garbage):
		bad.Payload = slices.Clone(frame.Payload)
		for i := range bad.Payload {
			bad.Payload[i] = byte(f.rng.Uint32())
		}
		if len(bad.Payload) > 0 {
			bad.Payload[0] = 0xc1 // the one byte that msgpack never uses
		}
		send = append(send, bad)
	default:
		send = append(send, frame)
	}
	return append(send, after...), true
}
