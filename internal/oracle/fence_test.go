package oracle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// TestFencesAreLinearizable has callers join, leave, open epochs, write to them and to
// those before, clear and look up, all at once and at random, and looks for an order
// that explains every answer.
func TestFencesAreLinearizable(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	var refusals, hits int
	for round := range rounds {
		names, owners := runClients(t, uint64(round), nil)
		requireOrder[member](t, names)
		requireOrder[owner](t, owners)
		for _, op := range owners {
			switch s := op.Input.(call).step.(type) {
			case late:
				refusals++
			case read:
				hits += min(s.blocks, 1)
			}
		}
	}
	t.Logf("%d late writes, %d answers of lookups that were not 0", refusals, hits)
	require.NotZero(t, refusals)
	require.NotZero(t, hits)
}

// TestBrokenFencesAreNoticed runs the same clients in front of an index that breaks its
// word now and then.
func TestBrokenFencesAreNoticed(t *testing.T) {
	for name, lie := range map[string]func(c *client, of part, s fmt.Stringer) fmt.Stringer{
		"lookups report what was held before": func(c *client, of part, s fmt.Stringer) fmt.Stringer {
			r, ok := s.(read)
			if !ok {
				return s
			}
			if r.blocks > 0 {
				c.seen[of] = r
			} else if before, ok := c.seen[of]; ok && c.rng.IntN(20) == 0 {
				return before
			}
			return s
		},
		"late writes are taken": func(c *client, _ part, s fmt.Stringer) fmt.Stringer {
			if l, ok := s.(late); ok && c.rng.IntN(20) == 0 {
				return stored{writer: l.writer}
			}
			return s
		},
		"writes are refused without a fence": func(c *client, _ part, s fmt.Stringer) fmt.Stringer {
			if w, ok := s.(cleared); ok && c.rng.IntN(5) == 0 {
				return late(w)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 20 {
				if _, owners := runClients(t, uint64(round), lie); check[owner](owners) != nil {
					return
				}
			}
			t.Fatal("not noticed in 20 rounds")
		})
	}
}

const (
	fenceClients = 3
	fenceCalls   = 250 // of each client
	fenceRanks   = 2
	fenceBlocks  = 3 // of each chain
)

// world is what clients share: an index, and who and what there is to call it with.
// Handles and Writers stay in use for a while after their end.
type world struct {
	ix    *prefixindex.Index
	start time.Time
	lie   func(*client, part, fmt.Stringer) fmt.Stringer // what it answers instead; nil: the truth

	mu        sync.Mutex
	endpoints []joinedEndpoint // the last few
	writers   []openWriter
	opened    int
}

type joinedEndpoint struct {
	name     string
	endpoint prefixindex.Endpoint
}

type openWriter struct {
	of part
	id int
	w  *prefixindex.Writer
}

type client struct {
	*world
	id     int
	rng    *rand.Rand
	prompt prefixindex.Prompt
	match  prefixindex.Match
	seen   map[part]read // for liars

	names, owners []porcupine.Operation // its history
	err           error
}

// runClients returns the history of a new index.
func runClients(t *testing.T, seed uint64, lie func(*client, part, fmt.Stringer) fmt.Stringer) (names, owners []porcupine.Operation) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	shared := &world{ix: ix, start: time.Now(), lie: lie}
	var clients []*client
	var all sync.WaitGroup
	begin := make(chan struct{})
	for id := range fenceClients {
		c := &client{world: shared, id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), seen: map[part]read{}}
		clients = append(clients, c)
		all.Go(func() {
			<-begin
			for range fenceCalls {
				c.any()
			}
		})
	}
	close(begin)
	all.Wait()
	for _, c := range clients {
		require.NoError(t, c.err)
		names, owners = append(names, c.names...), append(owners, c.owners...)
	}
	return names, owners
}

// any makes a call.
func (c *client) any() {
	endpoint, writer := c.pick()
	switch n := c.rng.IntN(100); {
	case endpoint.endpoint == 0 || n < 12:
		c.join([]string{"a", "b"}[c.rng.IntN(2)])
	case n < 18:
		c.leave(endpoint)
	case n < 21:
		c.find(endpoint.name)
	case writer.w == nil || n < 33:
		c.open(endpoint.endpoint, c.rng.IntN(fenceRanks))
	case n < 60:
		c.store(writer)
	case n < 66:
		c.clear(writer)
	default:
		c.lookup()
	}
}

// pick returns something to call with, later ones more often.
func (c *client) pick() (endpoint joinedEndpoint, writer openWriter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.endpoints); n > 0 {
		endpoint = c.endpoints[max(c.rng.IntN(n), c.rng.IntN(n))]
	}
	if n := len(c.writers); n > 0 {
		writer = c.writers[max(c.rng.IntN(n), c.rng.IntN(n))]
	}
	return endpoint, writer
}

// last returns s with x, and without its first if it is long.
func last[T any](s []T, x T) []T {
	const keep = 6
	if len(s) == keep {
		s = s[1:]
	}
	return append(slices.Clip(s), x)
}

type interval struct{ from, to int64 }

func (c *client) time(f func()) (at interval) {
	at.from = int64(time.Since(c.start))
	f()
	at.to = int64(time.Since(c.start))
	return at
}

// note adds the steps of a call to the history of who has a name.
func (c *client) note(at interval, name string, step fmt.Stringer) {
	c.names = append(c.names, c.operation(at, part{name: name}, step))
}

// noteOwner adds the steps of a call to the history of an owner.
func (c *client) noteOwner(at interval, of part, steps ...fmt.Stringer) {
	for _, s := range steps {
		if c.lie != nil {
			s = c.lie(c, of, s)
		}
		c.owners = append(c.owners, c.operation(at, of, s))
	}
}

func (c *client) operation(at interval, of part, s fmt.Stringer) porcupine.Operation {
	return porcupine.Operation{ClientId: c.id, Call: at.from, Return: at.to, Input: call{of: of, step: s}}
}

func (c *client) join(name string) {
	var e prefixindex.Endpoint
	var err error
	at := c.time(func() { e, err = c.ix.Join(name) })
	c.err = errors.Join(c.err, err)
	c.note(at, name, joined{e})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.endpoints {
		if known.endpoint == e {
			return
		}
	}
	c.endpoints = last(c.endpoints, joinedEndpoint{name, e})
}

func (c *client) leave(e joinedEndpoint) {
	at := c.time(func() { c.ix.Leave(e.endpoint) })
	c.note(at, e.name, departed{e.endpoint})
	for rank := range fenceRanks {
		c.noteOwner(at, part{endpoint: e.endpoint, rank: rank}, fenced{}, left{})
	}
}

func (c *client) find(name string) {
	var e prefixindex.Endpoint
	at := c.time(func() { e, _ = c.ix.Find(name) })
	c.note(at, name, found{e})
}

func (c *client) open(e prefixindex.Endpoint, rank int) {
	of := part{endpoint: e, rank: rank}
	var w *prefixindex.Writer
	var err error
	at := c.time(func() { w, err = c.ix.Writer(e, rank) })
	if errors.Is(err, prefixindex.ErrNotJoined) {
		c.noteOwner(at, of, refused{})
		return
	}
	c.err = errors.Join(c.err, err)
	c.mu.Lock()
	c.opened++
	id := c.opened
	c.writers = last(c.writers, openWriter{of: of, id: id, w: w})
	c.mu.Unlock()
	c.noteOwner(at, of, fenced{}, opened{id})
}

// written notes a write that consists of steps, if it was taken.
func (c *client) written(w openWriter, at interval, err error, steps ...fmt.Stringer) {
	if errors.Is(err, prefixindex.ErrFenced) {
		steps = []fmt.Stringer{late{w.id}}
	} else {
		c.err = errors.Join(c.err, err)
	}
	c.noteOwner(at, w.of, steps...)
}

// chain returns the prompt of a chain.
func chain(n int) (prefixindex.Scope, []uint32) {
	tokens := make([]uint32, 4*fenceBlocks)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	return prefixindex.Scope{Model: fmt.Sprint(n)}, tokens
}

// store stores the first blocks of a chain, on some tier, or with no word of an engine:
// the one or the other for all of an epoch, since a first Store ends what Insert recorded.
func (c *client) store(w openWriter) {
	n, blocks := c.rng.IntN(chains), 1+c.rng.IntN(fenceBlocks)
	scope, tokens := chain(n)
	var steps []fmt.Stringer
	span := prefixindex.Span{
		Tokens: tokens[:4*blocks], BlockTokens: 4, Scope: scope, Tier: prefixindex.Tier(c.rng.IntN(2)),
	}
	for i := range blocks {
		span.Hashes = append(span.Hashes, prefixindex.EngineHash(100*n+i+1))
		steps = append(steps, stored{w.id, n, i})
	}
	write := func() error { return w.w.Store(&span) }
	if w.id%4 == 0 {
		c.prompt.Reset(scope, tokens)
		write = func() error { return w.w.Insert(&c.prompt, blocks) }
	}
	var err error
	at := c.time(func() { err = write() })
	c.written(w, at, err, steps...)
}

func (c *client) clear(w openWriter) {
	var err error
	at := c.time(func() { err = w.w.Clear() })
	c.written(w, at, err, cleared{w.id})
}

// lookup notes an answer for every owner that is known, and for all that are named.
func (c *client) lookup() {
	n := c.rng.IntN(chains)
	scope, tokens := chain(n)
	c.prompt.Reset(scope, tokens)
	c.mu.Lock()
	known := c.endpoints
	c.mu.Unlock()
	at := c.time(func() { c.ix.Match(&c.prompt, &c.match) })

	blocks := map[prefixindex.Endpoint]*[fenceRanks]int{}
	for _, p := range known {
		blocks[p.endpoint] = new([fenceRanks]int)
	}
	for e, held := range c.match.All() {
		if blocks[e] == nil {
			blocks[e] = new([fenceRanks]int)
		}
		blocks[e][held.Rank] = held.Any / 4
	}
	for e, ranks := range blocks {
		for rank, b := range ranks {
			c.noteOwner(at, part{endpoint: e, rank: rank}, read{n, b})
		}
	}
}
