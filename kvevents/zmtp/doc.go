// Package zmtp receives the KV cache events of inference engines over ZeroMQ, in pure
// Go: vLLM, SGLang and TensorRT-LLM publish them on a PUB socket and replay past ones
// from a ROUTER socket.
//
//	src, err := zmtp.NewSource(zmtp.SourceOptions{
//		Address:       "tcp://10.0.0.7:5557",
//		ReplayAddress: "tcp://10.0.0.7:5657",
//	})
//	...
//	defer src.Close()
//	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Source: src, ...})
//
// A [Source] is one rank: an engine of several data-parallel ranks has as many pairs of
// sockets, at consecutive ports. [Ranks] counts them up, [Discover] asks the engine.
// Rank is identity, and comes from the socket dialled: two ranks on one Source would mix
// two counts of batches.
//
// # Connections
//
// A Source connects from NewSource to Close, whether the engine is there yet or not, and
// again after every loss, with exponential back-off and full jitter. A peer that accepts
// and then says nothing, one that is switched off without a word, one that answers with
// something else: each ends an attempt or a connection within a stated time, for a
// reason that [SourceStats] counts. There is no error that ends a Source.
//
// PUB sockets tell a newcomer nothing of the past, so each connection begins with a
// blank, and the engine behind it may be another process than before.
// [Source.Receive] says so, by kvevents.ErrReconnected at the point of the stream where
// it is so. A Subscriber checks with a replay that overlaps the last frame it has.
//
// # Bounds
//
// With [Native] a peer chooses neither how much memory is allocated nor how long anything
// takes.
// Frame lengths are checked before there is a buffer, and a long frame's buffer grows
// with what arrives. Frames wait for Receive in a queue with two bounds, and are dropped
// and counted when it is full; meanwhile the connection is still read, so that the
// engine does not pile up batches for us and heartbeats are answered. A [Limiter]
// bounds the replays of a process.
//
// # Replays
//
// A replay is a connection of its own: nothing that a former one left behind can be
// taken for an answer. Replies are understood with a topic (vLLM since 0.26) and
// without. An engine serves one replay at a time, between batches, sends nothing live
// meanwhile, and may lose batches inside a replay without a word.
//
// # Transports
//
// ZMTP 3.0 and 3.1 over TCP and Unix sockets, mechanism NULL, which is what engines
// speak: no encryption and no authentication, and the events contain the token ids of
// prompts. The network must be trusted, or the connection tunnelled. For CURVE there is
// the transport of package libzmq, a [Transport] like [Native].
//
// [Publisher] and [Router] are the other ends, for fake engines.
//
// # Cost
//
// A Source is a goroutine, a descriptor and 32 KiB; a frame is one allocation, its
// payload. What a publisher sends as fast as it can is read at about a microsecond a
// message.
package zmtp
