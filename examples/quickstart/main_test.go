package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// pipes is a network inside the process, so that a run can live on a synctest bubble's
// clock: minutes of engine time in a moment, and on a slow machine the same.
func pipes() network {
	var mu sync.Mutex
	listeners := map[string]*pipeListener{}
	return network{
		listen: func() (net.Listener, error) {
			mu.Lock()
			defer mu.Unlock()
			l := &pipeListener{
				addr:  fmt.Sprintf("engine-%d.example.com:80", len(listeners)),
				conns: make(chan net.Conn), closed: make(chan struct{}),
			}
			listeners[l.addr] = l
			return l, nil
		},
		dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			mu.Lock()
			l := listeners[addr]
			mu.Unlock()
			client, server := net.Pipe()
			select {
			case l.conns <- server:
				return client, nil
			case <-l.closed:
				return nil, net.ErrClosed
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

type pipeListener struct {
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return l }

func (l *pipeListener) Network() string { return "pipe" }
func (l *pipeListener) String() string  { return l.addr }

// The margins that the README promises, on five seeds.
func TestComparison(t *testing.T) {
	gain := func(t *testing.T, blocks int, seed uint64) (overRoundRobin, overSticky float64) {
		synctest.Test(t, func(t *testing.T) {
			o := engineOptions()
			o.Blocks = blocks
			results, err := compare(t.Context(), agents(), o, seed, pipes())
			require.NoError(t, err)
			require.Len(t, results, 3)
			for _, r := range results {
				require.GreaterOrEqual(t, r.requests, 200)
			}
			var table strings.Builder
			printTable(&table, results)
			t.Logf("seed %d, %d blocks an engine:\n%s", seed, blocks, table.String())
			overRoundRobin = 100 * (results[2].hitRate() - results[0].hitRate())
			overSticky = 100 * (results[2].hitRate() - results[1].hitRate())
		})
		return overRoundRobin, overSticky
	}
	for seed := uint64(1); seed <= 5; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			rr, sticky := gain(t, engineOptions().Blocks, seed)
			require.GreaterOrEqual(t, rr, 15.0, "points of hit rate over round-robin")
			require.GreaterOrEqual(t, sticky, 5.0, "points of hit rate over sticky")
			if seed > 2 {
				return
			}
			ampleRR, ampleSticky := gain(t, 100_000, seed)
			require.Less(t, ampleRR, rr, "room for everything leaves less to gain")
			require.Less(t, ampleSticky, sticky, "room for everything leaves less to gain")
		})
	}
}

func TestScenes(t *testing.T) {
	for i, sc := range scenes {
		t.Run(sc.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, err := playScene(t.Context(), pipes(), i)
				require.NoError(t, err)
				require.Equal(t, sc.want, rec.Winner, rec.Explain())
			})
		})
	}
}

func TestExplanations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, explain(t.Context(), &out, pipes()))
		t.Log(out.String())
		for i := range scenes {
			require.Contains(t, out.String(), fmt.Sprintf("\n%d. ", i+1))
		}
	})
}
