// Package e2e holds tests against real engines. It is empty but for them, and they are
// behind the build tag e2e: see README.md.
package e2e
