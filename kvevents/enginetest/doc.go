// Package enginetest is a fake inference engine for tests: a KV cache that
// behaves as vLLM's does, the events it publishes about it, byte for byte, and
// the HTTP API around it. It needs no model, no GPU and nothing outside the
// standard library, and it takes no testing.TB: it serves simulators and
// examples as well.
//
//	engine, err := enginetest.New(enginetest.Options{Blocks: 4096})
//	...
//	defer engine.Close()
//	server := httptest.NewServer(engine) // /v1/completions, /metrics, ...
//	events := engine.Subscribe(0)        // a kvevents.Source
//
// There are two layers. [Pool] is the cache alone, without time or locks, for
// simulators and for tests of cache rules. [Engine] puts a Pool on a clock,
// behind a lock, a scheduler, an event feed and a handler. One Engine is one
// data-parallel rank.
//
// The package makes no compatibility promise.
//
// # The cache
//
// A block is BlockTokens tokens. A full block whose tokens are computed gets a
// hash of itself, everything before it and the scope (adapter in every block,
// cache salt in block 0, each multimodal item in the blocks it reaches into),
// and can be hit. The rules are those of vLLM's block pool:
//
//   - A hit is whole blocks from the start of the prompt and leaves at least
//     one token to compute. A cached prompt of whole blocks therefore has its
//     last block computed again, into a second physical copy of the same hash.
//   - Blocks are counted by the requests that use them. A finished request
//     frees its blocks last to first; free blocks that have a hash wait in one
//     queue, least recently freed first, and remain hits; a hit takes them out.
//   - New blocks come from free ones without a hash, and then from the head of
//     the queue, which evicts: children before their parents. Each copy that
//     is evicted is a removal of its own, also while others remain.
//   - Blocks that fill during decoding are hits and are announced like a
//     prompt's. A token is computed in the step after it was sampled, so the
//     last one of a reply is never in the cache.
//   - When too few blocks are free a request waits, and everyone behind it.
//   - A reset is refused while a request is running.
//
// Hashes are opaque 64-bit values under a seed that is new in every life,
// random unless Options.Seed is set, and unrelated to any hash that a consumer
// of the events might use.
//
// # Time
//
// One scheduler, which never idles while it could work:
//
//   - Requests wait first come, first served. The one at the head is admitted
//     when no other is in its prefill, fewer than MaxRunning are running, and
//     the blocks of its whole prompt can be had. Its cache hit is taken then.
//   - Its prefill takes (prompt tokens − cached tokens) /
//     PrefillTokensPerSecond. At the end its blocks are cached and its first
//     token exists. So on an idle engine that quotient is the time to first
//     token.
//   - Every DecodeStep after that it has one more token, until it has
//     MaxTokens; then its blocks are free. Prefill does not slow decoding down,
//     nor does the number of requests.
//   - A request that needs a block for decoding when none is free takes one
//     from the request admitted last, which is preempted: it loses its blocks,
//     goes to the head of the queue and is later prefilled again, with what it
//     had generated, as far as that is not cached. The end of that prefill is
//     its next token.
//
// What happens at one instant is one turn. The model is played as discrete
// events, at their exact times even if the machine is late: Result's times and
// the content of the event stream do not depend on load, only when they are
// seen does. Between events the engine sleeps on one timer of Options.Clock. In
// a testing/synctest bubble, make the engine there and use Generate, or
// ServeHTTP with a recorder: sockets do not work in bubbles.
//
// # Events
//
// A turn that changed the cache publishes one batch; turns that did not publish
// none. Batches are numbered from 0 in each life and stamped with the turn's
// time. [Wire] selects the schema of a vLLM generation, maps by default.
// [Engine.Subscribe] hears what is published from then on; [Engine.Published]
// returns past batches of this life, up to Options.ReplayBuffer. The buffer
// keeps payloads, which hold every announced token: 2 to 5 bytes each.
//
// [Engine.Restart] is a new process behind the same address, and publishes
// nothing to say so.
//
// # Sockets
//
// [Engine.Publish] puts the feed on a PUB socket, and replays past batches from a ROUTER,
// with the one loop that does both jobs in vLLM: see [Publisher]. What goes wrong between
// an engine and its consumers goes wrong on demand: batches are dropped, lost for good,
// doubled, reordered, cut short or garbled ([Publisher.Inject]); replays lose frames, the
// end marker, or the request, or overflow; the publisher stalls, goes silent, becomes
// slow, breaks its connections, or dies and comes back, also so that the numbers do not
// show it ([Publisher.Restart]), until it is told to stop ([Publisher.Calm]). Each is counted.
//
// # HTTP
//
// Engine is an http.Handler for POST /v1/completions, /v1/chat/completions
// (both plain and as server-sent events), /tokenize, /detokenize and
// /reset_prefix_cache, and GET /v1/models, /metrics and /health. Bodies and
// answers are vLLM's, as far as a router sees them: the model or an adapter by
// name (404 for others), prompt as text or token ids, max_tokens (16 when
// absent), cache_salt, stream_options.include_usage, and always
// usage.prompt_tokens_details.cached_tokens. Errors have OpenAI's shape. One
// prompt and one choice a request. A stream's headers come with its first
// token.
//
// # Tokens and replies
//
// [Tokenize] cuts text into tokens of at most three bytes and needs no
// vocabulary; [TokenizeChat] is the chat template, under which a conversation's
// next turn begins with all tokens of this one, reply included. A reply is a
// function of its prompt's tokens, the same on every engine, always MaxTokens
// long, and text that is cut into the generated tokens again. Requests by
// token ids may use any ids.
//
// # Not modelled
//
// Chunked prefill, and a prefill's blocks becoming hits before it ends: a
// prefill that is cancelled or preempted caches nothing, and equal prompts
// never prefill side by side. (Second copies come from repeated prompts of
// whole blocks, and from equal replies decoded side by side.) vLLM's null
// block, which takes one of those configured. Speculative decoding, prompt
// logprobs, sliding-window and other groups, offload tiers, sleep, priorities,
// stop conditions. AllBlocksCleared is published at once rather than with the
// next step, and a refused /reset_prefix_cache is a 409.
//
// # Cost and concurrency
//
// A Pool belongs to one goroutine at a time. It takes about 32 bytes for each
// block ever used and 8 for each of the longest prompt's; an operation costs
// constant time a block plus one hash of each block looked up or filled. An
// Engine's methods may be called from anywhere; they share one lock, and none
// waits except Generate. An idle engine has no goroutine and no timer; a
// Publisher has goroutines until it is closed.
package enginetest
