// Package soak follows fake engines for a long time while everything goes wrong that can:
// see TestSoak. It is empty but for its tests.
//
// Each engine publishes random traffic on loopback sockets and has random faults; a Source
// and a Subscriber follow it; all share one index. A round is a second of that and then a
// quiet point, at which the faults have stopped and the traffic has too. There
//
//   - an owner whose view is live holds what its engine holds, block for block;
//   - an owner whose view is not live has a counted reason: numbers given up, payloads that
//     could not be read, or an engine of which nothing showed that it is the same. Each block
//     by which it differs from its engine was stored or removed by a frame that did not
//     arrive, or stands behind such a block;
//   - where neither engine nor connection nor epoch has changed since the quiet point before,
//     every frame is accounted for, from the engine to the index: the counters of the
//     publisher, of the Source and of the Subscriber add up;
//   - goroutines and heap are what they were.
//
// An owner has five seconds from the end of the faults to come to rest. What was lost for
// good ends with the cache or with the engine: so some engines are then emptied or restarted,
// at the last quiet point all that need it, after which every owner must be live and equal
// within five seconds again.
//
// A batch that is lost shows at the next one. A quiet point therefore begins with batches
// that arrive.
//
// WARMROUTE_SOAK sets for how long (20s), WARMROUTE_SOAK_SEED the seed. One seed is the same
// prompts and faults in the same order; how they fall together is up to the machine.
package soak
