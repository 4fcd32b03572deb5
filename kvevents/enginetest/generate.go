package enginetest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRequest means that no engine of this configuration can serve the
	// request; the message says why.
	ErrRequest = errors.New("enginetest: invalid request")

	// ErrModel means a name that is neither the served model's nor that of one
	// of its adapters.
	ErrModel = errors.New("enginetest: no such model")
)

// Request is one generation.
type Request struct {
	Model     string   // the model or one of its adapters; "" is the model
	Prompt    []uint32 // any token ids; must not change until the call returns
	MaxTokens int      // generated tokens, 1 or more: a reply always ends by length
	Salt      string   // cache_salt
	Items     []Item   // multimodal items of the prompt

	// OnToken, if set, is called for each generated token, when it is
	// generated, on the caller's goroutine.
	OnToken func(token uint32)
}

// Result is what became of a Request. Times are the model's, exact whatever
// the machine was doing.
type Result struct {
	Tokens       []uint32 // generated
	CachedTokens int      // prompt tokens found in the cache when it was admitted
	Arrived      time.Time
	FirstToken   time.Time
	Finished     time.Time
}

// Generate serves one request and returns when it is done. When ctx ends first
// the request is dropped, its blocks are free at once, and the error is ctx's.
// Other errors: ErrRequest, ErrModel, ErrRestarted, ErrClosed.
//
// Cost: the prompt is hashed once or, while it waits at the head of the queue
// for blocks, at every change of the cache.
func (e *Engine) Generate(ctx context.Context, q Request) (Result, error) {
	r, err := e.newRequest(q)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	e.lock()
	if e.closed {
		e.unlock()
		return Result{}, ErrClosed
	}
	e.sched.submit(r)
	if r.scope.Adapter != "" {
		e.observeAdapters()
	}
	e.unlock()

	sent := 0
	for {
		var gone error
		select {
		case <-r.changed:
		case <-ctx.Done():
			gone = ctx.Err()
		}
		e.lock()
		if gone != nil {
			e.sched.cancel(r, gone) // nothing, if it is done
		}
		out, done, err := r.out, r.done, r.err
		e.unlock()
		if err != nil {
			return Result{}, err
		}
		if q.OnToken != nil {
			for ; sent < len(out); sent++ {
				q.OnToken(out[sent])
			}
		}
		if done {
			return Result{
				Tokens:       out,
				CachedTokens: r.cached,
				Arrived:      e.origin.Add(r.arrived),
				FirstToken:   e.origin.Add(r.first),
				Finished:     e.origin.Add(r.finished),
			}, nil
		}
	}
}

func (e *Engine) newRequest(q Request) (*request, error) {
	scope := Scope{Salt: q.Salt, Items: q.Items}
	if q.Model != "" && q.Model != e.o.Model {
		scope.Adapter, scope.AdapterID = q.Model, e.adapter[q.Model]
		if scope.AdapterID == 0 {
			return nil, fmt.Errorf("%w: %q", ErrModel, q.Model)
		}
	}
	switch {
	case len(q.Prompt) == 0:
		return nil, fmt.Errorf("%w: empty prompt", ErrRequest)
	case q.MaxTokens < 1:
		return nil, fmt.Errorf("%w: max_tokens is %d, want 1 or more", ErrRequest, q.MaxTokens)
	case q.MaxTokens > e.o.MaxModelTokens || len(q.Prompt) > e.o.MaxModelTokens-q.MaxTokens:
		return nil, fmt.Errorf("%w: %d prompt tokens and max_tokens %d exceed the context length, %d",
			ErrRequest, len(q.Prompt), q.MaxTokens, e.o.MaxModelTokens)
	}
	return &request{
		prompt:    q.Prompt,
		scope:     scope,
		maxTokens: q.MaxTokens,
		everyStep: q.OnToken != nil,
		seed:      replySeed(q.Prompt),
		changed:   make(chan struct{}, 1),
	}, nil
}
