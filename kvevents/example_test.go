package kvevents_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// channel is a Source of frames that come from elsewhere in the program, or from a
// message queue.
type channel chan kvevents.Frame

func (c channel) Receive(ctx context.Context) (kvevents.Frame, error) {
	select {
	case f, ok := <-c:
		if !ok {
			return kvevents.Frame{}, io.EOF
		}
		return f, nil
	case <-ctx.Done():
		return kvevents.Frame{}, ctx.Err()
	}
}

// A Source is one method. Here it feeds a Subscriber from a channel, on which the
// program has put what it received over a transport of its own.
func ExampleSource() {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	if err != nil {
		panic(err)
	}
	ep, err := ix.Join("10.0.0.7:8000")
	if err != nil {
		panic(err)
	}
	frames := make(channel, 2)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index:    ix,
		Endpoint: ep,
		Model:    "llama",
		Source:   frames,
	})
	if err != nil {
		panic(err)
	}
	empty, _ := hex.DecodeString("92cb41da13b86020000090") // a batch without events
	frames <- kvevents.Frame{Seq: 0, Payload: empty}
	frames <- kvevents.Frame{Seq: 2, Payload: empty} // number 1 was lost on the way
	close(frames)
	if err := sub.Run(context.Background()); err != nil {
		panic(err)
	}
	s := sub.Stats()
	fmt.Println("batches applied:", s.Batches)
	fmt.Println("numbers lost:", s.Stream.Lost)
	// Output:
	// batches applied: 2
	// numbers lost: 1
}

// An engine announces two blocks of a prompt; a longer prompt that begins with them is
// looked up.
func ExampleSubscriber() {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	if err != nil {
		panic(err)
	}
	ep, err := ix.Join("10.0.0.7:8000")
	if err != nil {
		panic(err)
	}
	frames := make(channel)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index:    ix,
		Endpoint: ep,
		Model:    "llama",
		Source:   frames,
	})
	if err != nil {
		panic(err)
	}
	go func() {
		defer close(frames)
		// A batch as vLLM 0.11 sends it: two blocks of four tokens, 1 to 8.
		payload, _ := hex.DecodeString("93cb41da13b8602000009197ab426c6f636b53746f72656492" +
			"cf1e0b2e028ef071cbcfefad121d154ab2d6c0980102030405060708" + "04c0a347505500")
		frames <- kvevents.Frame{Seq: 0, Payload: payload}
	}()
	if err := sub.Run(context.Background()); err != nil {
		panic(err)
	}

	var prompt prefixindex.Prompt
	var match prefixindex.Match
	prompt.Reset(prefixindex.Scope{Model: "llama"}, []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	ix.Match(&prompt, &match)
	fmt.Println("tokens cached:", match.Of(ep).GPU)
	fmt.Println("batches applied:", sub.Stats().Batches)
	// Output:
	// tokens cached: 8
	// batches applied: 1
}
