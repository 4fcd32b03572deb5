package conformance_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

const (
	chunk   = 500 // messages written at once
	credits = 4   // chunks under way
)

// firehose is a publisher that writes prepared bytes, a chunk for each credit, so that
// what is measured is the receiving side.
func firehose(b *testing.B, bytes int) (address string, credit chan<- struct{}) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	granted := make(chan struct{}, credits)
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		p := &rawPeer{Conn: nc, r: bufio.NewReader(nc)}
		if !p.handshake(1) {
			return
		}
		var stream []byte
		for range chunk {
			stream = zmtpMessage(stream, bytes)
		}
		for range granted {
			if _, err := nc.Write(stream); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		close(granted)
		_ = ln.Close()
		<-done
	})
	for range credits {
		granted <- struct{}{}
	}
	return "tcp://" + ln.Addr().String(), granted
}

// zmtpMessage appends an event of three frames with a long payload.
func zmtpMessage(dst []byte, bytes int) []byte {
	dst = append(dst, event(7, "")[:12]...)
	dst = append(dst, 2, 0, 0, 0, 0, byte(bytes>>24), byte(bytes>>16), byte(bytes>>8), byte(bytes))
	return append(dst, make([]byte, bytes)...)
}

// BenchmarkSubscriber is what a message costs a Source, by transport, from the socket to
// Receive.
func BenchmarkSubscriber(b *testing.B) {
	for _, tr := range benchTransports(b) {
		for _, n := range []int{256, 4096} {
			b.Run(fmt.Sprintf("impl=%s/bytes=%d", tr.name, n), func(b *testing.B) {
				address, credit := firehose(b, n)
				s, err := zmtp.NewSource(zmtp.SourceOptions{Address: address, Transport: tr.transport})
				require.NoError(b, err)
				defer s.Close()
				b.ReportAllocs()
				b.SetBytes(int64(n))
				for i := range b.N {
					if _, err := s.Receive(b.Context()); err != nil {
						b.Fatal(err)
					}
					if i%chunk == chunk-1 {
						credit <- struct{}{}
					}
				}
			})
		}
	}
}

type benchTransport struct {
	name      string
	transport zmtp.Transport
}
