// Package otel shows how to make an OpenTelemetry span of each pick, in a module of its
// own, since the library does not depend on OpenTelemetry. Its test is the example.
package otel
