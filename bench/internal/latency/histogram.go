// Package latency keeps durations.
package latency

import (
	"math/bits"
	"time"
)

// Histogram is a histogram of durations. Its memory is fixed, so that recording
// does not disturb what is measured; a percentile is exact to 1/64 of itself.
type Histogram struct {
	counts [64 * 58]uint32
	N      uint64
	Sum    time.Duration
}

// Record counts a duration.
func (l *Histogram) Record(d time.Duration) {
	l.counts[bucket(uint64(max(d, 0)))]++
	l.N++
	l.Sum += d
}

// bucket numbers durations below 128 ns one by one, and cuts each doubling above in
// 64 equal steps.
func bucket(ns uint64) int {
	if ns < 64 {
		return int(ns)
	}
	exponent := bits.Len64(ns) - 7 // of the lowest bit kept
	return exponent<<6 + int(ns>>exponent)
}

// Percentile wants at least one duration.
func (l *Histogram) Percentile(p float64) float64 {
	rank := uint64(p / 100 * float64(l.N-1))
	var seen uint64
	for i, count := range &l.counts {
		if seen += uint64(count); seen > rank {
			return lowest(i)
		}
	}
	return 0
}

// lowest returns the shortest duration of a bucket.
func lowest(i int) float64 {
	if i < 128 {
		return float64(i)
	}
	exponent := i>>6 - 1
	return float64(uint64(i-exponent<<6) << exponent)
}
