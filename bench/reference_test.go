package bench_test

import (
	"sync"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/prefixindex"
)

// reference is the index that one writes first: maps under a lock, and a walk that
// asks of block after block who among those still in the run holds it. It knows no
// tiers, orphans, copies or epochs. It is not the oracle of the tests, which works out
// every answer anew and would make anything look fast.
type reference struct {
	h prefixindex.Hasher

	mu      sync.RWMutex
	holders map[prefixindex.BlockHash]map[int]struct{}
	names   []map[prefixindex.EngineHash]prefixindex.BlockHash // an owner each

	// Of the last lookup.
	run    []int // blocks, an owner each
	inside []int // owners whose run goes on
}

func newReference(b testing.TB, owners int) harness.Index {
	h, err := prefixindex.NewHasher(harness.BlockTokens, 1)
	harness.Must(b, err)
	r := &reference{
		h:       h,
		holders: map[prefixindex.BlockHash]map[int]struct{}{},
		names:   make([]map[prefixindex.EngineHash]prefixindex.BlockHash, owners),
		run:     make([]int, owners),
	}
	for owner := range r.names {
		r.names[owner] = map[prefixindex.EngineHash]prefixindex.BlockHash{}
	}
	return r
}

func (r *reference) Hasher() prefixindex.Hasher { return r.h }

func (r *reference) Store(owner int, c *harness.Chain, from, to int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash := r.h.Root(harness.Scope())
	if from > 0 {
		hash = r.names[owner][harness.EngineHash(owner, c, from-1)]
	}
	for block := from; block < to; block++ {
		hash = r.h.Next(hash, c.Tokens[block*harness.BlockTokens:(block+1)*harness.BlockTokens], nil)
		r.names[owner][harness.EngineHash(owner, c, block)] = hash
		if r.holders[hash] == nil {
			r.holders[hash] = map[int]struct{}{}
		}
		r.holders[hash][owner] = struct{}{}
	}
	return nil
}

func (r *reference) Remove(owner int, c *harness.Chain, from, to int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for block := to - 1; block >= from; block-- {
		name := harness.EngineHash(owner, c, block)
		hash := r.names[owner][name]
		delete(r.names[owner], name)
		delete(r.holders[hash], owner)
		if len(r.holders[hash]) == 0 {
			delete(r.holders, hash)
		}
	}
	return nil
}

func (r *reference) Lookup(p *prefixindex.Prompt) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	clear(r.run)
	r.inside = r.inside[:0]
	for i, hash := range r.h.Hashes(p) {
		holders := r.holders[hash]
		if i == 0 {
			for owner := range holders {
				r.inside = append(r.inside, owner)
			}
		}
		kept := r.inside[:0]
		for _, owner := range r.inside {
			if _, ok := holders[owner]; ok {
				r.run[owner] = i + 1
				kept = append(kept, owner)
			}
		}
		if r.inside = kept; len(kept) == 0 {
			return
		}
	}
}

func (r *reference) Held(owner int) int { return r.run[owner] * harness.BlockTokens }
