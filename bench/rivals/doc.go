// Package rivals measures what one would otherwise use, on the harness of the benchmarks
// beside it. It is a module of its own so that nothing depends on its rivals; all of it is
// in tests.
//
//	make bench-rivals
package rivals
