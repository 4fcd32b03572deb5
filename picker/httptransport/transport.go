package httptransport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

var (
	// ErrOptions means an option that is missing or out of its range; the message names
	// it.
	ErrOptions = errors.New("httptransport: invalid option")

	// ErrBackend means that Options.Backends gave a backend that no request can go to.
	ErrBackend = errors.New("httptransport: invalid backend")
)

// Backend is an engine: how to reach it, and what it is in a pick.
type Backend struct {
	URL       *url.URL // scheme, host, and a path that goes before the request's; not changed
	Candidate scorer.Candidate
}

// Options configures a Transport. Picker and Backends are required.
type Options struct {
	Picker *picker.Picker

	// Backends appends to list the engines that a request may go to, and returns it. r
	// and b are to be read only, and not kept; of a body that was not parsed, b is empty.
	// Called once a request, from many goroutines.
	Backends func(r *http.Request, b *openaireq.Body, list []Backend) []Backend

	// Parser reads bodies and says how large they may be; nil: one of its default options.
	Parser *openaireq.Parser

	// Tokenizer finds the tokens of prompts that are given as text; nil: only prompts of
	// token ids are known. Bytes makes prompts of the body's own bytes instead, for
	// fleets without events.
	Tokenizer openaireq.Tokenizer
	Bytes     bool

	// Index is told where prompts go: by Index.Insert, for engines without events, or by
	// Index.Expect for so long, for those whose events come late. It is told before the
	// request is sent, so that those that come meanwhile follow it; what then fails was
	// recorded for nothing. With neither it is not used.
	Index  *prefixindex.Index
	Insert bool
	Expect time.Duration

	// Attempts is the most backends that are tried for one request, 1 to 16; 0: 3.
	Attempts int

	// Retry reports whether a request is worth another attempt after a reply or an error
	// of a backend; the other is nil. nil: [DefaultRetry]. Not called after the last
	// attempt, nor when the caller is gone.
	Retry func(res *http.Response, err error) bool

	// Rest is for how long a backend that could not be dialed is avoided; 0: 1 s; below:
	// not at all.
	Rest time.Duration

	// Header, if set, is added to replies of backends, with the host of the backend that
	// served the request. Where there are Envoys, it is called
	// X-Gateway-Destination-Endpoint-Served.
	Header string

	// Base sends the requests. nil: an http.Transport of its own, without proxy and
	// compression, that gives a dial 2 s and keeps idle connections for 4 s: uvicorn,
	// under vLLM and SGLang, closes them after 5, and a request that meets the closing is
	// lost.
	Base http.RoundTripper
}

func (o *Options) setDefaults() error {
	if o.Parser == nil {
		var err error
		if o.Parser, err = openaireq.NewParser(openaireq.Options{}); err != nil {
			return err
		}
	}
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	if o.Retry == nil {
		o.Retry = DefaultRetry
	}
	if o.Rest == 0 {
		o.Rest = time.Second
	}
	if o.Base == nil {
		o.Base = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     4 * time.Second,
		}
	}
	return nil
}

func (o *Options) validate() error {
	switch {
	case o.Picker == nil:
		return fmt.Errorf("%w: Picker is nil", ErrOptions)
	case o.Backends == nil:
		return fmt.Errorf("%w: Backends is nil", ErrOptions)
	case o.Bytes && o.Tokenizer != nil:
		return fmt.Errorf("%w: Tokenizer is set together with Bytes", ErrOptions)
	case o.Expect < 0:
		return fmt.Errorf("%w: Expect is %v; it must not be negative", ErrOptions, o.Expect)
	case o.Insert && o.Expect > 0:
		return fmt.Errorf("%w: Insert is set together with Expect", ErrOptions)
	case (o.Insert || o.Expect > 0) && o.Index == nil:
		return fmt.Errorf("%w: Index is nil, which Insert and Expect need", ErrOptions)
	case o.Attempts < 1 || o.Attempts > 16:
		return fmt.Errorf("%w: Attempts is %d; it must be 1 to 16", ErrOptions, o.Attempts)
	}
	return nil
}

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
		if b.URL == nil || b.URL.Host == "" {
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

// CloseIdleConnections closes those of Base, if it can. O(connections).
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.o.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
