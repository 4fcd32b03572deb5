package kvevents_test

import (
	"context"
	"io"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// Frames that come over a channel, as from a message queue.
func ExampleSubscriber() {
	ix, err := prefixindex.New(prefixindex.Options{})
	if err != nil {
		panic(err)
	}
	ep, err := ix.Join("10.0.0.7:8000")
	if err != nil {
		panic(err)
	}
	frames := make(chan kvevents.Frame)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index:    ix,
		Endpoint: ep,
		Model:    "llama",
		Source: kvevents.SourceFunc(func(ctx context.Context) (kvevents.Frame, error) {
			select {
			case f, ok := <-frames:
				if !ok {
					return kvevents.Frame{}, io.EOF
				}
				return f, nil
			case <-ctx.Done():
				return kvevents.Frame{}, ctx.Err()
			}
		}),
	})
	if err != nil {
		panic(err)
	}
	close(frames)
	if err := sub.Run(context.Background()); err != nil {
		panic(err)
	}
}
