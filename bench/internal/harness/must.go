package harness

import "testing"

// Must ends a benchmark that cannot go on.
func Must(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}
