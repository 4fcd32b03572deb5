package bench_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
)

// BenchmarkMemory measures the heap, not time.
func BenchmarkMemory(b *testing.B) {
	for _, impl := range implementations {
		b.Run("impl="+impl.name+"/holders=8", func(b *testing.B) {
			small(b)
			memoryOfBlocks(b, impl.open)
		})
	}
	for _, turns := range []int{1, 200} {
		b.Run(fmt.Sprintf("impl=warmroute/session=84k/turns=%d", turns), func(b *testing.B) {
			small(b)
			memoryOfSessions(b, turns)
		})
	}
}

// memoryOfBlocks gives the bytes of a block with one holder, and what each of seven
// further ones adds. Tables grow in steps, and right after a step a block costs most;
// so the first figure is the mean over a doubling of the index, of which the maximum
// is given too, and the further holders stop at different points of a doubling.
func memoryOfBlocks(b *testing.B, open func(testing.TB, int) implementation) {
	const (
		most   = 1 << 18
		points = 8
	)
	at := func(point int) int { // from just above most/2 to most
		return int(most * math.Exp2(float64(point)/points-1))
	}
	var first, peak, further float64
	n := 0
	for b.Loop() {
		n++
		before := heap()
		index := open(b, points)
		stored := 0
		c := newChain(0, promptTokens)
		store := func(owner, from, to int) { // blocks in the order of chains
			for from < to {
				c.become(uint64(from / promptBlocks))
				start := from % promptBlocks
				end := min(promptBlocks, start+to-from)
				must(b, index.store(owner, c, start, end))
				from += end - start
			}
		}
		var mean, high float64
		for point := 1; point <= points; point++ {
			store(0, stored, at(point))
			stored = at(point)
			each := float64(heap()-before) / float64(stored)
			mean += each / points
			high = max(high, each)
		}
		first += mean
		peak += high

		before = heap()
		added := 0
		for owner := 1; owner < points; owner++ {
			store(owner, 0, at(owner))
			added += at(owner)
		}
		further += float64(heap()-before) / float64(added)
		runtime.KeepAlive(index)
	}
	b.ReportMetric(first/float64(n), "first-B/block")
	b.ReportMetric(peak/float64(n), "first-max-B/block")
	b.ReportMetric(further/float64(n), "further-B/block")
	b.ReportMetric(0, "ns/op")
}

// memoryOfSessions gives the bytes a token of conversations of 84,000 tokens that
// four engines have cached, stored in that many turns each, all taking turns.
func memoryOfSessions(b *testing.B, turns int) {
	const (
		owners   = 4
		sessions = 32
		tokens   = 84_000
	)
	chains := make([]*chain, sessions)
	for i := range chains {
		chains[i] = newChain(uint64(i), tokens)
	}
	var each float64
	n := 0
	for b.Loop() {
		n++
		before := heap()
		index := newWarmroute(b, owners)
		for turn := range turns {
			from := turn * tokens / turns / blockTokens
			to := (turn + 1) * tokens / turns / blockTokens // full blocks, as engines cache them
			for session, c := range chains {
				must(b, index.store(session%owners, c, from, to))
			}
		}
		expect(b, index, chains[1].prompt(index.hasher()), owners, func(owner int) int {
			if owner == 1 {
				return tokens / blockTokens
			}
			return 0
		})
		clear(index.spans) // the harness's own
		each += float64(heap()-before) / (sessions * tokens)
		runtime.KeepAlive(index)
		runtime.KeepAlive(chains)
	}
	b.ReportMetric(each/float64(n), "B/token")
	b.ReportMetric(0, "ns/op")
}
