package conformance_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// nativeEngine publishes with this module's own sockets.
type nativeEngine struct {
	pub    *zmtp.Publisher
	router *zmtp.Router
	ring   ring
	wg     sync.WaitGroup
}

// ring is what an engine keeps for replays.
type ring struct {
	mu   sync.Mutex
	kept [][3][]byte
}

func (r *ring) add(topic string, seq uint64, payload []byte) [3][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := [3][]byte{[]byte(topic), binary.BigEndian.AppendUint64(nil, seq), payload}
	r.kept = append(r.kept, m)
	return m
}

// replies are the messages that answer a request, without identity.
func (r *ring) replies(request []byte, topics bool) [][][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out [][][]byte
	for _, m := range r.kept {
		if binary.BigEndian.Uint64(m[1]) < binary.BigEndian.Uint64(request) {
			continue
		}
		if topics {
			out = append(out, [][]byte{{}, m[0], m[1], m[2]})
		} else {
			out = append(out, [][]byte{{}, m[1], m[2]})
		}
	}
	end := binary.BigEndian.AppendUint64(nil, 1<<64-1)
	if topics {
		return append(out, [][]byte{{}, {}, end, {}})
	}
	return append(out, [][]byte{{}, end, {}})
}

func openNative(t *testing.T, o engineOptions) engine {
	e := &nativeEngine{}
	var err error
	e.pub, err = zmtp.NewPublisher(zmtp.PublisherOptions{Address: o.address, Connect: o.connect, HWM: 100_000})
	require.NoError(t, err)
	if o.replay != "" {
		e.router, err = zmtp.NewRouter(zmtp.RouterOptions{Address: o.replay, HWM: 100_000})
		require.NoError(t, err)
		e.wg.Go(func() {
			for {
				request, err := e.router.Receive(context.Background())
				if errors.Is(err, zmtp.ErrClosed) {
					return
				}
				if len(request) != 3 || len(request[1]) != 0 || len(request[2]) != 8 {
					continue // which an engine logs
				}
				for _, reply := range e.ring.replies(request[2], o.topics) {
					_ = e.router.Send(append([][]byte{request[0]}, reply...)...)
				}
			}
		})
	}
	return e
}

func (e *nativeEngine) publish(topic string, seq uint64, payload []byte) {
	m := e.ring.add(topic, seq, payload)
	e.raw(m[:]...)
}

func (e *nativeEngine) raw(parts ...[]byte) { _ = e.pub.Send(parts...) }

func (e *nativeEngine) close() {
	e.pub.Close()
	if e.router != nil {
		e.router.Close()
	}
	e.wg.Wait()
}
