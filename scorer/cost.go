package scorer

import (
	"fmt"
	"math"
	"time"
)

// Cost scores by the milliseconds until the first token:
//
//	prefill = (tokens in flight + this prompt's uncached) / rate
//	queue   = requests waiting * PerWaiting
//	ms      = max(prefill, queue + this prompt's uncached / rate)
//	score   = 1 - min(1, ms/Horizon)
//
// Tokens in flight and requests waiting are mostly the same work seen from two sides,
// so the longer of the two counts, not their sum. Where the ledger does not count
// tokens, or the engine reports no queue, the other side decides. Unknown queues count
// as the mean of those known and not stale, stale ones as their own length or that mean,
// whichever is longer. Prompt of unknown length: as an empty one.
//
// The rate is, in this order: PrefillRate, if given; what the ledger has learned of the
// endpoint from first tokens; the mean of what it has learned of the others;
// DefaultPrefillRate.
//
// It does not see requests that only decode: LoadRequests does.
type Cost struct {
	Horizon     time.Duration // zero is the default of 10 seconds
	PerWaiting  time.Duration // zero is the default of 100 ms; negative is none
	PrefillRate float64       // tokens a second; zero: learned
}

// DefaultPrefillRate is the rate that Cost assumes until one is learned: prompt tokens a
// second, about those of an 8 B model on one large GPU.
const DefaultPrefillRate = 8_000

// Validate names a field that is out of range. O(1).
func (s Cost) Validate() error {
	if s.Horizon < 0 {
		return fmt.Errorf("scorer: Cost.Horizon is %v; it must not be negative", s.Horizon)
	}
	if !(s.PrefillRate >= 0) || math.IsInf(s.PrefillRate, 1) {
		return fmt.Errorf("scorer: Cost.PrefillRate is %v; it must be finite and not negative", s.PrefillRate)
	}
	return nil
}

// Score implements Scorer. O(candidates), no allocation.
func (s Cost) Score(in *Input, out []float64) {
	s.Estimate(in, out)
	horizon := millis(s.Horizon)
	if horizon == 0 {
		horizon = 10_000
	}
	for i, ms := range out {
		out[i] = 1 - min(1, ms/horizon)
	}
}

// Estimate implements Estimator. O(candidates), no allocation.
func (s Cost) Estimate(in *Input, out []float64) {
	perWaiting := 100.0
	if s.PerWaiting != 0 {
		perWaiting = max(millis(s.PerWaiting), 0)
	}
	meanWaiting, meanRate := s.means(in)
	for i := range in.Candidates {
		c := &in.Candidates[i]
		waiting := count(c.Signals.Waiting)
		if math.IsNaN(waiting) || c.Stale && waiting < meanWaiting {
			waiting = meanWaiting
		}
		ahead := count(c.InFlight.Tokens)
		if math.IsNaN(ahead) {
			ahead = 0
		}
		rate := s.PrefillRate
		if rate == 0 {
			rate = count(c.PrefillRate)
		}
		if !(rate > 0) {
			rate = meanRate
		}
		own := float64(in.Uncached(c))
		out[i] = max((ahead+own)*1_000/rate, waiting*perWaiting+own*1_000/rate)
	}
}

// means returns the mean queue and rate of the eligible candidates that have one.
func (s Cost) means(in *Input) (waiting, rate float64) {
	var queues, rates float64
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if !c.Eligible {
			continue
		}
		if x := count(c.Signals.Waiting); !math.IsNaN(x) && !c.Stale {
			waiting += x
			queues++
		}
		if x := count(c.PrefillRate); x > 0 {
			rate += x
			rates++
		}
	}
	return waiting / max(queues, 1), orDefault(rate/max(rates, 1), DefaultPrefillRate)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
