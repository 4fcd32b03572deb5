// Package picker composes filters and weighted scorers into the choice of an
// endpoint, and keeps the ledger of what is in flight.
//
// # A pick
//
//	match     how much of the prompt each candidate has cached       no lock
//	resolve   age of signals, what is unknown or absurd              no lock
//	load      what is in flight where, and how far to be trusted     \
//	filter    conditions, then caps; what is left is eligible         | one short
//	score     each scorer's opinion, times its weight, summed         | lock
//	select    the best, or at random among those nearly as good       |
//	reserve   the winner's load is counted from now on               /
//
// Scoring and reserving happen under one lock, that of the [Ledger], so each pick
// sees the ones before it and a burst spreads. Nothing in a pick does I/O, waits
// for a channel, or allocates once the [Call] has grown.
//
// # Use
//
//	pk, err := picker.New(picker.Options{Index: ix})
//
//	var call picker.Call                     // reused, for example from a sync.Pool
//	call.Prompt, call.Candidates = &prompt, candidates
//	d, err := pk.Pick(&call)                 // err: ErrNoCandidates, ErrOverloaded
//	host := hosts[d.Index]
//	...                                      // forward the request
//	d.FirstToken()                           // when the reply begins
//	d.Done(picker.Outcome{})                 // when it has ended, however it ended
//
// # Accounts
//
// Every pick that returns a [Decision] reserves load on its endpoint, unless the
// host counts for itself, and Decision.Done releases it: call it on every path. Done
// and FirstToken take effect once, from any goroutine. A release belongs to the
// generation in which it was taken: it never touches the counts of an endpoint that
// left and came back, and counts are never negative. Nothing is released by time,
// since a long request is still load, unless [LedgerOptions] asks for leases.
//
// A retry of one's own is a pick of its own: Done with Failed, Skip set on the
// candidate that failed, Pick again. Decision.Moved is for requests that someone else
// sent elsewhere: a proxy with the list of fallbacks.
//
// # Chance
//
// Among scores that are nearly equal the choice is random, so that no endpoint is
// favoured for its place in the list. It is drawn from Options.Seed and the number
// of the pick: the same picks in the same order with the same seed give the same
// choices. [Select] can widen that to all candidates, by temperature, and bound how far
// above its share of the load one may go.
//
// # Hot prefixes
//
// A prompt that is cached by half or more is no matter of chance: of those that are nearly
// equal, the one that has most of it gets it, and of several the first in an order that
// comes from the cached prefix, by rendezvous hashing. The next in that order is taken
// while the first has more to compute than the prompt itself would add. So a prefix has as
// many homes as its rate keeps busy for some 60 % of their time, gains one when they no
// longer keep up, by the bound or because computing it anew has become cheaper than waiting,
// and is sent to fewer of them when it cools. No rates are kept to do this.
//
// # Two kinds of filters
//
// Options.Filters are conditions, such as [Label] and [AffinityGate]: a candidate that
// fails one was no candidate, and if none is left the pick fails with
// [ErrNoCandidates]. Options.Caps are limits that will pass, such as [MaxInFlight] and
// [MaxSignal]: if they remove all that is left, it is [ErrOverloaded].
//
// # Prediction and fact
//
// Each decision predicts how much of the prompt is cached where it goes. A host that
// passes on what the engine reports, in [Outcome], lets the ledger compare: an endpoint
// whose cache does not hold what was predicted loses its affinity, and regains it
// when predictions come true again. [Ledger.Calibration] shows both, and how fast the
// endpoint computes prompts, which the ledger learns from FirstToken.
//
// # Changing the policy
//
// A Picker does not change. To change weights while picks run, make a new one with
// the same Ledger and swap the pointer; the example of [Options] does it. [ParseOptions]
// reads a policy from JSON.
//
// # Why
//
// A [Record] holds all that a pick looked at and computed. [Picker.Replay]
// recomputes the choice from it, also after it was written as JSON and read elsewhere, and
// [Record.Explain] says it in words. Without a
// Record nothing is recorded, and it costs nothing. For histograms and traces there are
// observers, and everything that is counted is in the Stats of the picker and the ledger.
package picker
