package httptransport

import (
	"errors"
	"io"
	"sync"
)

// payload is a request's body, as one attempt sends it. Transports keep a request until
// its reply has ended, which in a stream takes minutes; so the bytes are let go of when
// they are sent, and not when the request is.
type payload struct {
	mu   sync.Mutex // a transport may close while it reads
	data []byte     // still to be read; nil: closed
}

var errSent = errors.New("httptransport: the body was let go of, as the reply has begun")

// again returns a payload of its own with the same bytes.
func (p *payload) again() (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.data == nil {
		return nil, errSent
	}
	return &payload{data: p.data}, nil
}

func (p *payload) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

func (p *payload) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = nil
	return nil
}
