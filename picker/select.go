package picker

import (
	"fmt"
	"math/bits"
)

// Select says how a winner is chosen once each eligible candidate has its sum. The
// zero Select takes the best, or one that is as good within the default band.
type Select struct {
	// Band is how far below the best sum, as a share of the sum of all weights, a
	// candidate still counts as equal to it. Among equals one is drawn. 0 to 1; zero
	// is the default of 0.01; a negative band is none, and only equal sums tie.
	Band float64
}

const defaultBand = 0.01

func (s Select) validate() error {
	if !(s.Band <= 1) {
		return fmt.Errorf("picker: Options.Select.Band is %v; it must be at most 1", s.Band)
	}
	return nil
}

func (s Select) band() float64 {
	if s.Band == 0 {
		return defaultBand
	}
	return max(s.Band, 0)
}

// choice is what a selection came to.
type choice struct {
	winner    int // place in the candidates; -1 if there is none
	tied      int // candidates among which it was drawn; 1 if it was not
	fallbacks [MaxFallbacks]int
	n         int // fallbacks
}

// margin is how far the runner-up was behind, 0 if there was none or a tie was drawn.
func (ch *choice) margin(sums []float64) float64 {
	if ch.n == 0 || ch.tied > 1 {
		return 0
	}
	return sums[ch.winner] - sums[ch.fallbacks[0]]
}

// choose draws a winner from the eligible candidates, of which there is at least
// one, and ranks the best of the others. All chance comes from random.
func (s Select) choose(eligible []int32, sums []float64, random uint64) choice {
	best := sums[eligible[0]]
	for _, i := range eligible {
		best = max(best, sums[i])
	}
	floor := best - s.band()
	tied := 0
	for _, i := range eligible {
		if sums[i] >= floor {
			tied++
		}
	}
	ch := choice{winner: -1, tied: tied}
	skip := int(below(random, uint64(tied)))
	for _, i := range eligible {
		if sums[i] < floor {
			continue
		}
		if skip == 0 {
			ch.winner = int(i)
			break
		}
		skip--
	}
	for _, i := range eligible {
		if int(i) != ch.winner {
			ch.insert(int(i), sums, random)
		}
	}
	return ch
}

// insert keeps the best others in order of their sums, equal ones in random order:
// when the winner fails, its requests must not all go to the one listed first.
func (ch *choice) insert(i int, sums []float64, random uint64) {
	at := ch.n
	for at > 0 && precedes(i, ch.fallbacks[at-1], sums, random) {
		at--
	}
	if at == MaxFallbacks {
		return
	}
	if ch.n < MaxFallbacks {
		ch.n++
	}
	copy(ch.fallbacks[at+1:ch.n], ch.fallbacks[at:ch.n-1])
	ch.fallbacks[at] = i
}

func precedes(i, j int, sums []float64, random uint64) bool {
	if sums[i] != sums[j] {
		return sums[i] > sums[j]
	}
	return mix(random+uint64(i)) > mix(random+uint64(j))
}

// draw returns the random number of a pick: the same for the same seed and number.
func draw(seed, pick uint64) uint64 { return mix(seed + pick*0x9e3779b97f4a7c15) }

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// below maps a random number to one of 0 to n-1.
func below(random, n uint64) uint64 {
	hi, _ := bits.Mul64(random, n)
	return hi
}
