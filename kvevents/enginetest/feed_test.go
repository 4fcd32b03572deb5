package enginetest_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// unpack decodes one msgpack value of the kinds that payloads have: integers
// as uint64 bits, arrays as []any, maps as map[string]any.
func unpack(b []byte) (any, []byte) {
	integer := func(n int) uint64 {
		var full [8]byte
		copy(full[8-n:], b[1:1+n])
		b = b[1+n:]
		return binary.BigEndian.Uint64(full[:])
	}
	list := func(n int) (any, []byte) {
		out := make([]any, n)
		for i := range out {
			out[i], b = unpack(b)
		}
		return out, b
	}
	text := func(n int) (any, []byte) { return string(b[:n]), b[n:] }
	switch c := b[0]; {
	case c < 0x80:
		return uint64(c), b[1:]
	case c < 0x90:
		b = b[1:]
		out := make(map[string]any)
		for range c & 15 {
			var k, v any
			k, b = unpack(b)
			v, b = unpack(b)
			out[k.(string)] = v
		}
		return out, b
	case c < 0xa0:
		b = b[1:]
		return list(int(c & 15))
	case c < 0xc0:
		b = b[1:]
		return text(int(c & 31))
	case c == 0xc0:
		return nil, b[1:]
	case c == 0xc4, c == 0xd9:
		return text(int(integer(1)))
	case c == 0xcb:
		return math.Float64frombits(integer(8)), b
	case c == 0xcc, c == 0xcd, c == 0xce, c == 0xcf:
		return integer(1 << (c - 0xcc)), b
	case c == 0xd3:
		return integer(8), b
	case c == 0xdc:
		return list(int(integer(2)))
	default:
		panic(fmt.Sprintf("byte %#x", c))
	}
}

// What a subscriber learns is what the cache holds: every stored block and
// copy, in every schema, with scarce blocks, preemptions and resets.
func TestFeedEqualsCache(t *testing.T) {
	for _, wire := range []enginetest.Wire{
		{}, {Digests: true}, {Form: enginetest.FormPositional}, {Form: enginetest.FormMedium}, {Form: enginetest.FormFirst},
	} {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(wire.Form), 4))
			e := newEngine(t, enginetest.Options{Wire: wire, BlockTokens: 4, Blocks: 40, MaxRunning: 6, DecodeStep: time.Millisecond})
			sub := e.Subscribe(0)
			held := make(map[uint64]int)
			learn := func(h any, by int) {
				var key uint64
				switch h := h.(type) {
				case uint64:
					key = h
				case string:
					require.Len(t, h, 32)
					key = binary.BigEndian.Uint64([]byte(h[24:]))
				}
				if held[key] += by; held[key] == 0 {
					delete(held, key)
				}
			}
			for round := range 10 {
				var wg sync.WaitGroup
				for range 10 {
					prompt, reply := seq(100*rng.IntN(4), 1+rng.IntN(40)), 1+rng.IntN(40)
					wg.Go(func() { generate(t, e, prompt, reply) })
				}
				wg.Wait()
				if round == 7 {
					require.NoError(t, e.ResetPrefixCache())
				}
				for sub.Buffered() > 0 {
					batch, rest := unpack(receive(t, sub).Payload)
					require.Empty(t, rest)
					for _, event := range batch.([]any)[1].([]any) {
						var tag, hashes any
						switch event := event.(type) {
						case map[string]any:
							tag, hashes = event["type"], event["block_hashes"]
						case []any:
							tag = event[0]
							if len(event) > 1 {
								hashes = event[1]
							}
						}
						switch tag {
						case "BlockStored":
							for _, h := range hashes.([]any) {
								learn(h, 1)
							}
						case "BlockRemoved":
							for _, h := range hashes.([]any) {
								learn(h, -1)
							}
						case "AllBlocksCleared":
							clear(held)
						}
					}
				}
				require.Equal(t, e.Resident(), held)
			}
			require.Positive(t, e.Stats().Evictions)
		})
	}
}
