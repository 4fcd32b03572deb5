package main

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/bench/internal/trace"
)

// mooncake plays 1,200 requests of a trace from a place that the seed chooses, 1.3 times as
// fast as they came.
func mooncake(list []trace.Request) func(s *sim) {
	return func(s *sim) {
		const n, haste = 1_200, 1.3
		list := list
		if len(list) == 0 {
			list = s.conversations(n)
		}
		if from := len(list) - n; from > 0 {
			list = list[s.rnd.IntN(from):][:n]
		}
		for i := range list {
			t := &list[i]
			at := time.Duration(float64(t.At-list[0].At) / (haste * s.load))
			s.at(at, func() {
				prompt := make([]uint32, 0, t.Input+t.Output)
				for _, id := range t.IDs {
					prompt = append(prompt, s.text(id, trace.IDTokens)...)
				}
				prompt = prompt[:t.Input]
				s.submit(s.ask(t.IDs[min(1, len(t.IDs)-1)], max(t.Output, 1), prompt))
			})
		}
	}
}

// conversations draws n requests in the proportions of Mooncake's conversation trace: 3.4 a
// second, on average 12,000 tokens in and 340 out, 4 in 10 of them a further turn of a
// conversation a minute later; all begin with one block.
func (s *sim) conversations(n int) []trace.Request {
	type conversation struct {
		blocks []uint64
		tokens int
		ready  int64
	}
	var list []trace.Request
	var open []conversation
	var blocks uint64
	now := 0.0
	for range n {
		now += s.exponential(time.Second).Seconds() * 1_000 / 3.4
		c := conversation{blocks: []uint64{0}, tokens: trace.IDTokens}
		if i := s.rnd.IntN(max(len(open), 1)); len(open) > 0 && s.rnd.Float64() < 0.4 && open[i].ready < int64(now) {
			c = open[i]
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		c.tokens += 200 + int(s.exponential(time.Second).Seconds()*7_500)
		for len(c.blocks)*trace.IDTokens < c.tokens {
			blocks++
			c.blocks = append(slices.Clip(c.blocks), blocks)
		}
		list = append(list, trace.Request{
			At:    time.Duration(now * float64(time.Millisecond)),
			Input: c.tokens, Output: 1 + s.around(340), IDs: c.blocks,
		})
		c.blocks = c.blocks[:c.tokens/trace.IDTokens] // the last one is not full, and will be another
		c.ready = int64(now) + int64(s.exponential(time.Minute)/time.Millisecond)
		if len(c.blocks) > 0 && c.tokens < 60_000 {
			open = append(open, c)
		}
	}
	return list
}
