package zmtp

import (
	"bufio"
	"io"
	"time"
)

// ReadAll reads messages and commands until an error, for tests of frames.
func ReadAll(r io.Reader, maxBytes int, take func(message [][]byte, command []byte)) error {
	in := frameReader{br: bufio.NewReader(r), maxBytes: maxBytes}
	for {
		message, command, err := in.read()
		if err != nil {
			return err
		}
		take(message, command)
	}
}

// Functions that tests of frames build on.
var (
	AppendMessage = appendMessage
	AppendCommand = appendCommand
)

// Backoff returns successive waits.
func Backoff(low, high time.Duration, seed uint64) (next func() time.Duration, reset func()) {
	b := newBackoff(low, high, seed)
	return b.next, b.reset
}
