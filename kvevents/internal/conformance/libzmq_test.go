//go:build libzmq

package conformance_test

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/libzmq"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

func transports() []transport {
	return []transport{native, {"libzmq", openLibzmq(libzmq.Options{})}}
}

func openLibzmq(o libzmq.Options) func(t *testing.T) zmtp.Transport {
	return func(t *testing.T) zmtp.Transport {
		tr, err := libzmq.New(o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		return tr
	}
}

func engineKinds(t *testing.T) []engineKind {
	return append([]engineKind{
		{name: "zmtp", open: openNative},
		{name: "libzmq", open: openPebbe, heartbeats: true},
	}, python(t)...)
}

// pebbeEngine publishes with libzmq. A libzmq socket is used by one goroutine at a
// time: mu guards the PUB, and a goroutine owns the ROUTER.
type pebbeEngine struct {
	zctx *zmq.Context
	ring ring
	stop chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex
	pub *zmq.Socket
}

func openPebbe(t *testing.T, o engineOptions) engine { return openPebbeWith(t, o, nil) }

func openPebbeWith(t *testing.T, o engineOptions, prepare func(*zmq.Socket) error) engine {
	e := &pebbeEngine{stop: make(chan struct{})}
	var err error
	e.zctx, err = zmq.NewContext()
	require.NoError(t, err)
	e.pub, err = e.zctx.NewSocket(zmq.PUB)
	require.NoError(t, err)
	require.NoError(t, e.pub.SetSndhwm(100_000))
	require.NoError(t, e.pub.SetLinger(0))
	require.NoError(t, e.pub.SetIpv6(true))
	if o.heartbeat > 0 {
		require.NoError(t, e.pub.SetHeartbeatIvl(o.heartbeat))
		require.NoError(t, e.pub.SetHeartbeatTimeout(2*o.heartbeat))
		require.NoError(t, e.pub.SetHeartbeatTtl(2*o.heartbeat))
	}
	if prepare != nil {
		require.NoError(t, prepare(e.pub))
	}
	if o.connect {
		require.NoError(t, e.pub.Connect(o.address))
	} else {
		bindSoon(t, e.pub, o.address)
	}
	if o.replay != "" {
		router, err := e.zctx.NewSocket(zmq.ROUTER)
		require.NoError(t, err)
		require.NoError(t, router.SetSndhwm(100_000))
		require.NoError(t, router.SetLinger(0))
		require.NoError(t, router.SetRcvtimeo(20*time.Millisecond))
		bindSoon(t, router, o.replay)
		e.wg.Go(func() {
			defer router.Close()
			for {
				select {
				case <-e.stop:
					return
				default:
				}
				request, err := router.RecvMessageBytes(0)
				if err != nil || len(request) != 3 || len(request[1]) != 0 || len(request[2]) != 8 {
					continue
				}
				for _, reply := range e.ring.replies(request[2], o.topics) {
					_, _ = router.SendMessage(request[0], reply)
				}
			}
		})
	}
	return e
}

// bindSoon binds to an address that a socket, closed just now, may still hold.
func bindSoon(t *testing.T, soc *zmq.Socket, address string) {
	eventually(t, func() bool {
		err := soc.Bind(address)
		if zmq.AsErrno(err) != zmq.Errno(syscall.EADDRINUSE) {
			require.NoError(t, err)
		}
		return err == nil
	})
}

func (e *pebbeEngine) publish(topic string, seq uint64, payload []byte) {
	m := e.ring.add(topic, seq, payload)
	e.raw(m[:]...)
}

func (e *pebbeEngine) raw(parts ...[]byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.pub.SendMessage(parts)
}

func (e *pebbeEngine) close() {
	close(e.stop)
	e.wg.Wait()
	_ = e.pub.Close()
	_ = e.zctx.Term()
}

// Only libzmq has CURVE: with the keys it works both ways round, without them nothing is heard.
func TestCurve(t *testing.T) {
	noLeak(t)
	serverPublic, serverSecret, err := zmq.NewCurveKeypair()
	require.NoError(t, err)
	clientPublic, clientSecret, err := zmq.NewCurveKeypair()
	require.NoError(t, err)
	keys := libzmq.Options{ServerKey: serverPublic, PublicKey: clientPublic, SecretKey: clientSecret}

	o := engineOptions{address: freeAddress(t)}
	e := openPebbeWith(t, o, func(pub *zmq.Socket) error {
		return errors.Join(pub.SetCurveServer(1), pub.SetCurveSecretkey(serverSecret))
	})
	defer e.close()
	s := newSource(t, openLibzmq(keys)(t), zmtp.SourceOptions{Address: o.address})
	join(t, e, s, "", 0)

	for _, tr := range transports() {
		plain := newSource(t, tr.open(t), zmtp.SourceOptions{Address: o.address, HandshakeTimeout: 200 * time.Millisecond})
		eventually(t, func() bool { return plain.Stats().Disconnects.Handshake > 0 })
		require.Zero(t, plain.Stats().Connects)
	}

	listening := zmtp.SourceOptions{Address: freeAddress(t), Listen: true}
	s = newSource(t, openLibzmq(libzmq.Options{ServerKey: serverPublic, PublicKey: serverPublic, SecretKey: serverSecret})(t), listening)
	e2 := openPebbeWith(t, engineOptions{address: listening.Address, connect: true}, func(pub *zmq.Socket) error {
		return pub.ClientAuthCurve(serverPublic, clientPublic, clientSecret)
	})
	defer e2.close()
	join(t, e2, s, "", 0)

	for _, bad := range []libzmq.Options{
		{ServerKey: serverPublic},
		{ServerKey: serverPublic, PublicKey: clientPublic, SecretKey: "short"},
	} {
		_, err := libzmq.New(bad)
		require.ErrorIs(t, err, zmtp.ErrOptions)
	}
}

// A Transport closed under its Sources ends them soon, and they end all the same.
func TestTransportClosedFirst(t *testing.T) {
	noLeak(t)
	tr, err := libzmq.New(libzmq.Options{})
	require.NoError(t, err)
	o := engineOptions{address: freeAddress(t)}
	e := openNative(t, o)
	defer e.close()
	s := newSource(t, tr, zmtp.SourceOptions{Address: o.address})
	join(t, e, s, "", 0)
	require.NoError(t, tr.Close())
	require.NoError(t, tr.Close())
	eventually(t, func() bool { return s.Stats().Disconnects.Lost > 1 })
	require.ErrorIs(t, s.Stats().LastError, zmtp.ErrClosed)
}

func benchTransports(b *testing.B) []benchTransport {
	tr, err := libzmq.New(libzmq.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = tr.Close() })
	return []benchTransport{{"zmtp", nil}, {"libzmq", tr}}
}

// BenchmarkBare is pebbe/zmq4 alone, blocking on one thread, with nothing around it: the
// floor of the libzmq transport.
func BenchmarkBare(b *testing.B) {
	for _, n := range []int{256, 4096} {
		b.Run(fmt.Sprintf("impl=pebbe/bytes=%d", n), func(b *testing.B) {
			address, credit := firehose(b, n)
			zctx, err := zmq.NewContext()
			require.NoError(b, err)
			soc, err := zctx.NewSocket(zmq.SUB)
			require.NoError(b, err)
			require.NoError(b, soc.SetSubscribe(""))
			require.NoError(b, soc.Connect(address))
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for i := range b.N {
				if _, err := soc.RecvMessageBytes(0); err != nil {
					b.Fatal(err)
				}
				if i%chunk == chunk-1 {
					credit <- struct{}{}
				}
			}
			_ = soc.Close()
			_ = zctx.Term()
		})
	}
}
