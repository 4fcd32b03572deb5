package openaireq

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// Why an engine's answer gave no tokens.
var (
	ErrNoEndpoint = errors.New("openaireq: no endpoint to ask")
	ErrStatus     = errors.New("openaireq: status is not 200")
	ErrAnswer     = errors.New("openaireq: answer has no tokens")
)

// ClientOptions configure a Client.
type ClientOptions struct {
	// Endpoints returns the base URLs, such as http://10.0.0.7:8000, that can be asked
	// about a base model: its engines, or render servers. It is called with each prompt
	// that is not cached, from any goroutine; the slice is not changed. They are asked
	// in turn.
	Endpoints func(model string) []string

	// Render asks the render endpoints, which see the whole request, images too, rather
	// than /tokenize.
	Render bool

	Timeout  time.Duration // for one prompt, with its second attempt, 1 ms to 5 min; 0: 2 s
	Cooldown time.Duration // for which an endpoint that failed is not asked; 0: 1 s; below: none

	CacheBytes int // for answers; 0: 64 MiB; below: none are kept
	MinBytes   int // prompts whose JSON text is shorter are not worth asking; 0: all are

	Header http.Header      // sent along, for authorization; kept, not to be changed
	Client *http.Client     // nil: one of its own, HTTP/1.1, without proxy and redirects
	Clock  func() time.Time // nil: time.Now
}

func (o *ClientOptions) setDefaults() {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Cooldown == 0 {
		o.Cooldown = time.Second
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Client == nil {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		o.Client = &http.Client{
			Transport: &http.Transport{
				Protocols: protocols, DisableCompression: true,
				MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
}

func (o *ClientOptions) validate() error {
	switch {
	case o.Endpoints == nil:
		return fmt.Errorf("%w: Endpoints is nil", ErrOption)
	case o.Timeout < time.Millisecond || o.Timeout > 5*time.Minute:
		return fmt.Errorf("%w: Timeout is %v, want 1ms to 5m", ErrOption, o.Timeout)
	case o.Cooldown > time.Hour:
		return fmt.Errorf("%w: Cooldown is %v, want at most 1h", ErrOption, o.Cooldown)
	case o.MinBytes < 0:
		return fmt.Errorf("%w: MinBytes is %d, want 0 or more", ErrOption, o.MinBytes)
	}
	return nil
}

// Client is a Tokenizer that asks engines. Its methods may be called from anywhere.
type Client struct {
	o ClientOptions

	mu      sync.Mutex // over all below
	cache   *cache
	turn    int
	cooling map[string]time.Time // until when endpoints are not asked
	stats   ClientStats
}

// ClientStats are counts since the client was made.
type ClientStats struct {
	Calls uint64 // prompts whose tokens were wanted
	Hits  uint64 // prompts answered from the cache
	Asked uint64 // requests sent to engines

	// Prompts without tokens, by reason.

	Unsupported uint64 // prompts that cannot be asked for
	Short       uint64 // prompts below MinBytes
	NoEndpoint  uint64 // prompts for which no engine was offered, or all cool down
	Failed      uint64 // prompts for which the engines asked did not give tokens
	Cancelled   uint64 // prompts whose request's own context ended

	// Attempts that failed, by reason; up to two for one prompt.

	Timeouts  uint64 // requests that failed: no answer in time
	Transport uint64 // requests that failed: no connection, or one that broke
	Status    uint64 // requests that failed: an answer other than 200
	BadAnswer uint64 // requests that failed: an answer that makes no sense

	Spent   time.Duration // time added to requests, all together
	Longest time.Duration // most time added to one request

	Entries    int    // prompts in the cache now
	CacheBytes int    // bytes of the cache now
	Evicted    uint64 // prompts evicted from the cache, to make room
}

// NewClient returns a client. An error names the option, its value and range.
func NewClient(o ClientOptions) (*Client, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Client{o: o, cooling: make(map[string]time.Time)}
	var err error
	if c.cache, err = newCache(o.CacheBytes); err != nil {
		return nil, err
	}
	return c, nil
}

// Tokenize implements [Tokenizer]. A prompt that was asked for before, with all that it
// depends on, comes from the cache. Otherwise an engine is asked, and a second one if
// the first fails in time.
//
// One hash of the prompt's bytes, about 0.15 ms a megabyte, and a wait of at most
// Timeout.
func (c *Client) Tokenize(ctx context.Context, b *Body) (Tokens, error) {
	began := c.o.Clock()
	tokens, err := c.tokenize(ctx, b)
	tokens.Took = c.o.Clock().Sub(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.stats
	st.Calls++
	st.Spent += tokens.Took
	st.Longest = max(st.Longest, tokens.Took)
	switch {
	case err == nil:
		if tokens.Cached {
			st.Hits++
		}
	case errors.Is(err, errShort):
		st.Short++
	case errors.Is(err, ErrUnsupported):
		st.Unsupported++
	case errors.Is(err, ErrNoEndpoint):
		st.NoEndpoint++
	case ctx.Err() != nil:
		st.Cancelled++
	default:
		st.Failed++
	}
	return tokens, err
}

var errShort = errors.New("shorter than MinBytes")

func (c *Client) tokenize(ctx context.Context, b *Body) (Tokens, error) {
	var q question
	if err := q.compose(b, c.o.Render); err != nil {
		return Tokens{}, err
	}
	if q.prompt < c.o.MinBytes {
		return Tokens{}, fmt.Errorf("%w: %w", ErrUnsupported, errShort)
	}
	key := c.cache.key(&q)
	c.mu.Lock()
	tokens, hit := c.cache.get(key)
	c.mu.Unlock()
	if hit {
		tokens.Cached = true
		return tokens, nil
	}
	tokens, err := c.askAny(ctx, &q, b.Scope.Model)
	if err != nil {
		return Tokens{}, err
	}
	c.mu.Lock()
	c.stats.Evicted += c.cache.put(key, tokens)
	c.mu.Unlock()
	return tokens, nil
}

// askAny asks up to two of the endpoints that are not cooling down.
func (c *Client) askAny(ctx context.Context, q *question, model string) (Tokens, error) {
	endpoints := c.o.Endpoints(model)
	c.mu.Lock()
	c.turn++
	turn := c.turn
	c.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	err := fmt.Errorf("%w of %q: %d known", ErrNoEndpoint, model, len(endpoints))
	attempts := 0
	for i := 0; i < len(endpoints) && attempts < 2; i++ {
		endpoint := endpoints[(turn+i)%len(endpoints)]
		if c.cools(endpoint) {
			continue
		}
		attempts++
		var tokens Tokens
		if tokens, err = c.ask(limited, endpoint, q); err == nil {
			return tokens, nil
		}
		if ctx.Err() != nil {
			return Tokens{}, err // the client's doing, not the endpoint's
		}
		if !c.blame(endpoint, err) || limited.Err() != nil {
			return Tokens{}, err
		}
	}
	return Tokens{}, err
}

// cools reports whether an endpoint is not to be asked now.
func (c *Client) cools(endpoint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, failed := c.cooling[endpoint]
	if failed && !c.o.Clock().Before(until) {
		delete(c.cooling, endpoint)
		return false
	}
	return failed
}

// maxCooling bounds the endpoints that are remembered to cool down.
const maxCooling = 1 << 14

// blame counts a failed attempt, and reports whether it was the endpoint's fault rather
// than the request's; then another one may do better, and this one cools down. What a
// request alone can bring about is not the endpoint's fault, or one tenant could keep
// all prompts from being tokenized.
func (c *Client) blame(endpoint string, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var status statusError
	switch {
	case errors.As(err, &status):
		c.stats.Status++
		switch status.code {
		case http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			return false
		}
	case errors.Is(err, ErrAnswer):
		c.stats.BadAnswer++
		return false
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		c.stats.Timeouts++
	default:
		c.stats.Transport++
	}
	if c.o.Cooldown > 0 {
		if len(c.cooling) >= maxCooling {
			clear(c.cooling) // costs an attempt for each, at worst
		}
		c.cooling[endpoint] = c.o.Clock().Add(c.o.Cooldown)
	}
	return true
}

// Stats returns the counts. O(1).
func (c *Client) Stats() ClientStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats
	st.Entries, st.CacheBytes = c.cache.size()
	return st
}

// Purge forgets all answers: for when engines come back with another chat template.
//
// O(entries).
func (c *Client) Purge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.purge()
}

// Close closes idle connections. The client can still be used.
func (c *Client) Close() { c.o.Client.CloseIdleConnections() }

// statusError is an answer other than 200.
type statusError struct{ code int }

func (e statusError) Error() string { return fmt.Sprintf("%v: %d", ErrStatus, e.code) }

func (e statusError) Unwrap() error { return ErrStatus }
