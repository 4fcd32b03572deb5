package zmtp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// An engine's batches, received over a socket.
func ExampleNewSource() {
	engine, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	defer engine.Close()

	src, err := zmtp.NewSource(zmtp.SourceOptions{Address: engine.Address()})
	if err != nil {
		panic(err)
	}
	defer src.Close()
	for engine.Subscribers("") == 0 {
		time.Sleep(time.Millisecond)
	}

	_ = engine.Send([]byte("kv-events"), binary.BigEndian.AppendUint64(nil, 0), []byte("a batch"))
	frame, err := src.Receive(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %d %s, %v\n", frame.Topic, frame.Seq, frame.Payload, src.Stats().State)
	// Output: kv-events 0 a batch, connected
}
