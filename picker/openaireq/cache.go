package openaireq

import (
	"fmt"
	"hash/maphash"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cacheKey is 128 bits of a question: two hashes of its path and body under seeds that
// are random in each cache. Equal questions have equal keys; for others that is out of
// the question, by chance or on purpose.
type cacheKey [2]uint64

// cache holds answers, the least recently used of which go first. nil: nothing.
type cache struct {
	seeds [2]maphash.Seed
	lru   *simplelru.LRU[cacheKey, Tokens]
	bytes int
	limit int
}

// entryBytes is about what an entry takes besides its tokens.
const entryBytes = 256

func newCache(limit int) (*cache, error) {
	if limit < 0 {
		return nil, nil //nolint:nilnil // a nil cache is one that keeps nothing
	}
	lru, err := simplelru.NewLRU[cacheKey, Tokens](limit/entryBytes+1, nil)
	if err != nil {
		return nil, fmt.Errorf("openaireq: cache: %w", err)
	}
	return &cache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, lru: lru, limit: limit}, nil
}

// key may be called from anywhere.
func (c *cache) key(q *question) (key cacheKey) {
	if c == nil {
		return key
	}
	var h maphash.Hash
	for i := range key {
		h.SetSeed(c.seeds[i])
		_, _ = h.WriteString(q.path)
		for _, part := range q.parts {
			_, _ = h.Write(part)
		}
		key[i] = h.Sum64()
	}
	return key
}

func (c *cache) get(key cacheKey) (Tokens, bool) {
	if c == nil {
		return Tokens{}, false
	}
	return c.lru.Get(key)
}

// put adds an answer and returns how many went for it.
func (c *cache) put(key cacheKey, t Tokens) (evicted uint64) {
	if c == nil || cost(t) > c.limit {
		return 0
	}
	if old, ok := c.lru.Peek(key); ok {
		c.bytes -= cost(old) // asked for twice at a time
	}
	for c.bytes+cost(t) > c.limit {
		_, old, ok := c.lru.RemoveOldest()
		if !ok {
			break
		}
		c.bytes -= cost(old)
		evicted++
	}
	c.lru.Add(key, t) // makes no room of its own: entries cost more than limit/entries
	c.bytes += cost(t)
	return evicted
}

func cost(t Tokens) int {
	n := entryBytes + 4*cap(t.IDs)
	for i := range t.Extras {
		n += 64 + len(t.Extras[i].ID)
	}
	return n
}

func (c *cache) size() (entries, bytes int) {
	if c == nil {
		return 0, 0
	}
	return c.lru.Len(), c.bytes
}

func (c *cache) purge() {
	if c != nil {
		c.lru.Purge()
		c.bytes = 0
	}
}
