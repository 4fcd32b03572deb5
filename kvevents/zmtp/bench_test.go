package zmtp_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// BenchmarkFrames is reading alone, without a socket: three frames a message, of which
// the last is kept.
func BenchmarkFrames(b *testing.B) {
	for name, n := range map[string]int{"bytes=128": 128, "bytes=4096": 4096} {
		b.Run("impl=warmroute/"+name, func(b *testing.B) {
			message := zmtp.AppendMessage(nil, [][]byte{[]byte("kv"), make([]byte, 8), make([]byte, n)})
			stream := bytes.Repeat(message, 1000)
			b.ReportAllocs()
			b.SetBytes(int64(len(message)))
			for left := b.N; left > 0; left -= 1000 {
				_ = zmtp.ReadAll(bytes.NewReader(stream), 1<<20, func(m [][]byte, _ []byte) { m[2] = nil })
			}
		})
	}
}

// BenchmarkStats is what a page that shows every Source pays for each.
func BenchmarkStats(b *testing.B) {
	s, err := zmtp.NewSource(zmtp.SourceOptions{Address: "tcp://127.0.0.1:1", Transport: &fakeTransport{}})
	require.NoError(b, err)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Stats()
	}
}

// BenchmarkReceive is a Source over loopback TCP, fed by a Publisher of this package: what
// a message costs both of them.
func BenchmarkReceive(b *testing.B) {
	for name, n := range map[string]int{"bytes=128": 128, "bytes=4096": 4096} {
		b.Run("impl=warmroute/"+name, func(b *testing.B) {
			pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0", HWM: 1 << 30})
			require.NoError(b, err)
			defer pub.Close()
			s, err := zmtp.NewSource(zmtp.SourceOptions{Address: pub.Address()})
			require.NoError(b, err)
			defer s.Close()
			for pub.Subscribers("") == 0 {
				time.Sleep(time.Millisecond)
			}
			payload := make([]byte, n)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			const ahead = 1000 // messages under way, so that no queue overflows
			sent := 0
			for received := range b.N {
				for ; sent < b.N && sent < received+ahead; sent++ {
					_ = pub.Send(nil, binary.BigEndian.AppendUint64(nil, uint64(sent)), payload)
				}
				f, err := s.Receive(b.Context())
				if err != nil || f.Seq != uint64(received) {
					b.Fatal(f.Seq, received, err)
				}
			}
		})
	}
}
