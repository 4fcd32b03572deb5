// Package bench measures the library. It has nothing to import: the benchmarks
// are its tests, and README.md says how to run and how to read them.
//
// Names are key=value parts, so that tools can put implementations or sizes side
// by side: Match/impl=warmroute/owners=64/shape=full. Each benchmark checks the
// answers of what it is about to time.
package bench
