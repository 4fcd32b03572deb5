//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/prefixindex"
)

// follower is an engine as an index knows it.
type follower struct {
	engine   *engine
	index    *prefixindex.Index
	endpoint prefixindex.Endpoint
	source   *zmtp.Source
	probe    *zmtp.Source // a connection of our own to the engine's replays
	sub      *kvevents.Subscriber
	next     uint64 // number of the batch that the engine publishes next, as far as known
	before   uint64 // batches applied before the engine's present life

	prompt prefixindex.Prompt
	match  prefixindex.Match
}

// follow joins an engine to ix and applies its events until the test ends.
func follow(t *testing.T, ix *prefixindex.Index, e *engine, at zmtp.RankAddresses) *follower {
	t.Helper()
	source := func() *zmtp.Source {
		s, err := zmtp.NewSource(zmtp.SourceOptions{Address: at.Address, ReplayAddress: at.ReplayAddress, Topic: at.Topic})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	ep, err := ix.Join(e.name)
	require.NoError(t, err)
	f := &follower{engine: e, index: ix, endpoint: ep, source: source(), probe: source()}
	f.sub, err = kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: ep, Rank: at.Rank, Model: modelName, Source: f.source,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.sub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return f
}

// settle waits until all that the engine has published has been applied, each batch
// once. What an answer left behind is in the engine's queue before the answer is sent.
// The engine publishes one batch, or finds the queue empty, between two replays: where
// two in a row bring nothing new, there was nothing.
func (f *follower) settle(ctx context.Context) error {
	for quiet := 0; quiet < 2; quiet++ {
		err := f.probe.Replay(ctx, f.next, func(frame kvevents.Frame) error {
			if frame.Seq >= f.next {
				f.next = frame.Seq + 1
				quiet = -1
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("probe of %s: %w", f.engine.name, err)
		}
	}
	return until(ctx, func() bool { return f.sub.Stats().Batches-f.before >= f.next })
}

// until waits for what should be a matter of milliseconds.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// held is how many of p's leading tokens the index says that the engine has.
func (f *follower) held(p *prompt) int {
	f.prompt.Reset(prefixindex.Scope{Model: modelName, Salt: p.salt}, p.tokens)
	f.index.Match(&f.prompt, &f.match)
	return f.match.Of(f.endpoint).GPU
}

// usable is how many blocks of p the engine need not compute, if the index is right: of
// what it holds, the engine's own full blocks without the prompt's last token, which is
// always computed.
func (f *follower) usable(p *prompt) int {
	return min(f.held(p), len(p.tokens)-1) / f.engine.blockTokens
}
