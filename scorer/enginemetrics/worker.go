package enginemetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

var (
	// ErrStatus means an answer other than 200.
	ErrStatus = errors.New("enginemetrics: status is not 200")

	// ErrTooLarge means a page larger than Options.MaxBytes.
	ErrTooLarge = errors.New("enginemetrics: page is too large")
)

// accept asks for the format that the Scanner reads.
const accept = "text/plain;version=0.0.4;q=1,text/plain;q=0.5"

// worker scrapes one target at a time.
type worker struct {
	s    *Scraper
	page []byte
}

// scrape reads one page, publishes what it says, and queues the target again.
func (w *worker) scrape(ctx context.Context, t *Target) {
	began := w.s.o.Clock()
	r := new(Report)
	n, err := w.read(ctx, t, r)
	if err != nil && ctx.Err() != nil {
		w.s.putBack(t) // the scraper stops; that is nobody's failure
		return
	}
	if err == nil {
		r.Signals.At = began
		if stamped := time.UnixMilli(r.Oldest); r.Oldest != 0 && stamped.Before(began) {
			r.Signals.At = stamped
		}
		w.noticeResets(t, r)
		t.last.Store(r)
	}
	w.account(t, r, began, n, err)
	w.s.putBack(t)
}

// read fills r from the target's page and returns the page's length.
func (w *worker) read(ctx context.Context, t *Target, r *Report) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, w.s.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.o.URL, http.NoBody)
	if err != nil {
		return 0, err
	}
	maps.Copy(req.Header, t.o.Header)
	req.Header.Set("Accept", accept)
	resp, err := w.s.o.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%w: %d", ErrStatus, resp.StatusCode)
	}
	if err := w.fill(resp.Body); err != nil {
		return len(w.page), err
	}
	return len(w.page), t.scanner.Scan(w.page, r)
}

// fill reads all of body into w.page.
func (w *worker) fill(body io.Reader) error {
	w.page = w.page[:0]
	for {
		if len(w.page) == cap(w.page) {
			grown := make([]byte, len(w.page), max(64<<10, 2*cap(w.page)))
			copy(grown, w.page)
			w.page = grown
		}
		n, err := body.Read(w.page[len(w.page):cap(w.page)])
		w.page = w.page[:len(w.page)+n]
		if len(w.page) > w.s.o.MaxBytes {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, w.s.o.MaxBytes)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// noticeResets compares a new report with what was known.
func (w *worker) noticeResets(t *Target, r *Report) {
	restarted := t.started != 0 && r.Started > t.started
	slept := r.Asleep > t.asleep
	t.started, t.asleep = max(t.started, r.Started), r.Asleep
	if !restarted && !slept {
		return
	}
	why := FellAsleep
	if restarted {
		why = Restarted
	}
	w.s.o.Logger.Info("engine's cache is void", "url", t.o.URL, "why", why.String())
	w.s.mu.Lock()
	if restarted {
		w.s.stats.Restarts++
	} else {
		w.s.stats.Sleeps++
	}
	w.s.mu.Unlock()
	if t.o.OnReset != nil {
		t.o.OnReset(why)
	}
}

// account counts a scrape, and sets when the target is due again.
func (w *worker) account(t *Target, r *Report, began time.Time, n int, err error) {
	s := w.s
	now := s.o.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.stats
	st.Scrapes++
	st.Bytes += uint64(n)
	st.Spent += now.Sub(began)
	if began.Sub(t.due) > s.o.Interval {
		st.Late++
	}
	before := t.err
	t.scrapes++
	t.err = err
	if err == nil {
		t.failures = 0
		st.Missing += uint64(r.Missing)
		st.BadLines += uint64(r.BadLines)
		st.NotNumbers += uint64(r.NotNumbers)
		st.Clipped += uint64(r.Clipped)
	} else {
		t.failures++
		st.failed(err)
	}
	t.due = began.Add(s.pause(t))
	switch {
	case err != nil && before == nil:
		s.o.Logger.Warn("scrape failed", "url", t.o.URL, "err", err)
	case err == nil && before != nil:
		s.o.Logger.Info("scrape succeeds again", "url", t.o.URL)
	}
}
