// Package warmroute is the map of a library of routing primitives for LLM
// gateways. It holds no code; import the packages below.
//
// The question they answer together: which replica should this prompt go to,
// given what each replica has cached and how busy it is, and is going there
// cheaper than recomputing elsewhere?
//
//	write:  engine -> Source -> Stream -> Decoder -> Applier -> Writer -> Index
//	                 (frames)  (order,   (bytes ->  (groups,   (one epoch
//	                            gaps)     events)    sizes)     of a cache)
//
//	read:   prompt tokens, candidates -> Picker.Pick -> Decision -> Done
//	                                       |  Index.Match, signals, ledger
//
// # Packages
//
//   - prefixindex: which KV cache holds how much of a prompt.
//   - kvevents: an engine's cache events, from bytes to index updates.
//   - kvevents/enginetest: a fake engine, for tests.
//   - scorer: what a candidate is, and how one candidate compares with another.
//   - scorer/enginemetrics: signals from engines' /metrics.
//   - picker: filters and weighted scorers composed into a Decision, and the
//     ledger of what is in flight.
//   - picker/openaireq: an OpenAI-style body to a request and its prompt.
//   - picker/httptransport: an http.RoundTripper that picks where requests go.
//   - picker/metrics: everything that is counted, as one table.
//   - picker/debugview: a page that shows what a router does.
//   - picker/warmprom: a prometheus.Collector, in a module of its own.
//
// # Who does what
//
// The host (a gateway, a proxy, a test) owns the list of endpoints: it calls
// [prefixindex.Index.Join] and [prefixindex.Index.Leave], and hands the
// candidates to each pick. A [kvevents.Subscriber] owns the contents of one
// endpoint's cache in the index. A [picker.Picker] only reads the index.
//
// Nothing here starts a server, keeps global state, or logs anywhere but to a
// logger it was given.
package warmroute

import (
	_ "github.com/warmroute/warmroute/kvevents"    // for the links above
	_ "github.com/warmroute/warmroute/picker"      // for the links above
	_ "github.com/warmroute/warmroute/prefixindex" // for the links above
)
