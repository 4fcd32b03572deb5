package zmtp_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

func TestSmoke(t *testing.T) {
	p, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0", HWM: 100000})
	require.NoError(t, err)
	defer p.Close()
	s, err := zmtp.NewSource(zmtp.SourceOptions{Address: p.Address()})
	require.NoError(t, err)
	defer s.Close()
	require.Eventually(t, func() bool { return p.Subscribers("") == 1 }, 5*time.Second, time.Millisecond)
	for i := range 10000 {
		require.NoError(t, p.Send(nil, binary.BigEndian.AppendUint64(nil, uint64(i)), []byte("hello")))
	}
	for i := range 10000 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		f, err := s.Receive(ctx)
		cancel()
		require.NoError(t, err)
		require.Equal(t, kvevents.Frame{Seq: uint64(i), Payload: []byte("hello")}, f)
	}
	t.Logf("%+v", s.Stats())
}
