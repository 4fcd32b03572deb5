// Fleet simulates a fleet of inference engines behind a router, and compares policies.
//
//	go run ./bench/fleet                                # everything, as tables
//	go run ./bench/fleet -scenario agents -policy 'Dynamo,default' -seeds 10
//	go run ./bench/fleet -trace conversation_trace.jsonl -scenario mooncake
//
// # Model
//
// Time is virtual: a run is a list of appointments, worked off in order, and the same seed
// gives the same run. An engine batches continuously. Each of its steps takes a fixed time,
// more for each token of a prompt that it computes, and more for the context behind each
// request that decodes. A step has a budget of tokens: one for each request that decodes,
// the rest for prompts, which are computed in chunks, first come first served. The cache is
// [github.com/warmroute/warmroute/kvevents/enginetest.Pool], with vLLM's rules: what hits,
// what is evicted, who waits for blocks, who is preempted. Engines differ in speed, each
// within -spread of the nominal, and policies are not told.
//
// What the router sees is late: signals as of the last scrape, events a while after the
// step, some of them never. All else in it is the library: index, writers, picker, ledger.
//
// # Files
//
// sim: time, requests, and what the router hears. engine: steps. policy: who goes where.
// scenario, mooncake: workloads. result: figures. report, svg, indexspeed: the report.
//
// # Not modelled
//
// Anything between client, router and engine: their own time is zero. Tokenizers, streaming,
// clients that go away, speculative decoding, offload tiers, several ranks. Blocks are of 64
// tokens, not 16, which makes runs four times as fast, and hits up to 63 tokens shorter.
package main
