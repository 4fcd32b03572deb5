package httptransport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warmroute/warmroute/picker"
)

// try sends the request to one backend after the other, until one gives a reply that
// stands.
func (t *Transport) try(r *http.Request, s *scratch) (*http.Response, error) {
	var res *http.Response
	var err error
	for attempt := 1; ; attempt++ {
		d, none := t.pick(s)
		switch {
		case none != nil && attempt > 1:
			return res, err // what the last one said
		case none != nil:
			return unpicked(r, none), nil
		case attempt > 1:
			t.count(&t.stats.Retries)
			if res != nil {
				_ = res.Body.Close()
			}
		}
		s.call.Candidates[d.Index].Skip = true // if there is a next attempt
		t.record(d, s)
		backend := s.backends[d.Index].URL
		res, err = t.send(r, s.body.Bytes(), backend)
		gone := r.Context().Err() != nil
		if !gone && undialed(err) {
			t.count(&t.stats.Undialed)
			t.rest(backend.Host)
		}
		if gone || attempt == t.o.Attempts || !t.o.Retry(res, err) {
			return t.settle(r, res, err, d, s.body.Kind)
		}
		if err != nil {
			d.Done(picker.Outcome{Result: picker.Failed})
		} else {
			d.Done(picker.Outcome{Result: resultOf(res.StatusCode)})
		}
	}
}

// pick picks among the candidates, and among the resting ones if there is no other.
func (t *Transport) pick(s *scratch) (picker.Decision, error) {
	d, err := t.o.Picker.Pick(&s.call)
	if errors.Is(err, picker.ErrNoCandidates) && len(s.resting) > 0 {
		for _, i := range s.resting {
			s.call.Candidates[i].Skip = false
		}
		s.resting = s.resting[:0]
		return t.o.Picker.Pick(&s.call)
	}
	return d, err
}

// record tells the index where the prompt goes.
func (t *Transport) record(d picker.Decision, s *scratch) {
	p := s.call.Prompt
	if p == nil || !t.o.Insert && t.o.Expect == 0 {
		return
	}
	rank := max(d.Rank, 0)
	var err error
	if t.o.Insert {
		err = t.o.Index.Insert(d.Endpoint, rank, p, -1)
	} else {
		held, _ := d.CachedTokens.Get()
		err = t.o.Index.Expect(d.Endpoint, rank, p, int(held)/t.o.Index.Hasher().BlockTokens(), t.o.Expect)
	}
	if err != nil {
		t.count(&t.stats.Unrecorded)
	}
}

// send sends a copy of r to a backend.
func (t *Transport) send(r *http.Request, body []byte, backend *url.URL) (*http.Response, error) {
	out := r.WithContext(r.Context())
	out.Body, out.GetBody = http.NoBody, nil
	if len(body) > 0 {
		whole := &payload{data: body}
		defer whole.Close()
		out.Body, _ = whole.again() // not closed yet
		out.GetBody = whole.again
	}
	u := *r.URL
	u.Scheme, u.Host = backend.Scheme, backend.Host
	if prefix := strings.TrimSuffix(backend.Path, "/"); prefix != "" {
		u.RawPath = strings.TrimSuffix(backend.EscapedPath(), "/") + u.EscapedPath()
		u.Path = prefix + u.Path
	}
	out.URL, out.Host = &u, backend.Host
	res, err := t.o.Base.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("httptransport: %s: %w", backend.Host, err)
	}
	if t.o.Header != "" {
		res.Header.Set(t.o.Header, backend.Host)
	}
	return res, nil
}

// DefaultRetry reports whether a backend has certainly not worked on a request: it could
// not be dialed, or answered 429 or 503. O(1).
func DefaultRetry(res *http.Response, err error) bool {
	if err != nil {
		return undialed(err)
	}
	return resultOf(res.StatusCode) == picker.Refused
}

func undialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// rests reports whether a backend is to be avoided now.
func (t *Transport) rests(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, resting := t.resting[host]
	if resting && !time.Now().Before(until) {
		delete(t.resting, host)
		return false
	}
	return resting
}

// maxResting bounds the backends that are remembered to rest.
const maxResting = 1 << 14

func (t *Transport) rest(host string) {
	if t.o.Rest < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.resting) >= maxResting {
		clear(t.resting) // costs an attempt for each, at worst
	}
	t.resting[host] = time.Now().Add(t.o.Rest)
}
