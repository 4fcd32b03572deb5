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
// ten lines. A [Demux] parts streams that share a socket.
//
// # Epochs
//
// An engine numbers its batches from 0 in each life. A number that goes backwards
// begins a new life: what the index had of the old one is dropped before the batch
// is applied. Each number is applied once.
//
// # Gaps
//
// Publishers lose batches, and so do their replays. Where numbers are missing, and
// the Source is a [Replayer], later frames wait, within bounds, until the missing
// ones are there: a removal that overtook the store before it would leave the block
// in the index for good. A replay asks for the last applied frame as well. If that is
// not what it was, the engine has restarted and its numbers have passed ours. Numbers
// that no replay brings are given up after a few, and the view says so; without
// replay, at once. [Loss] chooses between keeping what is known and dropping it. A
// Subscriber begins with all that the engine still has.
//
// How far the picture can be trusted is the view of the owners: never heard of; live;
// resyncing while numbers are being fetched; gap as below; stale after a silence, where
// StreamOptions.StaleAfter asks for that, and when nobody listens any more.
//
// The view is gap when numbers were lost for good, when an event or a payload was
// malformed, or when replays failed that were to show that the engine is still the same
// after its connection was lost. It stays so until there is nothing left to be wrong about:
// the engine restarts, says that its cache is empty (of several ranks in one stream: all of
// those named so far), or the host says so, by [Subscriber.Reset]. A host that wants the
// view back may have the engine empty its cache. Where there is no replay at all, the view
// is gap from the loss of a connection to the next frame. If that goes on at the very
// number, the engine passes for the same: an engine that restarted and was first heard
// exactly there cannot be told.
//
// # Ranks
//
// Each data-parallel rank has a cache and a socket of its own, and one Subscriber. What
// its payloads say of the rank is compared and counted, and no more, since not all
// engines send the true one. For a relay that carries several ranks in one stream there
// is [RankPayload]. Two feeders of one owner are one too many: the later shuts out the
// earlier, whose Run returns prefixindex.ErrFenced.
//
// # What is not applied
//
// One bad event costs that event, an unreadable payload that no replay brings whole
// costs that batch, and neither ends the stream, but the view is gap from then on.
// Unknown events and keys, blocks of attention groups that are no dense prefix, copies
// that live elsewhere: all are skipped, each for a reason that [SubscriberStats]
// counts. Blocks of which it cannot be told what they depend on, besides their tokens,
// are never taken for blocks of text. Nothing is taken for a cache reset but a reset.
//
// # Dialects
//
// vLLM's events since 0.9, as positional arrays of every age and as maps, in envelopes
// of two, three or more slots, mixed in a batch, or wrapped in bytes; SGLang's, both
// forms. TensorRT-LLM's stream has vLLM's shape. Integers of any width and sign are
// the same 64 bits; digests of 16 or 32 bytes are cut to the last 8, which is vLLM's
// own short form, so that engines may mix both. [Decoder] has options for what cannot
// be told from the bytes.
//
// # Limits
//
// What an engine does not say cannot be known. vLLM before 0.17 does not say that a
// prompt was salted, or had images: prompts with equal tokens are one there. vLLM
// before 0.20 does not tell attention groups apart. SGLang does not say that a prompt
// had an adapter without a public name. SGLang before 0.5.6 names blocks by their
// contents alone and leaves out parents: blocks from the middle of a prompt pass for
// the beginning of another. Its bytes do not give it away, so set
// Decoder.ContentHashes for it, which credits it with nothing.
// A hit of a model with several attention groups needs the blocks of all of them, and
// only the dense ones are followed: the answer is then an upper bound.
package kvevents
