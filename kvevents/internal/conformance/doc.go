// Package conformance holds one suite of tests for every transport that receives events
// and every kind of publisher that sends them, each against each, and for peers that
// break the protocol. It is empty but for its tests. With the build tag libzmq they
// include libzmq on both sides; with a python3 that has pyzmq on the PATH, or named by
// WARMROUTE_PYTHON, also what vLLM and SGLang publish with.
package conformance
