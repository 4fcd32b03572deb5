package zmtp

import (
	"math/rand/v2"
	"time"
)

// backoff says how long to wait between connections: full jitter, so that those who
// lost the same engine at the same moment do not come back at the same moment.
type backoff struct {
	min, max time.Duration
	failures int
	rng      *rand.Rand
}

func newBackoff(low, high time.Duration, seed uint64) *backoff {
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &backoff{min: low, max: high, rng: rand.New(rand.NewPCG(seed, 0))}
}

// next returns the wait after one more failure.
func (b *backoff) next() time.Duration {
	ceiling := b.max
	if b.failures < 62 && b.min <= b.max>>b.failures {
		ceiling = b.min << b.failures
	}
	b.failures++
	return time.Duration(b.rng.Int64N(int64(ceiling) + 1))
}

func (b *backoff) reset() { b.failures = 0 }
