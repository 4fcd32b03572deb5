// Package kvevents turns the KV cache events of an inference engine into updates
// of a prefixindex.Index.
//
// # The path
//
//	Source      frames: (topic, sequence number, payload)
//	Stream      order: gaps, restarts, replay; what to apply and when
//	Decoder     payload bytes to events, every dialect
//	Applier     events to Writer calls: groups, tiers, scopes, block sizes
//
// A [Subscriber] is that path for one stream, that of one data-parallel rank of
// one endpoint, and is all that most programs need:
//
//	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
//		Index: ix, Endpoint: ep, Model: "m", Source: source,
//	})
//	err = sub.Run(ctx) // until ctx ends
//
// The parts are exported for programs with plumbing of their own. Frames come from
// whatever carries them: a [Source] over a message queue, a channel or a file is
// ten lines.
//
// # Epochs
//
// An engine numbers its batches from 0 in each life. A number that goes backwards
// begins a new life: what the index had of the old one is dropped before the batch
// is applied. Each number is applied once.
//
// # What is not applied
//
// One bad event costs that event, an unreadable payload costs that batch, and
// neither ends the stream. Unknown events and keys, blocks of attention groups that
// are no dense prefix, copies that live elsewhere: all are skipped, each for a
// reason that [SubscriberStats] counts. Nothing is taken for a cache reset but a
// reset.
//
// # Dialects
//
// vLLM's events, as positional arrays of every age and as maps, in envelopes of
// two, three or more slots, mixed in a batch; SGLang's, both forms. Integers of any
// width and sign are the same 64 bits; digests of 16 or 32 bytes are cut to the
// last 8, which is vLLM's own short form.
package kvevents
