package zmtp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	maxPeers    = 4096                  // of one bound address; more are turned away
	acceptPause = 50 * time.Millisecond // after a failure to accept: out of descriptors, mostly
)

// binding accepts peers at an address until it is closed.
type binding struct {
	at     endpoint
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// bind listens at an address and serves each peer on a goroutine of its own. serve must
// return when its context ends, and owns the connection.
func bind(ctx context.Context, at endpoint, serve func(ctx context.Context, nc net.Conn)) (*binding, error) {
	ln, err := at.listen(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &binding{at: at.bound(ln), cancel: cancel}
	freed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		_ = ln.Close()
		close(freed)
	})
	slots := make(chan struct{}, maxPeers)
	b.wg.Go(func() {
		// Accept fails a moment before the address is free for the next to bind.
		defer func() { <-freed }()
		for {
			nc, err := ln.Accept()
			if ctx.Err() != nil {
				if err == nil {
					_ = nc.Close()
				}
				return
			}
			if err != nil {
				sleep(ctx, acceptPause)
				continue
			}
			select {
			case slots <- struct{}{}:
				b.wg.Go(func() {
					serve(ctx, nc)
					<-slots
				})
			default:
				_ = nc.Close()
			}
		}
	})
	return b, nil
}

// close ends the binding and its peers, and waits for their goroutines.
func (b *binding) close() {
	b.cancel()
	b.wg.Wait()
}

// sleep waits, but not past the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
