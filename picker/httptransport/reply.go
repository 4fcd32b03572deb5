package httptransport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/scorer"
)

// settle makes what a backend said the answer: it reports how the request ended, or sees
// to it that the body will.
func (t *Transport) settle(
	r *http.Request, res *http.Response, err error, d picker.Decision, kind openaireq.Kind,
) (*http.Response, error) {
	if err != nil {
		result := picker.Failed
		if r.Context().Err() != nil {
			result = picker.Canceled
		}
		d.Done(picker.Outcome{Result: result})
		return nil, err
	}
	b := &reply{ReadCloser: res.Body, ctx: r.Context(), d: d, result: resultOf(res.StatusCode)}
	if conn, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		t.count(&t.stats.Upgrades)
		b.upgraded = true
		res.Body = &upgraded{reply: b, Writer: conn}
		return res, nil
	}
	if res.Body == http.NoBody { // such as that of a HEAD
		b.end(io.EOF)
		return res, nil
	}
	switch encoding := res.Header.Get("Content-Encoding"); {
	case kind == openaireq.None || res.StatusCode != http.StatusOK:
	case encoding != "" && encoding != "identity":
		t.count(&t.stats.Opaque)
	default:
		b.usage = &usage{stream: strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")}
	}
	res.Body = b
	return res, nil
}

// resultOf returns what a status says of the backend, once the reply is complete.
func resultOf(status int) picker.Result {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return picker.Refused
	case status >= 500:
		return picker.Failed
	case status >= 400:
		return picker.Unsaid // the request's fault
	default:
		return picker.OK
	}
}

// reply is the body of a reply. Like those of http.Transport it may be closed while
// another goroutine reads.
type reply struct {
	io.ReadCloser
	ctx      context.Context //nolint:containedctx // that of the request, whose end explains errors
	d        picker.Decision
	result   picker.Result // if it is complete
	upgraded bool

	mu    sync.Mutex
	usage *usage // nil: not looked for
	ended bool
}

var errClosed = errors.New("closed")

func (b *reply) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.usage != nil {
		b.mu.Lock()
		first := b.usage.read(p[:n])
		b.mu.Unlock()
		if first {
			b.d.FirstToken()
		}
	}
	if err != nil && !b.upgraded { // of an upgraded one, the other direction may be open
		b.end(err)
	}
	return n, err
}

func (b *reply) Close() error {
	err := b.ReadCloser.Close()
	b.end(errClosed)
	return err
}

// end releases what the pick reserved, the first time.
func (b *reply) end(why error) {
	b.mu.Lock()
	was := b.ended
	b.ended = true
	o := picker.Outcome{Result: b.result}
	complete := errors.Is(why, io.EOF) || b.upgraded
	if b.usage != nil {
		// Clients may stop reading at the end of the answer, before that of the body.
		complete = complete || b.usage.complete
		if b.usage.known {
			o.CachedTokens = scorer.Known(float64(b.usage.cached))
		}
	}
	b.mu.Unlock()
	switch {
	case was:
		return
	case complete:
	case errors.Is(why, errClosed) || b.ctx.Err() != nil:
		o.Result = picker.Canceled
	default:
		o.Result = picker.Failed
	}
	b.d.Done(o)
}

// upgraded is the body of a reply with 101: a connection.
type upgraded struct {
	*reply
	io.Writer
}

// CloseWrite lets a proxy close one direction, if the connection can.
func (u *upgraded) CloseWrite() error {
	if c, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
