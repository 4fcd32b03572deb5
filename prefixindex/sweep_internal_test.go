package prefixindex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNobodyWaitsForTheSweep has a sweep go on for ever. ai-dynamo/dynamo#14652: who
// joined waited until what another had left was cleaned up.
func TestNobodyWaitsForTheSweep(t *testing.T) {
	ix, err := New(Options{BlockTokens: 4})
	require.NoError(t, err)
	var p Prompt
	p.Reset(Scope{}, make([]uint32, 40))
	a, err := ix.Join("a")
	require.NoError(t, err)
	require.NoError(t, ix.Insert(a, 0, &p, -1))

	ix.sweeping.Lock()
	done := make(chan error)
	go func() {
		ix.Leave(a)
		b, err := ix.Join("b")
		if err == nil {
			err = ix.Insert(b, 0, &p, -1)
		}
		var w *Writer
		if err == nil {
			w, err = ix.Writer(b, 0)
		}
		if err == nil {
			err = w.Clear()
		}
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a call waits for the sweep")
	}
	ix.sweeping.Unlock()
	require.Zero(t, ix.Stats().Blocks)
}
