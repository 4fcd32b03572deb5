package bench_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/pprof"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/prefixindex"
)

// BenchmarkFollow is a Subscriber from the socket to the index: batches that store some
// blocks and evict as many come over loopback TCP, either at 10,000 a second, where only the
// share of time is of interest, or as fast as they are applied. What the Subscriber does
// bears the profiler's label side=subscriber, the publishing side does not:
//
//	go test -run '^$' -bench Follow/rate=10000/blocks=4 -benchtime 100000x -cpuprofile cpu.out ./bench
//	go tool pprof -tagfocus side=subscriber -top cpu.out
func BenchmarkFollow(b *testing.B) {
	for _, rate := range []int{10_000, 0} {
		for _, blocks := range []int{1, 4, 64} {
			name := fmt.Sprint(rate)
			if rate == 0 {
				name = "most"
			}
			b.Run(fmt.Sprintf("rate=%s/blocks=%d", name, blocks), func(b *testing.B) {
				small(b)
				follow(b, rate, blocks)
			})
		}
	}
}

func follow(b *testing.B, rate, blocks int) {
	const held, turns = 16_384, 256 // blocks of the owner; different batches once it is full
	chains := held / blocks
	payloads := make([][]byte, chains+turns)
	c, old, p := harness.NewChain(0, blocks*harness.BlockTokens), harness.NewChain(0, blocks*harness.BlockTokens), harness.Payload{}
	for i := range payloads {
		c.Become(uint64(i))
		old.Become(uint64((i + turns) % len(payloads))) // which came chains ago
		p.Batch(2)
		p.Stored(0, c, 0, blocks)
		p.Removed(0, old, 0, blocks)
		payloads[i] = slices.Clone(p.End())
	}

	pub, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0", HWM: 100_000})
	harness.Must(b, err)
	defer pub.Close()
	ix, err := prefixindex.New(prefixindex.Options{Seed: 1})
	harness.Must(b, err)
	ep, err := ix.Join("engine-0")
	harness.Must(b, err)
	ctx, stop := context.WithCancel(b.Context())
	var sub *kvevents.Subscriber
	ended := make(chan error, 1)
	pprof.Do(ctx, pprof.Labels("side", "subscriber"), func(ctx context.Context) { // and all goroutines from here
		src, err := zmtp.NewSource(zmtp.SourceOptions{Address: pub.Address()})
		harness.Must(b, err)
		sub, err = kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: ix, Endpoint: ep, Model: harness.Scope().Model, Source: src})
		harness.Must(b, err)
		go func() {
			err := sub.Run(ctx)
			_ = src.Close()
			ended <- err
		}()
	})
	for pub.Subscribers("") == 0 {
		time.Sleep(time.Millisecond)
	}
	sent := 0
	send := func() {
		harness.Must(b, pub.Send(nil, binary.BigEndian.AppendUint64(nil, uint64(sent)), payloads[sent%len(payloads)]))
		sent++
	}
	applied := func() int { return int(sub.Stats().Batches) }
	reach := func(n int) {
		for applied() < n {
			time.Sleep(100 * time.Microsecond)
		}
	}
	const ahead = 1000 // batches under way at most, so that no queue overflows
	for sent < chains {
		send()
		if sent%ahead == 0 {
			reach(sent - ahead/2)
		}
	}
	reach(sent)

	b.SetBytes(int64(len(payloads[chains])))
	b.ResetTimer()
	most, began, first := 0, time.Now(), sent
	for sent-first < b.N {
		due := first + b.N
		if rate > 0 {
			due = min(due, first+int(time.Since(began).Seconds()*float64(rate)))
		}
		for range min(due-sent, ahead/2) {
			send()
		}
		if rate > 0 {
			most = max(most, sent-applied())
			time.Sleep(time.Millisecond)
		} else {
			reach(sent - ahead/2)
		}
	}
	reach(sent)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "batches/s")
	if rate > 0 {
		b.ReportMetric(float64(most), "behind")
	}
	stop()
	harness.Must(b, <-ended)
	if s := sub.Stats(); s.Applier.Blocks.Blocks != chains*blocks || s.Stream.Lost > 0 {
		b.Fatalf("%d blocks held, want %d: %+v", s.Applier.Blocks.Blocks, chains*blocks, s)
	}
}
