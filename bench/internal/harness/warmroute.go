package harness

import (
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/prefixindex"
)

// Warmroute is the implementation that this repository is about. An owner's calls
// come from one goroutine at a time, and lookups from one.
type Warmroute struct {
	Index     *prefixindex.Index
	Endpoints []prefixindex.Endpoint
	Writers   []*prefixindex.Writer
	Spans     []prefixindex.Span // an owner each, for their memory
	removals  []prefixindex.Removal
	match     prefixindex.Match
}

// NewWarmroute returns one of that many owners, of one rank each.
func NewWarmroute(b testing.TB, owners int) *Warmroute {
	return NewWarmrouteWith(b, owners, prefixindex.Options{Seed: 1})
}

// NewWarmrouteWith is NewWarmroute with options.
func NewWarmrouteWith(b testing.TB, owners int, o prefixindex.Options) *Warmroute {
	ix, err := prefixindex.New(o)
	Must(b, err)
	w := &Warmroute{Index: ix}
	for range owners {
		w.Join(b)
	}
	return w
}

// Join adds an owner and returns its number.
func (w *Warmroute) Join(b testing.TB) int {
	owner := len(w.Writers)
	e, err := w.Index.Join(fmt.Sprintf("engine-%d", owner))
	Must(b, err)
	writer, err := w.Index.Writer(e, 0)
	Must(b, err)
	w.Endpoints = append(w.Endpoints, e)
	w.Writers = append(w.Writers, writer)
	w.Spans = append(w.Spans, prefixindex.Span{BlockTokens: BlockTokens})
	w.removals = append(w.removals, prefixindex.Removal{})
	return owner
}

// Hasher implements Index.
func (w *Warmroute) Hasher() prefixindex.Hasher { return w.Index.Hasher() }

// Store implements Index.
func (w *Warmroute) Store(owner int, c *Chain, from, to int) error {
	s := &w.Spans[owner]
	s.Hashes = s.Hashes[:0]
	for block := from; block < to; block++ {
		s.Hashes = append(s.Hashes, EngineHash(owner, c, block))
	}
	s.Tokens = c.Tokens[from*BlockTokens : to*BlockTokens]
	s.Scope = Scope()
	if s.HasParent = from > 0; s.HasParent {
		s.Parent = EngineHash(owner, c, from-1)
	}
	return w.Writers[owner].Store(s)
}

// Remove implements Index.
func (w *Warmroute) Remove(owner int, c *Chain, from, to int) error {
	r := &w.removals[owner]
	r.Hashes = r.Hashes[:0]
	for block := to - 1; block >= from; block-- {
		r.Hashes = append(r.Hashes, EngineHash(owner, c, block))
	}
	return w.Writers[owner].Remove(r)
}

// Lookup implements Index.
func (w *Warmroute) Lookup(p *prefixindex.Prompt) { w.Index.Match(p, &w.match) }

// Held implements Index.
func (w *Warmroute) Held(owner int) int { return w.match.Of(w.Endpoints[owner]).GPU }
