//go:build !libzmq

package conformance_test

import "testing"

func transports() []transport { return []transport{native} }

func engineKinds(t *testing.T) []engineKind {
	return append([]engineKind{{name: "zmtp", open: openNative}}, python(t)...)
}

func benchTransports(*testing.B) []benchTransport {
	return []benchTransport{{"zmtp", nil}}
}
