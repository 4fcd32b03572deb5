package enginetest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// turn is how long vLLM's publisher waits for a batch before it looks for a replay
// request again.
const turn = 100 * time.Millisecond

// run is the publisher thread of one process. As in vLLM it has one loop for both jobs:
// each turn answers at most one replay request that is there already, to its end, and
// then waits for one batch. So an idle engine answers within a turn, a busy one between
// batches, and nothing is published live during a replay.
func (p *Publisher) run(ctx context.Context, sub *Subscription) {
	ring := &buffered{limit: p.engine.o.ReplayBuffer}
	for {
		p.faults.stalled(ctx)
		if ctx.Err() != nil {
			return
		}
		p.serveReplay(ctx, ring)
		f, err := nextBatch(ctx, sub)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			continue
		case err != nil: // closed, with all that was queued published
			if ctx.Err() == nil {
				p.closeSockets()
			}
			return
		}
		if f.Seq < p.Published() {
			// The engine was restarted on its own.
			ring = &buffered{limit: p.engine.o.ReplayBuffer}
			p.faults.restart()
			p.closeSockets()
			p.mu.Lock()
			p.next, p.hide = 0, 0
			p.mu.Unlock()
			if p.reopen(ctx) != nil {
				return
			}
		}
		p.publish(f, ring)
	}
}

// nextBatch waits a turn for a batch.
func nextBatch(ctx context.Context, sub *Subscription) (kvevents.Frame, error) {
	if sub.Buffered() > 0 {
		return sub.Receive(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	return sub.Receive(ctx)
}

// publish sends a batch live, unless a fault says otherwise, and keeps it.
func (p *Publisher) publish(f kvevents.Frame, ring *buffered) {
	p.mu.Lock()
	pub := p.pub
	hidden := f.Seq < p.hide
	p.next = f.Seq + 1
	p.stats.Batches++
	if hidden {
		p.stats.Hidden++
	}
	p.mu.Unlock()
	live, keep := p.faults.live(f, hidden)
	for _, frame := range live {
		if pub != nil {
			// A socket that is closed by now has no subscribers to miss anything.
			_ = pub.Send([]byte(frame.Topic), binary.BigEndian.AppendUint64(nil, frame.Seq), frame.Payload)
		}
	}
	if keep {
		ring.add(f)
	}
}

// serveReplay answers one request, if there is one: all that is kept from a number on,
// and the end marker. What the ROUTER has no room for is lost, in the middle or at the
// end, and neither side is told.
func (p *Publisher) serveReplay(ctx context.Context, ring *buffered) {
	p.mu.Lock()
	router := p.router
	p.mu.Unlock()
	if router == nil || router.Waiting() == 0 {
		return
	}
	request, err := router.Receive(ctx) // does not wait: one is there
	if err != nil {
		return
	}
	if len(request) != 3 || len(request[1]) != 0 || len(request[2]) != 8 {
		p.mu.Lock()
		p.stats.Invalid++
		p.mu.Unlock()
		return
	}
	if p.faults.take(IgnoreReplay) {
		return
	}
	from := binary.BigEndian.Uint64(request[2])
	ring.each(func(f kvevents.Frame) {
		if f.Seq >= from && !p.faults.take(DropReplayed) {
			p.mu.Lock()
			p.stats.Replayed++
			p.mu.Unlock()
			p.reply(router, request[0], f.Topic, f.Seq, f.Payload)
		}
	})
	p.mu.Lock()
	p.stats.Replays++
	p.mu.Unlock()
	if !p.faults.take(DropReplayEnd) {
		p.reply(router, request[0], "", math.MaxUint64, nil)
	}
}

func (p *Publisher) reply(router *zmtp.Router, peer []byte, topic string, seq uint64, payload []byte) {
	number := binary.BigEndian.AppendUint64(nil, seq)
	if p.o.TopiclessReplay {
		_ = router.Send(peer, nil, number, payload) // fails only when closed
		return
	}
	_ = router.Send(peer, nil, []byte(topic), number, payload)
}
