package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// transport makes a Transport, closed when the test ends. nil keys: none.
type transport struct {
	name string
	open func(t *testing.T) zmtp.Transport
}

// engine is the publishing side: a PUB and a ROUTER which replays what was published.
type engine interface {
	// publish sends a batch and keeps it for replays.
	publish(topic string, seq uint64, payload []byte)

	// raw sends a message as it is.
	raw(parts ...[]byte)

	close()
}

// engineOptions say what to open; addresses are complete.
type engineOptions struct {
	address   string
	connect   bool
	replay    string        // "": none
	topics    bool          // in replies: the later of the two layouts
	heartbeat time.Duration // of the PUB; 0: none
}

type engineKind struct {
	name       string
	open       func(t *testing.T, o engineOptions) engine
	heartbeats bool
}

var native = transport{"zmtp", func(*testing.T) zmtp.Transport { return zmtp.Native{} }}

// each runs f for every pair.
func each(t *testing.T, f func(t *testing.T, tr zmtp.Transport, kind engineKind)) {
	for _, kind := range engineKinds(t) {
		for _, tr := range transports() {
			t.Run(fmt.Sprintf("publisher=%s/subscriber=%s", kind.name, tr.name), func(t *testing.T) {
				noLeak(t)
				f(t, tr.open(t), kind)
			})
		}
	}
}

// eachTransport runs f for every receiving side.
func eachTransport(t *testing.T, f func(t *testing.T, tr zmtp.Transport)) {
	for _, tr := range transports() {
		t.Run("subscriber="+tr.name, func(t *testing.T) {
			noLeak(t)
			f(t, tr.open(t))
		})
	}
}

// noLeak fails the test if it leaves goroutines or descriptors behind. It must be
// called first, so that it looks last.
func noLeak(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > goroutines || descriptors(t) > files {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("left behind: %d goroutines (%d before), %d descriptors (%d before)\n%s",
					runtime.NumGoroutine(), goroutines, descriptors(t), files, stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// descriptors counts the process's open files, where the system shows them.
func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	return len(entries)
}

// freeAddress returns an address that nobody listens at. It is not of the range from
// which systems take the ports of those who dial: a subscriber that dials its own
// machine again and again would be given the publisher's port, and connect to itself.
func freeAddress(t *testing.T) string {
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err == nil {
			_ = ln.Close()
			return "tcp://" + ln.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// newSource returns a Source with short times, closed when the test ends.
func newSource(t *testing.T, tr zmtp.Transport, o zmtp.SourceOptions) *source {
	o.Transport = tr
	if o.BackoffMax == 0 {
		o.BackoffMin, o.BackoffMax = 5*time.Millisecond, 100*time.Millisecond
	}
	s, err := zmtp.NewSource(o)
	require.NoError(t, err)
	t.Cleanup(func() { closeSoon(t, s) })
	return &source{Source: s}
}

// source counts what Receive says of connections, and receives frames alone.
type source struct {
	*zmtp.Source

	reconnects uint64 // seen so far; of the goroutine that receives
}

func (s *source) Receive(ctx context.Context) (kvevents.Frame, error) {
	for {
		f, err := s.Source.Receive(ctx)
		if !errors.Is(err, kvevents.ErrReconnected) {
			return f, err
		}
		s.reconnects++
	}
}

// closeSoon closes s, which must not take long whatever its peer does.
func closeSoon(t *testing.T, s io.Closer) {
	start := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(start), 3*time.Second, "Close")
}

func receive(t *testing.T, s *source) kvevents.Frame {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	f, err := s.Receive(ctx)
	require.NoError(t, err, "%+v", s.Stats())
	return f
}

// quiet fails if a frame comes within d.
func quiet(t *testing.T, s *source, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	f, err := s.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "%v", f)
}

func eventually(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 10*time.Second, 2*time.Millisecond)
}

// join publishes until s hears it, as a PUB tells nobody when a subscription has
// arrived. It returns the next number; nothing is left in s.
func join(t *testing.T, e engine, s *source, topic string, seq uint64) uint64 {
	deadline := time.Now().Add(10 * time.Second)
	for s.Stats().QueueFrames == 0 {
		require.True(t, time.Now().Before(deadline), "%+v", s.Stats())
		e.publish(topic, seq, []byte("join"))
		seq++
		time.Sleep(5 * time.Millisecond)
	}
	for {
		if receive(t, s).Seq == seq-1 {
			return seq
		}
	}
}
