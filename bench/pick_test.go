package bench_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// pickTokens is the length of the prompt that is picked for.
const pickTokens = 10_240

// eachPick runs f for every size of fleet, with and without a record.
func eachPick(b *testing.B, f func(b *testing.B, endpoints int, rec *picker.Record)) {
	if os.Getenv("BENCH_SIZE") == "large" {
		b.Skip("small")
	}
	for _, n := range []int{8, 64, 1_024} {
		b.Run(fmt.Sprintf("impl=warmroute/endpoints=%d/record=off", n), func(b *testing.B) { f(b, n, nil) })
		b.Run(fmt.Sprintf("impl=warmroute/endpoints=%d/record=on", n), func(b *testing.B) { f(b, n, new(picker.Record)) })
	}
}

// newPicker has four scorers, of which three read something and one the match.
func newPicker(b *testing.B, ix *prefixindex.Index) *picker.Picker {
	pk, err := picker.New(picker.Options{
		Index: ix,
		Seed:  1,
		Scorers: []picker.Weighted{
			{Name: "prefix", Weight: 2, Scorer: scorer.Prefix{}},
			{Name: "queue", Weight: 5, Scorer: scorer.Queue{Norm: scorer.ToLeast}},
			{Name: "memory", Weight: 1, Scorer: scorer.Memory{}},
			{Name: "load", Weight: 4, Scorer: scorer.LoadRequests{Norm: scorer.ToLeast}},
		},
		StaleAfter: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	return pk
}

// busy makes n candidates with signals a second old.
func busy(n int) []scorer.Candidate {
	at := time.Now().Add(-time.Second)
	cs := make([]scorer.Candidate, n)
	for i := range cs {
		cs[i].Endpoint = prefixindex.Endpoint(i + 1)
		cs[i].Signals = scorer.Signals{
			Waiting:  scorer.Known(float64(i % 5)),
			Running:  scorer.Known(float64(i % 40)),
			CacheUse: scorer.Known(float64(i%10) / 10),
			At:       at,
		}
	}
	return cs
}

// pickAndEnd is the whole life of a request in a picker. The one with most of the
// prompt cached and the shortest queue wins.
func pickAndEnd(b *testing.B, pk *picker.Picker, call *picker.Call) {
	d, err := pk.Pick(call)
	if err != nil {
		b.Fatal(err)
	}
	d.Done(picker.Outcome{})
}

// BenchmarkPick picks among candidates that say themselves what they have cached, each
// another share of the prompt, and releases.
func BenchmarkPick(b *testing.B) {
	eachPick(b, func(b *testing.B, n int, rec *picker.Record) {
		call := picker.Call{Request: scorer.Request{PromptTokens: pickTokens}, Candidates: busy(n), Record: rec}
		for i := range call.Candidates {
			run := pickTokens * i / n / 16 * 16
			call.Candidates[i].Cached = scorer.Holds(prefixindex.Held{GPU: run, CPU: run, Any: run})
		}
		pk := newPicker(b, nil)
		b.ReportAllocs()
		for b.Loop() {
			pickAndEnd(b, pk, &call)
		}
	})
}

// BenchmarkDecide is all of a decision: hash the prompt, match it, pick, and release.
// Each endpoint has another share of the prompt cached.
func BenchmarkDecide(b *testing.B) {
	eachPick(b, func(b *testing.B, n int, rec *picker.Record) {
		ix, err := prefixindex.New(prefixindex.Options{Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		tokens := make([]uint32, pickTokens)
		for i := range tokens {
			tokens[i] = uint32(i) * 2_654_435_761 >> 15
		}
		scope := prefixindex.Scope{Model: "llama"}
		var prompt prefixindex.Prompt
		prompt.Reset(scope, tokens)
		call := picker.Call{Prompt: &prompt, Candidates: busy(n), Record: rec}
		for i := range call.Candidates {
			e, err := ix.Join(fmt.Sprintf("10.0.%d.%d:8000", i/256, i%256))
			if err != nil {
				b.Fatal(err)
			}
			w, err := ix.Writer(e, 0)
			if err != nil {
				b.Fatal(err)
			}
			if err := w.Insert(&prompt, pickTokens/16*i/n); err != nil {
				b.Fatal(err)
			}
			call.Candidates[i].Endpoint = e
		}
		pk := newPicker(b, ix)
		b.ReportAllocs()
		for b.Loop() {
			prompt.Reset(scope, tokens)
			pickAndEnd(b, pk, &call)
		}
	})
}
