// Package libzmq is a transport for zmtp.Source over the C library libzmq, by way of
// github.com/pebbe/zmq4. It is built with the tag libzmq, on Unix, with cgo and libzmq
// 4.2 or later; without the tag the package is empty and needs none of that.
//
//	transport, err := libzmq.New(libzmq.Options{})
//	...
//	defer transport.Close()
//	src, err := zmtp.NewSource(zmtp.SourceOptions{Address: address, Transport: transport})
//
// It offers what zmtp.Native does not: CURVE, which encrypts and authenticates, and the
// reference implementation of everything else. Otherwise there is no reason to prefer
// it: the Source above it, its back-off, its counters and its behaviour are the same,
// and one suite of tests says so.
//
// # Model
//
// Each Subscribe and each Request is one socket, made, used and closed by the goroutine
// that called, together with libzmq's monitor of it. Two more goroutines wait for the
// descriptors of the two, on Go's own poller, so that a waiting Source costs no thread.
// libzmq's reconnection is off, since the Source does that. A Transport is one libzmq
// context, with its two threads, for any number of Sources.
//
// # Differences
//
// A bound on memory against a hostile publisher is zmtp.Native's alone. libzmq holds a
// message back until its last frame is there, however many there are, and its own bound,
// which MaxMessageBytes sets, is of each of them: a publisher that never ends a message
// takes as much as it likes. So admit only those that are trusted, by CURVE or by the
// network.
//
// Messages that libzmq refuses for their length end the connection as a loss; it does
// not say that they were too long. Nor does it say that a heartbeat was not answered.
// A publisher is noticed where libzmq's monitor says so, which with Listen may be a
// frame or two after the first of that publisher's.
package libzmq
