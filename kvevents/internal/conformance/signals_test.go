//go:build unix

package conformance_test

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// Signals interrupt system calls, also those of libzmq, and Go itself sends some to preempt:
// nothing is lost, and no connection, by calls that fail with EINTR.
func TestSignals(t *testing.T) {
	caught := make(chan os.Signal, 1) // for the handler that it brings; nobody needs to read it
	signal.Notify(caught, syscall.SIGUSR1)
	defer signal.Stop(caught)
	each(t, func(t *testing.T, tr zmtp.Transport, kind engineKind) {
		stop := make(chan struct{})
		var storm sync.WaitGroup
		defer storm.Wait()
		defer close(stop)
		storm.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Microsecond):
					_ = syscall.Kill(os.Getpid(), syscall.SIGUSR1)
				}
			}
		})
		o := engineOptions{address: freeAddress(t), replay: freeAddress(t)}
		e := kind.open(t, o)
		defer e.close()
		s := newSource(t, tr, zmtp.SourceOptions{Address: o.address, ReplayAddress: o.replay})
		seq := join(t, e, s, "", 0)
		const frames = 2000
		for i := range uint64(frames) {
			e.publish("", seq+i, payload(seq+i, 1000))
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		for i := range uint64(frames) {
			require.Equal(t, seq+i, receive(t, s).Seq)
		}
		next := seq
		require.NoError(t, s.Replay(t.Context(), seq, func(f kvevents.Frame) error {
			require.Equal(t, next, f.Seq)
			next++
			return nil
		}))
		require.Equal(t, seq+frames, next)
		require.Zero(t, s.Stats().Disconnects.Total())
		require.EqualValues(t, 1, s.Stats().Connects)
	})
}
