package enginemetrics

import (
	"container/heap"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/scorer"
)

// Reset says why what an engine is known to have cached is void.
type Reset uint8

// The reasons.
const (
	Restarted  Reset = iota // the process began later than the one known
	FellAsleep              // an engine went to sleep, and dropped its cache
)

// String returns the reason in a word or two.
func (r Reset) String() string {
	if r == FellAsleep {
		return "fell asleep"
	}
	return "restarted"
}

// TargetOptions say what to scrape.
type TargetOptions struct {
	URL    string      // of the page, http or https
	Header http.Header // sent along, for authorization; kept, not to be changed

	// OnReset is called when the engine's cache became empty without its events
	// necessarily saying so; nil: nobody is told. It is called from a worker, before the
	// report that says so is to be seen, and holds up that worker. It may be called once
	// more by a scrape that is under way while the target is removed.
	OnReset func(Reset)
}

// Target is one engine's page. Its methods may be called from anywhere.
type Target struct {
	s    *Scraper
	o    TargetOptions
	last atomic.Pointer[Report] // nil: never read

	// Of the worker that has the target.
	scanner Scanner
	started float64 // the latest start time seen
	asleep  int

	// Under the scraper's mu.
	at       int // place in the queue; -1: a worker has it, or it was removed
	due      time.Time
	scrapes  uint64
	failures int // since the last success
	err      error
}

// Add begins to scrape a page: at once, if the scraper runs. An error names the option.
// Targets are not compared; the same URL twice is scraped twice.
//
// O(log targets).
func (s *Scraper) Add(o TargetOptions) (*Target, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: URL: %w", ErrOption, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: URL is %q, want http://host/path or https", ErrOption, o.URL)
	}
	t := &Target{s: s, o: o, due: s.o.Clock()}
	s.mu.Lock()
	s.targets[t] = struct{}{}
	s.mu.Unlock()
	s.putBack(t)
	return t, nil
}

// Remove ends the scraping. What was reported last remains to be read. Idempotent.
//
// O(log targets).
func (t *Target) Remove() {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ours := s.targets[t]; !ours {
		return
	}
	delete(s.targets, t)
	if t.at >= 0 {
		heap.Remove(&s.queue, t.at)
	}
}

// Signals returns what the engine last said, with the time of it in At; all unknown if
// it was never read.
//
// O(1), lock-free, no allocation.
func (t *Target) Signals() scorer.Signals {
	if r := t.last.Load(); r != nil {
		return r.Signals
	}
	return scorer.Signals{}
}

// Report returns all that the engine last said, or nil if it was never read. It is
// shared, and not to be changed.
//
// O(1), lock-free, no allocation.
func (t *Target) Report() *Report { return t.last.Load() }

// Err returns why the last scrape failed; nil if it did not, or there was none. O(1).
func (t *Target) Err() error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.err
}
