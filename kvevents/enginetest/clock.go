package enginetest

import "time"

// Clock is the time an Engine lives in. The default is package time's, so that
// inside a testing/synctest bubble the engine follows the bubble's clock.
type Clock interface {
	Now() time.Time

	// AfterFunc calls f on a goroutine of its own, no earlier than d from now,
	// unless stop is called first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
