package rivals_test

import (
	"math/bits"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/prefixindex"
)

// holders is a set of owners, a bit each.
type holders struct {
	mu   sync.RWMutex
	bits []uint64
}

// walk is an index over a store as gateways write it: look up block after block, and keep
// those owners that hold all so far. Like the reference it knows no tiers, orphans, copies
// or epochs. Its sets are what a careful author would take, so that it loses by its shape
// and not by its details.
type walk struct {
	h      prefixindex.Hasher
	blocks store
	words  int                               // of a set
	names  []map[prefixindex.EngineHash]hash // an owner each

	// Of the last lookup.
	run    []int    // blocks, an owner each
	inside []uint64 // owners whose run goes on
}

func newWalk(b testing.TB, owners int, blocks store) harness.Index {
	h, err := prefixindex.NewHasher(harness.BlockTokens, 1)
	harness.Must(b, err)
	w := &walk{
		h:      h,
		blocks: blocks,
		words:  (owners + 63) / 64,
		names:  make([]map[prefixindex.EngineHash]hash, owners),
		run:    make([]int, owners),
	}
	w.inside = make([]uint64, w.words)
	for owner := range w.names {
		w.names[owner] = map[prefixindex.EngineHash]hash{}
	}
	return w
}

func (w *walk) Hasher() prefixindex.Hasher { return w.h }

func (w *walk) Store(owner int, c *harness.Chain, from, to int) error {
	key := w.h.Root(harness.Scope())
	if from > 0 {
		key = w.names[owner][harness.EngineHash(owner, c, from-1)]
	}
	for block := from; block < to; block++ {
		key = w.h.Next(key, c.Tokens[block*harness.BlockTokens:(block+1)*harness.BlockTokens], nil)
		w.names[owner][harness.EngineHash(owner, c, block)] = key
		set, ok := w.blocks.load(key)
		if !ok {
			set = w.blocks.loadOrStore(key, &holders{bits: make([]uint64, w.words)})
		}
		set.mu.Lock()
		set.bits[owner/64] |= 1 << (owner % 64)
		set.mu.Unlock()
	}
	return nil
}

// Remove lets a block go with its last holder. A holder that comes at that instant is lost,
// which the benchmarks, with one writer, do not see.
func (w *walk) Remove(owner int, c *harness.Chain, from, to int) error {
	for block := to - 1; block >= from; block-- {
		name := harness.EngineHash(owner, c, block)
		key := w.names[owner][name]
		delete(w.names[owner], name)
		set, ok := w.blocks.load(key)
		if !ok {
			continue
		}
		set.mu.Lock()
		set.bits[owner/64] &^= 1 << (owner % 64)
		var rest uint64
		for _, word := range set.bits {
			rest |= word
		}
		set.mu.Unlock()
		if rest == 0 {
			w.blocks.remove(key)
		}
	}
	return nil
}

func (w *walk) Lookup(p *prefixindex.Prompt) {
	clear(w.run)
	for i := range w.inside {
		w.inside[i] = ^uint64(0)
	}
	hashes := w.h.Hashes(p)
	for i, key := range hashes {
		set, ok := w.blocks.load(key)
		if !ok {
			w.end(w.inside, i)
			return
		}
		var some uint64
		set.mu.RLock()
		for j, word := range set.bits {
			some |= w.inside[j] & word
			if lost := w.inside[j] &^ word; lost != 0 {
				w.lose(j, lost, i)
				w.inside[j] = word & w.inside[j]
			}
		}
		set.mu.RUnlock()
		if some == 0 {
			return
		}
	}
	w.end(w.inside, len(hashes))
}

// end notes a run of that many blocks for each owner that is inside.
func (w *walk) end(inside []uint64, blocks int) {
	for j, word := range inside {
		w.lose(j, word, blocks)
	}
}

func (w *walk) lose(word int, lost uint64, blocks int) {
	for ; lost != 0; lost &= lost - 1 {
		if owner := word*64 + bits.TrailingZeros64(lost); owner < len(w.run) {
			w.run[owner] = blocks
		}
	}
}

func (w *walk) Held(owner int) int { return w.run[owner] * harness.BlockTokens }
