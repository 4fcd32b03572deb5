package zmtp_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// oldPeer plays a SUB of ZMTP 3.0, which subscribes by message, to a Publisher.
func oldPeer(t *testing.T, address, socketType string) (net.Conn, *bufio.Reader) {
	nc, err := net.Dial("tcp", address[len("tcp://"):])
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(5*time.Second)))
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := "\x05READY\x0bsocket-TYPE" + string(binary.BigEndian.AppendUint32(nil, uint32(len(socketType)))) + socketType
	_, err = nc.Write(append(greeting, append([]byte{4, byte(len(ready))}, ready...)...))
	require.NoError(t, err)
	r := bufio.NewReader(nc)
	_, err = io.ReadFull(r, make([]byte, 64))
	require.NoError(t, err)
	return nc, r
}

func read(t *testing.T, r io.Reader, n int) string {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	require.NoError(t, err)
	return string(b)
}

func TestPublisherWithOldSubscriber(t *testing.T) {
	pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0"})
	require.NoError(t, err)
	defer pub.Close()
	nc, r := oldPeer(t, pub.Address(), "SUB")
	ready := "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	require.Equal(t, ready, read(t, r, len(ready)))
	count := func(topic string, n int) {
		require.Eventually(t, func() bool { return pub.Subscribers(topic) == n }, 5*time.Second, time.Millisecond)
	}
	subscribe, cancel := "\x00\x03\x01kv", "\x00\x03\x00kv"
	_, err = io.WriteString(nc, subscribe+subscribe+cancel)
	require.NoError(t, err)
	count("kv@x", 1)
	require.Zero(t, pub.Subscribers("k"))
	require.NoError(t, pub.Send([]byte("other"), []byte("no")))
	require.NoError(t, pub.Send([]byte("kv1"), []byte("yes")))
	require.Equal(t, "\x01\x03kv1\x00\x03yes", read(t, r, 10))

	// A PING is answered ahead of what is queued.
	_, err = io.WriteString(nc, "\x04\x0a\x04PING\x00\x00abc")
	require.NoError(t, err)
	require.Equal(t, "\x04\x08\x04PONGabc", read(t, r, 10))

	_, err = io.WriteString(nc, cancel)
	require.NoError(t, err)
	count("kv@x", 0)
	require.NoError(t, nc.Close())
	require.Zero(t, pub.Dropped())
}

// The wrong socket is told so before it is cut off.
func TestPublisherRefuses(t *testing.T) {
	pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0"})
	require.NoError(t, err)
	defer pub.Close()
	_, r := oldPeer(t, pub.Address(), "PULL")
	ready := "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	read(t, r, len(ready))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "\x04\x1a\x05ERROR\x13Invalid socket type", string(rest))
	require.Zero(t, pub.Subscribers(""))
}

// A subscriber that promised signs of life and gives none is let go, with its queue.
func TestPublisherHonoursTTL(t *testing.T) {
	pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0"})
	require.NoError(t, err)
	defer pub.Close()
	nc, r := oldPeer(t, pub.Address(), "SUB")
	_, err = io.WriteString(nc, "\x00\x01\x01"+"\x04\x07\x04PING\x00\x02")
	require.NoError(t, err)
	_, err = io.ReadAll(r)
	require.NoError(t, err, "the publisher closes after 0.2 s")
	require.Eventually(t, func() bool { return pub.Subscribers("") == 0 }, 5*time.Second, time.Millisecond)
}

func TestClosedSockets(t *testing.T) {
	pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0"})
	require.NoError(t, err)
	require.ErrorIs(t, pub.Send(), zmtp.ErrOptions)
	_, err = zmtp.NewRouter(zmtp.RouterOptions{Address: pub.Address()})
	require.ErrorIs(t, err, zmtp.ErrUnreachable, "the address is taken")
	pub.Close()
	pub.Close()
	require.ErrorIs(t, pub.Send(nil), zmtp.ErrClosed)
	router, err := zmtp.NewRouter(zmtp.RouterOptions{Address: pub.Address()})
	require.NoError(t, err)
	require.NoError(t, router.Send([]byte("nobody"), nil))
	require.EqualValues(t, 1, router.Dropped())
	require.ErrorIs(t, router.Send([]byte("x")), zmtp.ErrOptions)
	router.Close()
	router.Close()
	require.ErrorIs(t, router.Send([]byte("x"), nil), zmtp.ErrClosed)
	_, err = router.Receive(t.Context())
	require.ErrorIs(t, err, zmtp.ErrClosed)
}
