package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/bench/internal/trace"
	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// mostPools bounds how many caches are played. Further workers repeat them.
const mostPools = 64

// A recording is what happens in the caches of a few workers, request by request. It can be
// played for other workers too, with other prompts: a prompt's first token tells them apart.
type recording struct {
	workers int
	steps   []step
	input   int // tokens of all prompts
}

// A step is a request and what it changes in its worker's cache.
type step struct {
	worker  int
	tokens  []uint32
	held    int      // tokens of it that the worker holds when it comes
	batches [][]byte // payloads, in order
	first   [][]byte // in them, where the first token of a prompt stands
	blocks  int      // stored
	begins  bool     // the first of its worker
}

// become turns the step's prompt and payloads into those of another world. They are shared:
// whoever looks up changes the prompt, whoever applies the payloads, and nobody else.
func become(tokens []uint32, world int) { tokens[0] = trace.Vocabulary + uint32(world) }

func becomePayload(first [][]byte, world int) {
	for _, at := range first {
		appendFirst(at[:0], world)
	}
}

// appendFirst appends a prompt's first token as msgpack writes it.
func appendFirst(b []byte, world int) []byte {
	token := trace.Vocabulary + uint32(world)
	return append(b, 0xce, byte(token>>24), byte(token>>16), byte(token>>8), byte(token))
}

// record plays the trace through that many pools. A request goes where most of it went
// before, unless that worker is a fifth ahead of the others.
func record(ctx context.Context, list []trace.Request, workers, blocks, requests int,
	show func(string, ...any),
) (*recording, error) {
	r := &recording{workers: workers}
	var events []enginetest.Event
	pools := make([]*enginetest.Pool, workers)
	for i := range pools {
		pool, err := enginetest.NewPool(enginetest.PoolOptions{
			Blocks: blocks,
			Seed:   uint64(i + 1),
			OnEvent: func(e *enginetest.Event) {
				c := *e
				c.Hashes, c.Tokens = append([]uint64(nil), e.Hashes...), append([]uint32(nil), e.Tokens...)
				events = append(events, c)
			},
		})
		if err != nil {
			return nil, err
		}
		pools[i] = pool
	}
	last := map[uint64]int{} // worker a number was sent to last
	count := make([]int, workers)
	for i, req := range trace.Repeat(list, workers*requests) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		show("%d pools: request %d of %d", workers, i, workers*requests)
		least := 0
		for w := range count {
			if count[w] < count[least] {
				least = w
			}
		}
		worker := least
		for _, id := range req.IDs {
			w, ok := last[id]
			if !ok {
				break
			}
			if count[w] <= count[least]+count[least]/5+1 {
				worker = w
			}
		}
		count[worker]++
		for _, id := range req.IDs {
			last[id] = worker
		}
		s, err := play(pools[worker], &req, &events)
		if errors.Is(err, enginetest.ErrNoBlocks) {
			return nil, fmt.Errorf("request %d: %d + %d tokens are more than %d blocks hold (-pool)",
				i, req.Input, req.Output, blocks)
		}
		if err != nil {
			return nil, err
		}
		s.worker, s.begins = worker, count[worker] == 1
		r.steps = append(r.steps, s)
		r.input += req.Input
	}
	return r, nil
}

// play puts a request through a pool, alone: a batch when its prefill is done, and one for
// each block that its answer fills, as a step of the engine's scheduler sends.
func play(pool *enginetest.Pool, req *trace.Request, events *[]enginetest.Event) (step, error) {
	s := step{tokens: req.Tokens()}
	s.held = pool.Holds(s.tokens, enginetest.Scope{})
	// Where the events of the prefill's evictions and of its blocks go: one batch.
	*events = (*events)[:0]
	flush := func() error {
		if len(*events) == 0 {
			return nil
		}
		payload := enginetest.Wire{}.Append(nil, &enginetest.Batch{Time: time.Unix(0, 0), Events: *events})
		roots := 0
		for _, e := range *events {
			if e.Kind == enginetest.Stored {
				s.blocks += len(e.Hashes)
				if !e.HasParent {
					roots++
				}
			}
		}
		*events = (*events)[:0]
		s.batches = append(s.batches, payload)
		mark := appendFirst(nil, 0)
		for at := 0; ; at++ {
			i := bytes.Index(payload[at:], mark)
			if i < 0 {
				break
			}
			at += i
			s.first = append(s.first, payload[at:at+len(mark)])
			roots--
		}
		if roots != 0 {
			return fmt.Errorf("the first token stands %d times too seldom in a payload", roots)
		}
		return nil
	}
	sequence, err := pool.Open(s.tokens, enginetest.Scope{})
	if err != nil {
		return s, err
	}
	defer sequence.Free()
	sequence.Compute()
	if err := flush(); err != nil {
		return s, err
	}
	for i := range req.Output {
		// The last token of an answer is never computed.
		if i == req.Output-1 {
			break
		}
		token := uint32(trace.Mix(req.IDs[len(req.IDs)-1]<<20+uint64(i)) % trace.Vocabulary)
		if err := sequence.Append(token); err != nil {
			return s, err
		}
		if err := flush(); err != nil {
			return s, err
		}
	}
	return s, nil
}
