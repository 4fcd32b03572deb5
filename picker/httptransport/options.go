package httptransport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
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
