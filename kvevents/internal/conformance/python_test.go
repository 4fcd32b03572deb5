package conformance_test

import (
	"bufio"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pythonPath is a python3 that has pyzmq, or "".
var pythonPath = sync.OnceValue(func() string {
	path := os.Getenv("WARMROUTE_PYTHON")
	if path == "" {
		path = "python3"
	}
	if exec.Command(path, "-c", "import zmq").Run() != nil {
		return ""
	}
	return path
})

// python is the kind of engine that pyzmq makes, if it can be had.
func python(t *testing.T) []engineKind {
	if pythonPath() == "" {
		t.Run("publisher=pyzmq", func(t *testing.T) {
			t.Skip("no python3 with pyzmq; name one by WARMROUTE_PYTHON")
		})
		return nil
	}
	return []engineKind{{name: "pyzmq", open: openPython, heartbeats: true}}
}

type pythonEngine struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func openPython(t *testing.T, o engineOptions) engine {
	how, topics, replay := "bind", "0", o.replay
	if o.connect {
		how = "connect"
	}
	if o.topics {
		topics = "1"
	}
	if replay == "" {
		replay = "-"
	}
	cmd := exec.Command(pythonPath(), "testdata/engine.py", o.address, how, replay, topics,
		strconv.Itoa(int(o.heartbeat/time.Millisecond)))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", ready)
	return &pythonEngine{cmd: cmd, in: in}
}

func hexWord(b []byte) string {
	if len(b) == 0 {
		return "-"
	}
	return hex.EncodeToString(b)
}

func (e *pythonEngine) publish(topic string, seq uint64, payload []byte) {
	e.say("p " + hexWord([]byte(topic)) + " " + strconv.FormatUint(seq, 10) + " " + hexWord(payload))
}

func (e *pythonEngine) raw(parts ...[]byte) {
	line := "r"
	for _, part := range parts {
		line += " " + hexWord(part)
	}
	e.say(line)
}

// say tells the process what to do. If it is gone, the test notices by what is not done.
func (e *pythonEngine) say(line string) { _, _ = io.WriteString(e.in, line+"\n") }

// close kills the process, as an engine dies.
func (e *pythonEngine) close() {
	_ = e.cmd.Process.Kill()
	_ = e.in.Close()
	_ = e.cmd.Wait()
}
