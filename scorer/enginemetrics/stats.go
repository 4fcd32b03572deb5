package enginemetrics

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// Stats are counts since the scraper was made, and the state of its targets now.
type Stats struct {
	Targets int // targets there are
	Unread  int // targets never read with success
	Stale   int // targets last read longer ago than Options.StaleAfter
	Asleep  int // targets with an engine asleep when last read

	Scrapes uint64        // pages asked for, with or without success
	Late    uint64        // scrapes begun more than an Interval after they were due: Concurrency is too small
	Bytes   uint64        // bytes of pages
	Spent   time.Duration // time that scrapes took, all together

	// Failures by reason; their sum is the scrapes without success.

	Timeouts  uint64 // scrapes that failed: no answer in time
	Transport uint64 // scrapes that failed: no connection, or one that broke
	Status    uint64 // scrapes that failed: an answer other than 200
	TooLarge  uint64 // scrapes that failed: a page larger than Options.MaxBytes
	Truncated uint64 // scrapes that failed: a page that was cut off
	Foreign   uint64 // scrapes that failed: a page without any of the wanted gauges

	// Of pages that were read.

	Missing    uint64 // wanted gauges that were not there
	BadLines   uint64 // lines of wanted families that were malformed
	NotNumbers uint64 // samples that were NaN or infinite
	Clipped    uint64 // samples of ranks beyond the 256th of a page

	Restarts uint64 // engines that restarted
	Sleeps   uint64 // times that engines fell asleep
}

// failed counts a scrape that failed with err.
func (st *Stats) failed(err error) {
	switch {
	case errors.Is(err, ErrStatus):
		st.Status++
	case errors.Is(err, ErrTooLarge):
		st.TooLarge++
	case errors.Is(err, ErrTruncated), errors.Is(err, io.ErrUnexpectedEOF):
		st.Truncated++
	case errors.Is(err, ErrForeign):
		st.Foreign++
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		st.Timeouts++
	default:
		st.Transport++
	}
}

// Stats returns the counts. O(targets), under the scraper's lock.
func (s *Scraper) Stats() Stats {
	now := s.o.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Targets = len(s.targets)
	for t := range s.targets {
		r := t.last.Load()
		switch {
		case r == nil:
			st.Unread++
			continue
		case now.Sub(r.Signals.At) > s.o.StaleAfter:
			st.Stale++
		}
		if r.Asleep > 0 {
			st.Asleep++
		}
	}
	return st
}
