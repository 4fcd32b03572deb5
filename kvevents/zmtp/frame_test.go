package zmtp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// clone is a message that outlives the next read.
func clone(m [][]byte) [][]byte {
	out := make([][]byte, len(m))
	for i := range m {
		out[i] = append([]byte{}, m[i]...)
	}
	return out
}

func TestFramesRoundTrip(t *testing.T) {
	var stream []byte
	lengths := []int{0, 1, 254, 255, 256, 257, 65_535, 65_536, 300_000, 1 << 20}
	want := make([][][]byte, 0, len(lengths))
	for _, n := range lengths {
		m := [][]byte{[]byte("topic"), make([]byte, 8), bytes.Repeat([]byte{7}, n)}
		want = append(want, m)
		stream = zmtp.AppendMessage(stream, m)
	}
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(stream),
		"bytes": iotest.OneByteReader(bytes.NewReader(stream)),
		"half":  iotest.HalfReader(bytes.NewReader(stream)),
	} {
		var got [][][]byte
		err := zmtp.ReadAll(r, 2<<20, func(m [][]byte, _ []byte) { got = append(got, clone(m)) })
		require.ErrorIs(t, err, io.EOF, name)
		require.Equal(t, want, got, name)
	}
}

// A command may come between the frames of a message.
func TestCommandInsideMessage(t *testing.T) {
	stream := zmtp.AppendMessage(nil, [][]byte{[]byte("a"), []byte("b")})
	first := 3
	stream = slices.Concat(stream[:first], zmtp.AppendCommand(nil, "PING", []byte("xyz")), stream[first:])
	var seen []string
	err := zmtp.ReadAll(bytes.NewReader(stream), 100, func(m [][]byte, c []byte) {
		if m != nil {
			seen = append(seen, string(bytes.Join(m, []byte(" "))))
		} else {
			seen = append(seen, string(c))
		}
	})
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"\x04PINGxyz", "a b"}, seen)
}

func TestFrameBounds(t *testing.T) {
	long := func(flags byte, size uint64) string {
		return string(binary.BigEndian.AppendUint64([]byte{flags | 2}, size))
	}
	for name, c := range map[string]struct {
		in  string
		err error
	}{
		"empty":               {"", io.EOF},
		"flags alone":         {"\x00", io.ErrUnexpectedEOF},
		"half a length":       {"\x02\x00\x00", io.ErrUnexpectedEOF},
		"half a body":         {"\x00\x05ab", io.ErrUnexpectedEOF},
		"half a message":      {"\x01\x01a", io.EOF},
		"just the bound":      {long(0, 1000) + strings.Repeat("x", 1000), io.EOF},
		"past it":             {long(0, 1001), zmtp.ErrProtocol},
		"2^62":                {long(0, 1<<62), zmtp.ErrProtocol},
		"2^63":                {long(0, 1<<63), zmtp.ErrProtocol},
		"2^64-1":              {long(0, 1<<64-1), zmtp.ErrProtocol},
		"past it together":    {long(1, 600) + strings.Repeat("x", 600) + long(0, 401), zmtp.ErrProtocol},
		"long command":        {long(4, 1<<16+1), zmtp.ErrProtocol},
		"command with more":   {"\x05\x01x", zmtp.ErrProtocol},
		"reserved flag":       {"\x08\x00", zmtp.ErrProtocol},
		"64 parts":            {strings.Repeat("\x01\x00", 63) + "\x00\x00", io.EOF},
		"65 parts":            {strings.Repeat("\x01\x00", 64) + "\x00\x00", zmtp.ErrProtocol},
		"long form of little": {long(0, 1) + "x", io.EOF},
	} {
		err := zmtp.ReadAll(strings.NewReader(c.in), 1000, func([][]byte, []byte) {})
		require.ErrorIs(t, err, c.err, name)
	}
}

// A length that the bound allows and the bytes do not follow costs little memory.
func TestLyingLength(t *testing.T) {
	header := binary.BigEndian.AppendUint64([]byte{2}, 1<<30)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := zmtp.ReadAll(bytes.NewReader(append(header, make([]byte, 1000)...)), 1<<30, nil)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// FuzzFrames: no input panics, no message goes past the bounds, and what is read, sent
// again, is read the same.
func FuzzFrames(f *testing.F) {
	f.Add(zmtp.AppendMessage(nil, [][]byte{[]byte("topic"), make([]byte, 8), []byte("payload")}))
	f.Add(zmtp.AppendCommand(nil, "PING", []byte("\x00\x0actx")))
	f.Add([]byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x01a\x04\x05\x04PONG\x00\x01b"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const bound = 1 << 12
		var again []byte
		var want [][][]byte
		err := zmtp.ReadAll(bytes.NewReader(in), bound, func(m [][]byte, _ []byte) {
			if m == nil {
				return
			}
			total := 0
			for _, part := range m {
				total += len(part)
			}
			if total > bound || len(m) > 64 {
				t.Fatalf("message of %d bytes in %d parts", total, len(m))
			}
			want = append(want, clone(m))
			again = zmtp.AppendMessage(again, m)
		})
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, zmtp.ErrProtocol) {
			t.Fatal(err)
		}
		var got [][][]byte
		err = zmtp.ReadAll(bytes.NewReader(again), bound, func(m [][]byte, _ []byte) { got = append(got, clone(m)) })
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, got)
	})
}
