// Package scorer says what a candidate is and how candidates compare.
//
// # Model
//
// The host offers one [Candidate] for each endpoint that a request could go to:
// its handle, what was measured there and when ([Signals]), and, where the host
// knows better than the library, its load and what it has cached. The picker
// resolves candidates into an [Input]: the match and the load filled in, the age
// of the signals worked out. A [Scorer] reads it and gives each candidate a score
// from 0 to 1, higher being better.
//
//	Prefix        the share of the prompt that the candidate has cached
//	Queue         requests waiting in the engine
//	Memory        free share of the engine's KV cache
//	LoadRequests  requests sent there and not done
//	LoadTokens    prompt tokens sent there and not computed
//	Cost          all of that as milliseconds to the first token
//	Session       the same endpoint for the same conversation, by hashing
//	Adapter       whether the LoRA adapter is there
//	Signal        any number that was measured, or that the host supplies
//
// Numbers that are better when small are measured by a [Norm], and each scorer says
// what its 0 and 1 mean, so that weights can be chosen.
//
// # Unknown, stale, skipped
//
// Not knowing is a state of its own. A [Value] is unknown unless it was made by
// [Known], and a scorer gives NaN, no opinion, where it would need one that is
// unknown. The picker turns scores into terms of the sum by one rule, the same
// for every scorer:
//
//   - no opinion: the mean of the scores of that scorer in this pick, of
//     candidates that have one from signals not stale; 0.5 if there is none;
//   - stale signals, for a scorer that reads signals: the lower of its score and
//     that mean; when all are stale, 0.5 for all;
//   - skipped, or removed by a filter: in no minimum, maximum or mean.
//
// So an endpoint that was never scraped ranks neither best nor worst, and one
// whose last good report is old gains nothing by it. Each such case is counted.
//
// # Writing one
//
// A scorer is a method; [Func] makes one of a function. Scorers run under the
// ledger's lock, on every pick: they do no I/O, allocate nothing, call nothing of
// the picker, and are safe for concurrent use if several pickers share them or records
// are replayed while picks run. A scorer is a function of its Input; one that also reads
// state of its own cannot be replayed from a record once that state has changed.
package scorer
