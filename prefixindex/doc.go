// Package prefixindex knows which KV cache holds how much of a prompt.
//
// # Model
//
// An [Endpoint] is an inference server that requests can be sent to; the host
// names it and lets it join and leave. An owner is one KV cache of an endpoint:
// one data-parallel rank. A prompt is cut into blocks of Options.BlockTokens
// tokens; the [BlockHash] of a block covers the block and everything before it
// in its [Scope] (model, LoRA adapter, cache salt, and extras such as image
// hashes), so that equal hashes mean equal prefixes. A trailing part of a block
// has no hash and never matches.
//
// An owner's contents live in an epoch, the time from one empty start of the
// cache to the next. [Index.Writer] begins a new one; whatever the old one held
// is gone from every lookup when Writer returns, and calls on the older Writer
// return [ErrFenced].
//
// Engines name blocks by hashes of their own, which differ from process to
// process. An [EngineHash] is an opaque handle here: it serves to find the
// parent of a stored block and to remove it, never to match prompts.
//
// # Use
//
//	ix, err := prefixindex.New(prefixindex.Options{})
//	ep, err := ix.Join("10.0.0.7:8000")
//	w, err := ix.Writer(ep, 0)
//	err = w.Store(&prefixindex.Span{...})           // as the engine's events say
//
//	var p prefixindex.Prompt                        // per goroutine, reused
//	var m prefixindex.Match
//	p.Reset(prefixindex.Scope{Model: "m"}, tokens)
//	ix.Match(&p, &m)
//	warm := m.Of(ep)                                // leading tokens by tier
//
// # What a match means
//
// A match is the longest run of blocks, from the prompt's first, that the owner
// holds. A block in the middle proves nothing: a stored block whose parent is
// not known is parked, counted, and credited only once the parent appears. Runs
// are given for three nested levels: on GPU; on GPU or CPU; on any tier.
//
// While nothing is being written, a match is exact for every owner. While
// writes run, each answer d had block d-1 held at some instant of the call, and
// nothing of an epoch that had ended before the call is ever reported.
//
// # Trust
//
// How far an owner's contents can be believed is its [View]. The index stores
// it for whoever feeds the owner and hands it out with each match: an owner
// that was never heard of is not the same as one that holds nothing.
//
// # Limits
//
// Hashes are 64 bits wide and keyed by a random seed unless told otherwise.
// They are no defence against a tenant who searches for collisions; the worst
// outcome is a poor route, since engines check what they reuse.
package prefixindex
