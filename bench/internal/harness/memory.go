package harness

import (
	"math"
	"runtime"
	"testing"
)

// Heap returns the bytes in live objects. What the first collection leaves in pools
// and finalizers, the second takes.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// MemoryOfBlocks gives the bytes of a block with one holder, and what each of seven
// further ones adds. Tables grow in steps, and right after a step a block costs most;
// so the first figure is the mean over a doubling of the index, of which the maximum
// is given too, and the further holders stop at different points of a doubling.
func MemoryOfBlocks(b *testing.B, open func(testing.TB, int) Index) {
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
		before := Heap()
		index := open(b, points)
		stored := 0
		c := NewChain(0, PromptTokens)
		store := func(owner, from, to int) { // blocks in the order of chains
			for from < to {
				c.Become(uint64(from / PromptBlocks))
				start := from % PromptBlocks
				end := min(PromptBlocks, start+to-from)
				Must(b, index.Store(owner, c, start, end))
				from += end - start
			}
		}
		var mean, high float64
		for point := 1; point <= points; point++ {
			store(0, stored, at(point))
			stored = at(point)
			each := float64(Heap()-before) / float64(stored)
			mean += each / points
			high = max(high, each)
		}
		first += mean
		peak += high

		before = Heap()
		added := 0
		for owner := 1; owner < points; owner++ {
			store(owner, 0, at(owner))
			added += at(owner)
		}
		further += float64(Heap()-before) / float64(added)
		runtime.KeepAlive(index)
	}
	b.ReportMetric(first/float64(n), "first-B/block")
	b.ReportMetric(peak/float64(n), "first-max-B/block")
	b.ReportMetric(further/float64(n), "further-B/block")
	b.ReportMetric(0, "ns/op")
}
