package enginetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Options configure an Engine. The zero value is a working engine.
type Options struct {
	Model    string   // served model; "" is "test-model"
	Adapters []string // LoRA adapters, served under their names

	BlockTokens    int // tokens in a block; 0 is 16
	Blocks         int // capacity in blocks, all usable; 0 is 16384
	MaxModelTokens int // prompt and reply together; 0 is 131072, or the capacity if that is less

	PrefillTokensPerSecond float64       // 0 is 10000
	DecodeStep             time.Duration // between a request's tokens; 0 is 10 ms
	MaxRunning             int           // requests that prefill or decode at once; 0 is 256

	Rank         int    // data-parallel rank: in the batches and in the metrics' engine label
	Topic        string // of the frames
	Wire         Wire   // how batches are encoded
	ReplayBuffer int    // past batches that Published can return; 0 is 10000

	// Seed makes the block hashes reproducible: the n-th life of engines with
	// equal Seed and Rank names equal blocks equally. 0: random in each life,
	// as in a real engine.
	Seed uint64

	Clock Clock // nil is package time's
}

func (o *Options) setDefaults() {
	o.Model = cmp.Or(o.Model, "test-model")
	o.Adapters = slices.Clone(o.Adapters)
	o.BlockTokens = cmp.Or(o.BlockTokens, 16)
	o.Blocks = cmp.Or(o.Blocks, 16384)
	o.MaxModelTokens = cmp.Or(o.MaxModelTokens, min(131072, o.Blocks*o.BlockTokens))
	o.PrefillTokensPerSecond = cmp.Or(o.PrefillTokensPerSecond, 10000)
	o.DecodeStep = cmp.Or(o.DecodeStep, 10*time.Millisecond)
	o.MaxRunning = cmp.Or(o.MaxRunning, 256)
	o.ReplayBuffer = cmp.Or(o.ReplayBuffer, 10000)
	if o.Clock == nil {
		o.Clock = realClock{}
	}
}

// validate checks what setDefaults has completed.
func (o *Options) validate() error {
	pool := PoolOptions{Blocks: o.Blocks, BlockTokens: o.BlockTokens}
	if err := pool.validate(); err != nil {
		return err
	}
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%w: %s is %v, want %s", ErrOptions, field, value, want)
	}
	capacity := o.Blocks * o.BlockTokens
	switch {
	case o.MaxModelTokens < 2 || o.MaxModelTokens > capacity:
		return bad("MaxModelTokens", o.MaxModelTokens, fmt.Sprintf("2 to Blocks*BlockTokens, %d", capacity))
	case !(o.PrefillTokensPerSecond >= 1e-3) || math.IsInf(o.PrefillTokensPerSecond, 1):
		return bad("PrefillTokensPerSecond", o.PrefillTokensPerSecond, "0.001 or more, finite")
	case o.DecodeStep < time.Microsecond || o.DecodeStep > time.Hour:
		return bad("DecodeStep", o.DecodeStep, "1µs to 1h")
	case o.MaxRunning < 1:
		return bad("MaxRunning", o.MaxRunning, "1 or more")
	case o.Rank < 0:
		return bad("Rank", o.Rank, "0 or more")
	case o.ReplayBuffer < 1:
		return bad("ReplayBuffer", o.ReplayBuffer, "1 or more")
	case o.Wire.Form > FormFirst:
		return bad("Wire.Form", o.Wire.Form, fmt.Sprintf("0 to %d", FormFirst))
	case o.Wire.Digests && o.Wire.Form == FormFirst:
		return bad("Wire.Digests", true, "false with FormFirst")
	}
	for i, name := range o.Adapters {
		if name == "" || name == o.Model || slices.Contains(o.Adapters[:i], name) {
			return bad(fmt.Sprintf("Adapters[%d]", i), fmt.Sprintf("%q", name), "a name of its own")
		}
	}
	return nil
}
