package openaireq

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Read reads the body of r with [ReadBody], parses it into b as the kind that its path
// has, and looks for the session header. Errors are those of ReadBody and Parse; after
// either, r can be forwarded.
//
// O(bytes); waits for the body. r is changed as ReadBody does.
func (p *Parser) Read(r *http.Request, b *Body) error {
	body, err := ReadBody(r, p.o.MaxBytes)
	if err != nil {
		*b = Body{Tokens: b.Tokens[:0], head: b.head, err: err}
		return err
	}
	err = p.Parse(KindOf(r.URL.Path), body, b)
	if p.o.SessionHeader != "" {
		if key := r.Header.Get(p.o.SessionHeader); key != "" {
			b.Request.Session = key
		}
	}
	return err
}

// ReadBody reads the whole body of r, at most limit bytes, and re-arms r with it: Body
// reads it again, GetBody again and again, and ContentLength is its length. The bytes
// are shared by all readers, and not to be changed.
//
// A longer body is a *http.MaxBytesError, to be answered with 413; r is re-armed all the
// same, with what was read followed by what was not, so that it can still be forwarded
// once. Any other error is the body's.
//
// O(bytes); waits for the body. Memory grows with what has arrived, not with what
// Content-Length promises.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 1<<20)) + bytes.MinRead)
	}
	rest := r.Body
	n, err := buf.ReadFrom(io.LimitReader(rest, limit+1))
	if err != nil {
		r.Body = readCloser{io.MultiReader(bytes.NewReader(buf.Bytes()), failed{err}), rest}
		return nil, fmt.Errorf("openaireq: reading the body: %w", err)
	}
	if n > limit {
		r.Body = readCloser{io.MultiReader(bytes.NewReader(buf.Bytes()), rest), rest}
		return nil, tooLarge(limit)
	}
	body := buf.Bytes()
	_ = rest.Close() // was read to its end
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	return body, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("openaireq: body is larger than %d bytes: %w", limit, &http.MaxBytesError{Limit: limit})
}

// readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// failed is a reader that has failed.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
