package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// indexSpeed is how fast and how large an index is.
type indexSpeed struct{ storesPerSecond, matchesPerSecond, bytesPerHolding float64 }

// measureIndex stores the same prompts on a number of owners, and matches them.
func measureIndex(owners int) (m indexSpeed, err error) {
	const prompts, blocks, size, rounds = 256, 128, 16, 100_000
	ix, err := prefixindex.New(prefixindex.Options{Seed: 1})
	if err != nil {
		return m, err
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	tokens := make([]uint32, prompts*blocks*size)
	for i := range tokens {
		tokens[i] = rnd.Uint32N(150_000)
	}
	hashes := make([]prefixindex.EngineHash, prompts*blocks)
	for i := range hashes {
		hashes[i] = prefixindex.EngineHash(rnd.Uint64())
	}
	begun := time.Now()
	for i := range owners {
		ep, err := ix.Join(fmt.Sprint(i))
		if err != nil {
			return m, err
		}
		w, err := ix.Writer(ep, 0)
		if err != nil {
			return m, err
		}
		for p := range prompts {
			span := prefixindex.Span{
				Hashes: hashes[p*blocks:][:blocks], Tokens: tokens[p*blocks*size:][:blocks*size], BlockTokens: size,
			}
			if err := w.Store(&span); err != nil {
				return m, err
			}
		}
	}
	holdings := float64(owners * prompts * blocks)
	m.storesPerSecond = holdings / time.Since(begun).Seconds()
	m.bytesPerHolding = float64(ix.Stats().Bytes) / holdings

	all := make([]prefixindex.Prompt, prompts)
	for p := range all {
		all[p].Reset(prefixindex.Scope{}, tokens[p*blocks*size:][:blocks*size])
		ix.Hasher().Hashes(&all[p])
	}
	var match prefixindex.Match
	begun = time.Now()
	for n := range rounds {
		ix.Match(&all[n%prompts], &match)
	}
	m.matchesPerSecond = rounds / time.Since(begun).Seconds()
	return m, nil
}
