package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrProtocol means that a peer sent what is no ZMTP, or went past a bound. The
// connection to it has been closed.
var ErrProtocol = errors.New("zmtp: protocol error")

// Flags of a frame. The other bits are reserved and zero.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

const (
	maxParts   = 64       // of a message; an event has 3, a reply to a replay request at most 4
	maxCommand = 64 << 10 // bytes of a command's body: a subscription is the longest
	maxShort   = 255      // bytes of a frame with a length of one byte

	// firstGrab bounds what a frame's declared length alone makes us allocate. Beyond
	// it the buffer doubles as bytes arrive.
	firstGrab = 256 << 10
)

// frameReader cuts a byte stream into messages and commands.
type frameReader struct {
	br       *bufio.Reader
	maxBytes int // of a message

	parts   [][]byte // memory of messages: parts[:n] is the one under way
	n       int
	bytes   int
	command []byte
}

// read returns the next message, or the next command, which may come between the
// frames of a message. Either is valid until the next read, except that a part which
// the caller has set to nil is the caller's own.
func (r *frameReader) read() (message [][]byte, command []byte, err error) {
	for {
		flags, size, err := r.header()
		if err != nil {
			return nil, nil, err
		}
		if flags&flagCommand != 0 {
			r.command, err = r.body(r.command, int(size))
			return nil, r.command, err
		}
		if r.n == len(r.parts) {
			r.parts = append(r.parts, nil)
		}
		part := &r.parts[r.n]
		if cap(*part) > firstGrab {
			*part = nil // one large message does not keep its memory for ever
		}
		if *part, err = r.body(*part, int(size)); err != nil {
			return nil, nil, err
		}
		r.n++
		r.bytes += int(size)
		if flags&flagMore == 0 {
			message = r.parts[:r.n]
			r.n, r.bytes = 0, 0
			return message, nil, nil
		}
	}
}

// header reads a frame's flags and size. Every bound is checked here, before there is
// memory for the body.
func (r *frameReader) header() (flags byte, size uint64, err error) {
	flags, err = r.br.ReadByte()
	if err != nil {
		return 0, 0, err // between frames io.EOF is a clean end
	}
	width := 1
	if flags&flagLong != 0 {
		width = 8
	}
	b, err := r.br.Peek(width)
	if err != nil {
		return 0, 0, noEOF(err)
	}
	if width == 8 {
		size = binary.BigEndian.Uint64(b)
	} else {
		size = uint64(b[0])
	}
	_, _ = r.br.Discard(width) // cannot fail after Peek
	switch {
	case flags&^(flagMore|flagLong|flagCommand) != 0:
		return 0, 0, fmt.Errorf("%w: frame flags %#x", ErrProtocol, flags)
	case flags&flagCommand != 0 && flags&flagMore != 0:
		return 0, 0, fmt.Errorf("%w: command in more than one frame", ErrProtocol)
	case flags&flagCommand != 0 && size > maxCommand:
		return 0, 0, fmt.Errorf("%w: command of %d bytes, at most %d", ErrProtocol, size, maxCommand)
	case flags&flagCommand != 0:
	case size > uint64(r.maxBytes-r.bytes):
		return 0, 0, fmt.Errorf("%w: frame of %d bytes after %d, at most %d a message",
			ErrProtocol, size, r.bytes, r.maxBytes)
	case r.n == maxParts:
		return 0, 0, fmt.Errorf("%w: message of more than %d frames", ErrProtocol, maxParts)
	}
	return flags, size, nil
}

// body reads size bytes into the memory of dst.
func (r *frameReader) body(dst []byte, size int) ([]byte, error) {
	dst = dst[:0]
	for len(dst) < size {
		had := len(dst)
		dst = slices.Grow(dst, min(size-had, max(had, firstGrab)))
		dst = dst[:min(size, cap(dst))]
		if _, err := io.ReadFull(r.br, dst[had:]); err != nil {
			return dst, noEOF(err)
		}
	}
	return dst, nil
}

// noEOF is err of a read inside a frame, where an end of the stream is no clean one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends one frame. flags are without flagLong, which follows from body.
func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) <= maxShort {
		dst = append(dst, flags, byte(len(body)))
	} else {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	}
	return append(dst, body...)
}

// appendMessage appends a message of parts.
func appendMessage(dst []byte, parts [][]byte) []byte {
	for i, part := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		dst = appendFrame(dst, flags, part)
	}
	return dst
}

// messageSize is how many bytes appendMessage appends at most.
func messageSize(parts [][]byte) int {
	size := 0
	for _, part := range parts {
		size += 9 + len(part)
	}
	return size
}
