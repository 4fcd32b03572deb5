package zmtp

import (
	"context"
	"fmt"
)

// Limiter bounds how many replays run at once. A replay takes up to 10,000 batches from
// an engine that sends no live ones meanwhile, and memory and time from us: a process
// with many engines gives one Limiter to all its Sources. nil is no limit.
type Limiter struct{ slots chan struct{} }

// NewLimiter returns a limiter of n replays at once, 1 to 65536.
func NewLimiter(n int) (*Limiter, error) {
	const most = 1 << 16
	if n < 1 || n > most {
		return nil, fmt.Errorf("%w: NewLimiter of %d replays, want 1 to %d", ErrOptions, n, most)
	}
	return &Limiter{slots: make(chan struct{}, n)}, nil
}

// Running returns how many replays hold a place. O(1). Safe for concurrent use.
func (l *Limiter) Running() int {
	if l == nil {
		return 0
	}
	return len(l.slots)
}

// acquire waits for a place, first come, first served.
func (l *Limiter) acquire(ctx context.Context) error {
	if l == nil {
		return ctx.Err()
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Limiter) release() {
	if l != nil {
		<-l.slots
	}
}
