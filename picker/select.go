package picker

import (
	"fmt"
	"math"

	"github.com/warmroute/warmroute/scorer"
)

// Select says how a winner is chosen once each eligible candidate has its sum. The
// zero Select takes the best, or one that is as good within the default band.
type Select struct {
	// Band is how far below the best sum, as a share of the sum of all weights, a
	// candidate still counts as equal to it. Of equals one is drawn; but where half of the
	// prompt or more is cached, the one that has most of it is taken, and of several the
	// first in an order that the cached prefix gives, so that its prompts go to few places.
	// 0 to 1; zero is the default of 0.01; a negative band is none, and only equal sums tie.
	Band float64

	// HomeBand is a wider band for such prompts: a candidate within it that has no more
	// tokens in flight than the prompt would add counts as equal too. So a prefix is served
	// by those who hold it while they keep up, and has as many homes as its rate keeps
	// busy. 0 to 1; zero is none.
	HomeBand float64

	// Temperature, if positive, draws among all instead, with a chance in proportion
	// to exp(sum/Temperature): at 0.1 a candidate 0.1 below another is drawn 2.7 times
	// as rarely. Band is not used then.
	Temperature float64

	// MaxRatio bounds how many times likelier one candidate may be drawn than another
	// by Temperature: 1 or more; zero is no bound.
	MaxRatio float64

	// Bound, if positive, lets only those win whose requests in flight are at most
	// Bound times the mean of the eligible, or at most BoundFloor: affinity ends where
	// one has much more than its share. 1 or more. The others remain as fallbacks,
	// after those within the bound. Candidates that nobody counts are within it.
	Bound      float64
	BoundFloor int // requests; zero is the default of 4
}

const (
	defaultBand       = 0.01
	defaultBoundFloor = 4
)

func (s Select) validate() error {
	switch {
	case !(s.Band <= 1) || math.IsInf(s.Band, -1):
		return fmt.Errorf("%w: Options.Select.Band is %v; it must be at most 1, and finite", ErrOptions, s.Band)
	case !(s.HomeBand >= 0 && s.HomeBand <= 1):
		return fmt.Errorf("%w: Options.Select.HomeBand is %v; it must be 0 to 1", ErrOptions, s.HomeBand)
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 1):
		return fmt.Errorf("%w: Options.Select.Temperature is %v; it must be finite and not negative", ErrOptions,
			s.Temperature)
	case s.MaxRatio != 0 && !(s.MaxRatio >= 1) || math.IsInf(s.MaxRatio, 1):
		return fmt.Errorf("%w: Options.Select.MaxRatio is %v; it must be 0, or 1 or more and finite", ErrOptions,
			s.MaxRatio)
	case s.Bound != 0 && !(s.Bound >= 1) || math.IsInf(s.Bound, 1): // infinite times a mean of 0 is no bound
		return fmt.Errorf("%w: Options.Select.Bound is %v; it must be 0, or 1 or more and finite", ErrOptions, s.Bound)
	case s.BoundFloor < 0:
		return fmt.Errorf("%w: Options.Select.BoundFloor is %d; it must not be negative", ErrOptions,
			s.BoundFloor)
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

// margin is how far the runner-up was behind, 0 if there was none, a tie was drawn, or
// the winner was drawn in spite of it.
func (ch *choice) margin(s *sheet) float64 {
	if ch.n == 0 || ch.tied > 1 {
		return 0
	}
	return max(s.sums[ch.winner]-s.sums[ch.fallbacks[0]], 0)
}

// choose draws a winner from the eligible candidates, of which there is at least
// one, and ranks the best of the others. All chance comes from random.
func (s Select) choose(sh *sheet, random uint64) choice {
	within := sh.eligible
	sh.over = sh.over[:0]
	if s.Bound > 0 {
		within = s.bound(sh)
	}
	var top ranking
	for _, i := range within {
		if top.n < len(top.best) || sh.sums[i] >= top.last {
			top.insert(0, i, sh.sums, random)
		}
	}
	ch := choice{}
	if s.Temperature > 0 {
		ch.winner, ch.tied = s.soften(sh, within, random), len(within)
	} else {
		ch.winner, ch.tied = s.draw(sh, within, &top, random)
	}
	if inner := top.n; inner < len(top.best) {
		for _, i := range sh.over {
			top.insert(inner, i, sh.sums, random)
		}
	}
	for _, i := range top.best[:top.n] {
		if int(i) != ch.winner && ch.n < MaxFallbacks {
			ch.fallbacks[ch.n] = int(i)
			ch.n++
		}
	}
	return ch
}

// draw takes one of those that are equal to the best.
func (s Select) draw(sh *sheet, within []int32, top *ranking, random uint64) (winner, tied int) {
	best := sh.sums[top.best[0]]
	floor, home := best-s.band(), best
	if sh.home != 0 {
		home -= s.HomeBand
	}
	if top.n == 1 || sh.sums[top.best[1]] < min(floor, home) {
		return int(top.best[0]), 1
	}
	var most int
	var first uint64
	for _, i := range within {
		c := &sh.in.Candidates[i]
		if sum := sh.sums[i]; sum < floor && (sum < home || !sh.keepsUp(c)) {
			continue
		}
		saved, order := 0, mix(random+uint64(i))
		if sh.home != 0 {
			saved, order = sh.in.Saved(c), mix(sh.home+uint64(c.Endpoint)*0x9e3779b97f4a7c15)
		}
		if tied++; tied == 1 || saved > most || saved == most && order > first {
			winner, most, first = int(i), saved, order
		}
	}
	return winner, tied
}

// keepsUp reports whether c has no more tokens to compute than this prompt would add.
func (s *sheet) keepsUp(c *scorer.Resolved) bool {
	tokens, known := c.InFlight.Tokens.Get()
	return known && tokens <= float64(s.in.Uncached(c))
}

// soften draws by the exponential of the sums.
func (s Select) soften(sh *sheet, within []int32, random uint64) (winner int) {
	most := math.Inf(-1)
	for _, i := range within {
		most = max(most, sh.sums[i])
	}
	least := 0.0
	if s.MaxRatio > 0 {
		least = 1 / s.MaxRatio
	}
	total := 0.0
	for _, i := range within {
		sh.out[i] = max(math.Exp((sh.sums[i]-most)/s.Temperature), least)
		total += sh.out[i]
	}
	left := float64(random>>11) / (1 << 53) * total
	for _, i := range within {
		winner = int(i)
		if left -= sh.out[i]; left < 0 {
			break
		}
	}
	return winner
}

// bound parts the eligible candidates into those within the bound, which it returns,
// and the others, which remain as fallbacks. The least loaded is always within.
func (s Select) bound(sh *sheet) []int32 {
	total, counted, least := 0.0, 0, math.Inf(1)
	for _, i := range sh.eligible {
		if n, known := sh.in.Candidates[i].InFlight.Requests.Get(); known {
			total += n
			counted++
			least = min(least, n)
		}
	}
	floor := s.BoundFloor
	if floor == 0 {
		floor = defaultBoundFloor
	}
	limit := max(s.Bound*(total/float64(max(counted, 1))), float64(floor))
	if counted > 0 {
		limit = max(limit, least) // whatever rounding did to the mean
	}
	all := sh.eligible
	sh.eligible = all[:0]
	for _, i := range all {
		if n, _ := sh.in.Candidates[i].InFlight.Requests.Get(); n <= limit {
			sh.eligible = append(sh.eligible, i)
		} else {
			sh.over = append(sh.over, i)
		}
	}
	if len(sh.over) > 0 {
		sh.counts.Bounded++
	}
	within := len(sh.eligible)
	sh.eligible = append(sh.eligible, sh.over...)
	return sh.eligible[:within]
}

// ranking is the best few candidates in order of their sums, equal ones in random order:
// when the winner fails, its requests must not all go to the one listed first.
type ranking struct {
	best [MaxFallbacks + 1]int32
	n    int
	last float64 // sum of the last, once it is full
}

// insert ranks i among those from place from on, if it is good enough.
func (r *ranking) insert(from int, i int32, sums []float64, random uint64) {
	at := r.n
	switch {
	case at < len(r.best):
		r.n++
	case precedes(i, r.best[at-1], sums, random):
		at--
	default:
		return
	}
	for ; at > from && precedes(i, r.best[at-1], sums, random); at-- {
		r.best[at] = r.best[at-1]
	}
	r.best[at] = i
	r.last = sums[r.best[r.n-1]]
}

func precedes(i, j int32, sums []float64, random uint64) bool {
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
