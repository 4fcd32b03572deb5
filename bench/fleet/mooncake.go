package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// traceRequest is a line of a trace in Mooncake's format: equal ids at the start of two
// requests are equal blocks of 512 tokens.
type traceRequest struct {
	Timestamp int64    `json:"timestamp"` // milliseconds
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	Blocks    []uint64 `json:"hash_ids"`
}

const traceBlock = 512

// readTrace reads a trace; requests without tokens are an error, as are blocks too few for
// the input.
func readTrace(name string) ([]traceRequest, error) {
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var trace []traceRequest
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r traceRequest
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, len(trace)+1, err)
		}
		if r.Input < 1 || r.Output < 1 || len(r.Blocks)*traceBlock < r.Input {
			return nil, fmt.Errorf("%s, line %d: %d tokens of input in %d blocks and %d of output", name,
				len(trace)+1, r.Input, len(r.Blocks), r.Output)
		}
		trace = append(trace, r)
	}
	return trace, lines.Err()
}

// mooncake plays 1,200 requests of a trace from a place that the seed chooses, 1.3 times as
// fast as they came.
func mooncake(trace []traceRequest) func(s *sim) {
	return func(s *sim) {
		const n, haste = 1_200, 1.3
		trace := trace
		if len(trace) == 0 {
			trace = s.conversations(n)
		}
		if from := len(trace) - n; from > 0 {
			trace = trace[s.rnd.IntN(from):][:n]
		}
		for i := range trace {
			t := &trace[i]
			at := time.Duration(float64(t.Timestamp-trace[0].Timestamp) / (haste * s.load) * 1e6)
			s.at(at, func() {
				prompt := make([]uint32, 0, t.Input+t.Output)
				for _, id := range t.Blocks {
					prompt = append(prompt, s.text(id, traceBlock)...)
				}
				prompt = prompt[:t.Input]
				s.submit(s.ask(t.Blocks[min(1, len(t.Blocks)-1)], t.Output, prompt))
			})
		}
	}
}

// conversations draws n requests in the proportions of Mooncake's conversation trace: 3.4 a
// second, on average 12,000 tokens in and 340 out, 4 in 10 of them a further turn of a
// conversation a minute later; all begin with one block.
func (s *sim) conversations(n int) []traceRequest {
	type conversation struct {
		blocks []uint64
		tokens int
		ready  int64
	}
	var trace []traceRequest
	var open []conversation
	var blocks uint64
	now := 0.0
	for range n {
		now += s.exponential(time.Second).Seconds() * 1_000 / 3.4
		c := conversation{blocks: []uint64{0}, tokens: traceBlock}
		if i := s.rnd.IntN(max(len(open), 1)); len(open) > 0 && s.rnd.Float64() < 0.4 && open[i].ready < int64(now) {
			c = open[i]
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		c.tokens += 200 + int(s.exponential(time.Second).Seconds()*7_500)
		for len(c.blocks)*traceBlock < c.tokens {
			blocks++
			c.blocks = append(slices.Clip(c.blocks), blocks)
		}
		trace = append(trace, traceRequest{int64(now), c.tokens, 1 + s.around(340), c.blocks})
		c.blocks = c.blocks[:c.tokens/traceBlock] // the last one is not full, and will be another
		c.ready = int64(now) + int64(s.exponential(time.Minute)/time.Millisecond)
		if len(c.blocks) > 0 && c.tokens < 60_000 {
			open = append(open, c)
		}
	}
	return trace
}
