package httptransport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
)

// Transport is an http.RoundTripper that picks backends. Its methods are safe for
// concurrent use.
type Transport struct {
	o       Options
	scratch sync.Pool

	mu      sync.Mutex // over all below
	resting map[string]time.Time
	stats   Stats
}

// New returns a transport. The error is ErrOptions.
func New(o Options) (*Transport, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	t := &Transport{o: o, resting: make(map[string]time.Time)}
	t.scratch.New = func() any { return new(scratch) }
	return t, nil
}

// scratch is what one round trip works with until its reply begins.
type scratch struct {
	body     openaireq.Body
	prompt   prefixindex.Prompt
	call     picker.Call
	backends []Backend
	resting  []int // places of candidates that are skipped for that alone
}

// release returns s to the pool, without the request's bytes.
func (t *Transport) release(s *scratch) {
	s.body = openaireq.Body{Tokens: s.body.Tokens[:0]}
	s.prompt.Reset(prefixindex.Scope{}, nil)
	s.call.Context = nil //nolint:fatcontext // scratch is not kept for a request
	t.scratch.Put(s)
}

// RoundTrip implements http.RoundTripper: see the package comment. r is not changed, and
// its body is closed.
//
// It waits for the body, the tokenizer and the backend, all within the context of r.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.count(&t.stats.Requests)
	s := t.scratch.Get().(*scratch) //nolint:forcetypeassert // holds nothing else
	defer t.release(s)

	out := r.WithContext(r.Context()) // a copy
	if err := t.read(r, out, s); err != nil {
		if out.Body != nil {
			_ = out.Body.Close()
		}
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			t.count(&t.stats.TooLarge)
			message := fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)
			return refusal(r, http.StatusRequestEntityTooLarge, message), nil
		}
		t.count(&t.stats.Unread)
		return nil, fmt.Errorf("httptransport: %w", err)
	}
	if err := t.candidates(out, s); err != nil {
		return nil, err
	}
	s.call.Context = r.Context() //nolint:fatcontext // until release
	t.setPrompt(r.Context(), s)
	return t.try(out, s)
}

// read reads and parses the body of r into s, and makes out a request that can be sent
// several times. An error is one of reading.
func (t *Transport) read(r, out *http.Request, s *scratch) error {
	if err := t.o.Parser.Read(out, &s.body); err != nil {
		if !errors.Is(err, openaireq.ErrSyntax) && !errors.Is(err, openaireq.ErrField) {
			return err
		}
		if s.body.Kind != openaireq.None {
			t.count(&t.stats.Unparsed)
		}
	}
	if len(r.Trailer) > 0 && out.ContentLength > 0 {
		out.ContentLength = -1 // only chunked bodies have trailers, and those of r are known now
	}
	if r.Header.Get("Expect") != "" {
		// The body is here already; the backend need not be asked whether it wants it.
		out.Header = r.Header.Clone()
		out.Header.Del("Expect")
	}
	return nil
}

// candidates asks the host for the backends.
func (t *Transport) candidates(r *http.Request, s *scratch) error {
	s.backends = t.o.Backends(r, &s.body, s.backends[:0])
	s.call.Candidates, s.resting = s.call.Candidates[:0], s.resting[:0]
	for i := range s.backends {
		b := &s.backends[i]
		if b.URL == nil || b.URL.Scheme == "" || b.URL.Host == "" {
			return fmt.Errorf("%w: number %d has the URL %v; it must have a scheme and a host", ErrBackend, i, b.URL)
		}
		if !b.Candidate.Skip && t.rests(b.URL.Host) {
			s.resting = append(s.resting, i)
			b.Candidate.Skip = true
		}
		s.call.Candidates = append(s.call.Candidates, b.Candidate)
	}
	return nil
}

// setPrompt gives the call a prompt, where there is one to be known.
func (t *Transport) setPrompt(ctx context.Context, s *scratch) {
	s.call.Request, s.call.Prompt = s.body.Request, nil
	if s.body.Kind == openaireq.None {
		return
	}
	var err error
	if t.o.Bytes {
		err = s.body.PromptBytes(&s.prompt)
	} else {
		_, err = s.body.Prompt(ctx, t.o.Tokenizer, &s.prompt)
	}
	if err != nil {
		t.count(&t.stats.Untokenized)
		return
	}
	s.call.Prompt = &s.prompt
}

// CloseIdleConnections closes those of Base, if it can. O(connections).
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.o.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
