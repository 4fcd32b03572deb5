package bench_test

import (
	"testing"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/bench/internal/harness"
)

// BenchmarkFloor is the yardstick: one XXH64 over the bytes of a prompt's tokens.
// No index that looks at every token can be faster, and other machines differ in it
// about as much as in the rest, so budgets are multiples of it.
func BenchmarkFloor(b *testing.B) {
	b.Run("tokens=10240", func(b *testing.B) {
		tokens := harness.NewChain(1, harness.PromptTokens).Tokens
		// The bytes of the tokens, which outlive the slice. Which byte order they are
		// in makes no difference to the time.
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(&tokens[0])), 4*len(tokens))
		b.ReportAllocs()
		b.SetBytes(int64(len(bytes)))
		for b.Loop() {
			xxhash.Sum64(bytes)
		}
	})
}
