// Package bench holds the benchmarks of the library. Floor is the yardstick: what
// hashing the bytes of a long prompt once costs on the machine at hand.
package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

var sizes = []int{8, 64, 1_024}

// BenchmarkFloor hashes the 40,960 bytes of 10,240 tokens.
func BenchmarkFloor(b *testing.B) {
	b.Run("tokens=10240", func(b *testing.B) {
		data := make([]byte, 40_960)
		for i := range data {
			data[i] = byte(i * 7)
		}
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		var sum uint64
		for b.Loop() {
			sum += xxhash.Sum64(data)
		}
		_ = sum
	})
}

func fourScorers() []picker.Weighted {
	return []picker.Weighted{
		{Name: "prefix", Weight: 2, Scorer: scorer.Prefix{}},
		{Name: "queue", Weight: 5, Scorer: scorer.Queue{Norm: scorer.ToLeast}},
		{Name: "memory", Weight: 1, Scorer: scorer.Memory{}},
		{Name: "load", Weight: 4, Scorer: scorer.LoadRequests{Norm: scorer.ToLeast}},
	}
}

// fleet makes n candidates with signals a second old, each holding another share of a
// prompt of 10,240 tokens.
func fleet(n int) []scorer.Candidate {
	at := time.Now()
	cs := make([]scorer.Candidate, n)
	for i := range cs {
		cs[i] = scorer.Candidate{
			Endpoint: prefixindex.Endpoint(i + 1),
			Cached:   scorer.Holds(prefixindex.Held{GPU: 10_240 * i / n / 16 * 16}),
			Signals: scorer.Signals{
				Waiting:  scorer.Known(float64(i % 5)),
				Running:  scorer.Known(float64(i % 40)),
				CacheUse: scorer.Known(float64(i%10) / 10),
				At:       at.Add(-time.Second),
			},
		}
	}
	return cs
}

// BenchmarkPick picks among candidates whose match is given, and releases.
func BenchmarkPick(b *testing.B) {
	for _, n := range sizes {
		for _, record := range []string{"off", "on"} {
			b.Run(fmt.Sprintf("impl=warmroute/endpoints=%d/record=%s", n, record), func(b *testing.B) {
				pk, err := picker.New(picker.Options{Seed: 1, Scorers: fourScorers(), StaleAfter: time.Hour})
				if err != nil {
					b.Fatal(err)
				}
				call := picker.Call{Request: scorer.Request{PromptTokens: 10_240}, Candidates: fleet(n)}
				if record == "on" {
					call.Record = new(picker.Record)
				}
				b.ReportAllocs()
				for b.Loop() {
					d, err := pk.Pick(&call)
					if err != nil {
						b.Fatal(err)
					}
					d.Done(picker.Outcome{})
				}
			})
		}
	}
}
