package rivals_test

import (
	"sync"
	"testing"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/maypok86/otter/v2"
	"github.com/puzpuzpuz/xsync/v4"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/prefixindex"
)

type hash = prefixindex.BlockHash

// A store is a concurrent map from a block to its holders.
type store interface {
	load(key hash) (*holders, bool)
	loadOrStore(key hash, h *holders) *holders // the one that is there afterwards
	remove(key hash)
}

// capacity of the caches: nothing is evicted here.
const capacity = 1 << 22

// stores are by name; all but ours are under the same index.
var stores = []struct {
	name string
	open func(b testing.TB) store
}{
	{"rwmutex", func(testing.TB) store { return &locked{m: map[hash]*holders{}} }},
	{"syncmap", func(testing.TB) store { return new(syncMap) }},
	{"xsync", func(testing.TB) store { return xsyncMap{xsync.NewMap[hash, *holders]()} }},
	{"golang-lru", func(b testing.TB) store {
		c, err := lru.New[hash, *holders](capacity)
		harness.Must(b, err)
		return lruCache{c}
	}},
	{"otter", func(b testing.TB) store {
		c, err := otter.New(&otter.Options[hash, *holders]{MaximumSize: capacity})
		harness.Must(b, err)
		return otterCache{c}
	}},
}

type locked struct {
	mu sync.RWMutex
	m  map[hash]*holders
}

func (s *locked) load(key hash) (*holders, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h, ok := s.m[key]
	return h, ok
}

func (s *locked) loadOrStore(key hash, h *holders) *holders {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.m[key]; ok {
		return old
	}
	s.m[key] = h
	return h
}

func (s *locked) remove(key hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, key)
}

type syncMap struct{ m sync.Map }

func (s *syncMap) load(key hash) (*holders, bool) {
	h, ok := s.m.Load(key)
	if !ok {
		return nil, false
	}
	return h.(*holders), true
}

func (s *syncMap) loadOrStore(key hash, h *holders) *holders {
	there, _ := s.m.LoadOrStore(key, h)
	return there.(*holders)
}

func (s *syncMap) remove(key hash) { s.m.Delete(key) }

type xsyncMap struct {
	m *xsync.Map[hash, *holders]
}

func (s xsyncMap) load(key hash) (*holders, bool) { return s.m.Load(key) }

func (s xsyncMap) loadOrStore(key hash, h *holders) *holders {
	there, _ := s.m.LoadOrStore(key, h)
	return there
}

func (s xsyncMap) remove(key hash) { s.m.Delete(key) }

type lruCache struct{ c *lru.Cache[hash, *holders] }

func (s lruCache) load(key hash) (*holders, bool) { return s.c.Get(key) }

func (s lruCache) loadOrStore(key hash, h *holders) *holders {
	if there, ok, _ := s.c.PeekOrAdd(key, h); ok {
		return there
	}
	return h
}

func (s lruCache) remove(key hash) { s.c.Remove(key) }

type otterCache struct{ c *otter.Cache[hash, *holders] }

func (s otterCache) load(key hash) (*holders, bool) { return s.c.GetIfPresent(key) }

func (s otterCache) loadOrStore(key hash, h *holders) *holders {
	there, _ := s.c.SetIfAbsent(key, h)
	return there
}

func (s otterCache) remove(key hash) { s.c.Invalidate(key) }
