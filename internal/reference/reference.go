// Package reference is an index to compare prefixindex with: the meaning of every
// write spelled out over plain maps, and every answer worked out anew from what the
// engines said. It is slow and keeps everything. With prefixindex it shares the
// hasher and the types of the arguments, and no other code.
//
// Some bounds of prefixindex have no counterpart, since which block goes is theirs to
// choose: the capacity of an owner with events, and how much is known of one.
package reference

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Options are those of prefixindex that the reference models, with no defaults.
type Options struct {
	OwnerBlocks  int // of blocks without events only
	OwnerOrphans int // 0 parks none
	Copies       int
	AssumedTTL   time.Duration // 0: no expiry
}

// Owner is one epoch of one KV cache. One goroutine at a time.
type Owner struct {
	Counts Counts

	hasher  prefixindex.Hasher
	options Options
	blocks  map[key]*block
	whole   [4]int // longest Whole span by tier, in tokens
	assumed []assumed
	fed     bool // Store was called: from then on nothing is assumed that came before

	expected  []expectation                  // the first to end first
	confirmed map[prefixindex.BlockHash]bool // of these, what events have said since
}

// Counts are the counters of prefixindex.Stats that the reference keeps.
type Counts struct {
	Stored, Copies, CopiesCapped, Inserted, Removed, RemovedUnknown, Placed, PlacedUnknown,
	Parked, ParkedDropped, Conflicts, Evicted, Expired, Expected, Confirmed uint64
}

type key struct {
	group int
	hash  prefixindex.EngineHash
}

// block is an engine block as it was announced.
type block struct {
	parent    key
	hasParent bool
	scope     prefixindex.Scope
	tokens    []uint32
	extras    []prefixindex.Extra // At counts from the block's first token
	copies    [4]int              // by tier
}

// assumed is a block without events; the slice of an owner has the oldest first.
type assumed struct {
	hash  prefixindex.BlockHash
	until time.Time
}

// expectation is what one Expect recorded.
type expectation struct {
	hashes []prefixindex.BlockHash
	until  time.Time
}

// New returns an owner that holds nothing.
func New(h prefixindex.Hasher, o Options) *Owner {
	w := &Owner{hasher: h, options: o}
	w.Clear()
	return w
}

// Clear empties the cache.
func (w *Owner) Clear() {
	w.Counts.ParkedDropped += uint64(w.Orphans())
	w.blocks, w.assumed = map[key]*block{}, nil
	w.DropExpected()
}

// DropExpected ends all expectations uncounted.
func (w *Owner) DropExpected() { w.expected, w.confirmed = nil, map[prefixindex.BlockHash]bool{} }

// Store is prefixindex.Writer.Store for spans that are well formed.
func (w *Owner) Store(s *prefixindex.Span) {
	if !w.fed {
		w.fed = true
		w.Counts.Expired += uint64(len(w.assumed))
		w.assumed = nil
	}
	defer w.confirm()
	w.lengthen(s)
	if len(s.Tokens) == 0 {
		for _, hash := range s.Hashes {
			if b := w.blocks[key{s.Group, hash}]; b == nil {
				w.Counts.PlacedUnknown++
			} else {
				w.addCopy(b, s.Tier, &w.Counts.Placed)
			}
		}
		return
	}
	parent, hasParent, scope := key{s.Group, s.Parent}, s.HasParent, s.Scope
	if hasParent {
		scope = prefixindex.Scope{}
	} else {
		parent = key{}
	}
	for i, hash := range s.Hashes {
		b := &block{parent: parent, hasParent: hasParent, scope: scope}
		from, to := i*s.BlockTokens, (i+1)*s.BlockTokens
		b.tokens = slices.Clone(s.Tokens[from:to])
		for _, x := range s.Extras {
			if x.At >= from && x.At < to {
				x.At -= from
				b.extras = append(b.extras, x)
			}
		}
		k := key{s.Group, hash}
		switch old := w.blocks[k]; {
		case old != nil && !w.same(k, b):
			w.Counts.Conflicts += uint64(len(s.Hashes) - i)
			return
		case old != nil:
			w.addCopy(old, s.Tier, &w.Counts.Stored)
		case !hasParent || w.known(parent):
			b.copies[s.Tier] = 1
			w.blocks[k] = b
			w.Counts.Stored++
		case w.Orphans() >= w.options.OwnerOrphans:
			w.Counts.ParkedDropped++
		default:
			b.copies[s.Tier] = 1
			w.blocks[k] = b
			w.Counts.Parked++
		}
		parent, hasParent, scope = k, true, prefixindex.Scope{}
	}
}

// same reports whether b is what k names: to the token, and once the block's place in its
// chain is known, with extras in the same of the index's blocks.
func (w *Owner) same(k key, b *block) bool {
	old := w.blocks[k]
	if b.parent != old.parent || b.hasParent != old.hasParent || b.scope != old.scope ||
		!slices.Equal(b.tokens, old.tokens) {
		return false
	}
	start, grain := 0, 1
	if path, ok := w.path(k); ok {
		grain = w.hasher.BlockTokens()
		for _, above := range path[:len(path)-1] {
			start += len(above.tokens)
		}
	}
	return slices.EqualFunc(b.extras, old.extras, func(x, y prefixindex.Extra) bool {
		x.At, y.At = (start+x.At)/grain, (start+y.At)/grain
		return x == y
	})
}

// confirm notes what is expected and now held because of events.
func (w *Owner) confirm() {
	if len(w.expected) == 0 {
		return
	}
	reported := w.reported(prefixindex.TierGPU)
	for _, x := range w.expected {
		for _, hash := range x.hashes {
			if reported[hash] && !w.confirmed[hash] {
				w.confirmed[hash] = true
				w.Counts.Confirmed++
			}
		}
	}
}

// Expect is prefixindex.Index.Expect of the blocks of a prompt from number from on.
func (w *Owner) Expect(hashes []prefixindex.BlockHash, from int, until, now time.Time) {
	w.Expire(now)
	if from >= len(hashes) {
		return
	}
	hashes = hashes[from:]
	reported := w.reported(prefixindex.TierGPU)
	for _, hash := range hashes {
		w.confirmed[hash] = reported[hash]
		w.Counts.Expected++
	}
	w.expected = append(w.expected, expectation{hashes, until})
	slices.SortStableFunc(w.expected, func(a, b expectation) int { return a.until.Compare(b.until) })
}

func (w *Owner) lengthen(s *prefixindex.Span) {
	if !s.Whole {
		return
	}
	n := len(s.Hashes) * s.BlockTokens
	if n == 0 {
		for _, hash := range s.Hashes {
			if b := w.blocks[key{s.Group, hash}]; b != nil {
				n += len(b.tokens)
			}
		}
	}
	w.whole[s.Tier] = max(w.whole[s.Tier], n)
}

func (w *Owner) addCopy(b *block, t prefixindex.Tier, first *uint64) {
	switch n := b.copies[t]; {
	case n == 0:
		*first++
	case n < w.options.Copies:
		w.Counts.Copies++
	default:
		w.Counts.CopiesCapped++
		return
	}
	b.copies[t]++
}

// Remove is prefixindex.Writer.Remove.
func (w *Owner) Remove(r *prefixindex.Removal) {
	for _, hash := range r.Hashes {
		k := key{r.Group, hash}
		b := w.blocks[k]
		if b == nil || b.copies[r.Tier] == 0 {
			w.Counts.RemovedUnknown++
			continue
		}
		b.copies[r.Tier]--
		w.Counts.Removed++
		if !w.known(k) && b.copies == [4]int{} {
			delete(w.blocks, k)
		}
	}
}

// Insert records blocks that have no engine hash, a prompt's last first.
func (w *Owner) Insert(hashes []prefixindex.BlockHash, now time.Time) {
	w.Expire(now)
	for _, hash := range slices.Backward(hashes) {
		before := len(w.assumed)
		w.assumed = slices.DeleteFunc(w.assumed, func(a assumed) bool { return a.hash == hash })
		if len(w.assumed) == before {
			w.Counts.Inserted++
		}
		w.assumed = append(w.assumed, assumed{hash, now.Add(w.options.AssumedTTL)})
		if len(w.assumed) > w.options.OwnerBlocks {
			w.assumed = w.assumed[1:]
			w.Counts.Evicted++
		}
	}
}

// Expire drops the blocks of Insert and Expect whose time is over.
func (w *Owner) Expire(now time.Time) {
	for len(w.expected) > 0 && !w.expected[0].until.After(now) {
		ended := w.expected[0].hashes
		w.expected = w.expected[1:]
		for _, hash := range ended {
			if !slices.ContainsFunc(w.expected, func(x expectation) bool { return slices.Contains(x.hashes, hash) }) {
				if !w.confirmed[hash] {
					w.Counts.Expired++
				}
				delete(w.confirmed, hash)
			}
		}
	}
	if w.options.AssumedTTL == 0 {
		return
	}
	before := len(w.assumed)
	w.assumed = slices.DeleteFunc(w.assumed, func(a assumed) bool { return !a.until.After(now) })
	w.Counts.Expired += uint64(before - len(w.assumed))
}

// path returns the blocks from the root to k, and whether all are there.
func (w *Owner) path(k key) ([]*block, bool) {
	var path []*block
	for {
		b := w.blocks[k]
		if b == nil || len(path) > len(w.blocks) { // or a circle
			return nil, false
		}
		path = append(path, b)
		if !b.hasParent {
			slices.Reverse(path)
			return path, true
		}
		k = b.parent
	}
}

func (w *Owner) known(k key) bool {
	_, ok := w.path(k)
	return ok
}

// Handles returns how many engine blocks have a name here.
func (w *Owner) Handles() int { return len(w.blocks) }

// Orphans returns how many engine blocks have an ancestor that is missing.
func (w *Owner) Orphans() int {
	n := 0
	for k := range w.blocks {
		if !w.known(k) {
			n++
		}
	}
	return n
}

// Held returns the index's blocks that are held on a tier up to farthest.
func (w *Owner) Held(farthest prefixindex.Tier, now time.Time) map[prefixindex.BlockHash]bool {
	held := w.reported(farthest)
	for _, a := range w.assumed {
		if w.options.AssumedTTL == 0 || a.until.After(now) {
			held[a.hash] = true
		}
	}
	for _, x := range w.expected {
		for _, hash := range x.hashes {
			if x.until.After(now) && !w.confirmed[hash] {
				held[hash] = true
			}
		}
	}
	return held
}

// reported is Held as far as events say so.
func (w *Owner) reported(farthest prefixindex.Tier) map[prefixindex.BlockHash]bool {
	size := w.hasher.BlockTokens()
	held := map[prefixindex.BlockHash]bool{}
	for k := range w.blocks {
		path, ok := w.path(k)
		if !ok {
			continue
		}
		var tokens []uint32
		var extras []prefixindex.Extra
		var ends []int // of each block on the path, in tokens
		var on []bool  // whether it has a copy that counts
		for _, b := range path {
			for _, x := range b.extras {
				x.At += len(tokens)
				extras = append(extras, x)
			}
			tokens = append(tokens, b.tokens...)
			ends = append(ends, len(tokens))
			copies := 0
			for _, n := range b.copies[:farthest+1] {
				copies += n
			}
			on = append(on, copies > 0)
		}
		hashes := Hashes(w.hasher, path[0].scope, tokens, extras)
		for i, hash := range hashes {
			whole := true
			start := 0
			for j, end := range ends {
				if start < (i+1)*size && end > i*size && !on[j] {
					whole = false
				}
				start = end
			}
			if whole {
				held[hash] = true
			}
		}
	}
	return held
}

// Hashes returns the hashes of the full blocks of a prompt.
func Hashes(
	h prefixindex.Hasher, s prefixindex.Scope, tokens []uint32, extras []prefixindex.Extra,
) []prefixindex.BlockHash {
	var hashes []prefixindex.BlockHash
	last := h.Root(s)
	for start, size := 0, h.BlockTokens(); start+size <= len(tokens); start += size {
		var in []prefixindex.Extra
		for _, x := range extras {
			if x.At >= start && x.At < start+size {
				in = append(in, x)
			}
		}
		slices.SortStableFunc(in, func(a, b prefixindex.Extra) int { return cmp.Compare(a.At, b.At) })
		last = h.Next(last, tokens[start:start+size], in)
		hashes = append(hashes, last)
	}
	return hashes
}

// Match returns the runs, in tokens, that prefixindex.Held gives as GPU, CPU and Any.
func (w *Owner) Match(hashes []prefixindex.BlockHash, now time.Time) [3]int {
	size := w.hasher.BlockTokens()
	var runs [3]int
	rawNearer, nearer := 0, 0 // what the loop found for the tier before
	for i, l := range []struct {
		farthest prefixindex.Tier
		chunk    int
	}{
		{prefixindex.TierGPU, w.whole[prefixindex.TierGPU]},
		{prefixindex.TierCPU, w.whole[prefixindex.TierCPU]},
		{prefixindex.TierShared, max(w.whole[prefixindex.TierDisk], w.whole[prefixindex.TierShared])},
	} {
		held := w.Held(l.farthest, now)
		raw := 0
		for raw/size < len(hashes) && held[hashes[raw/size]] {
			raw += size
		}
		runs[i] = nearer
		if raw > rawNearer {
			// The longest run of whole chunks of the tier that is also one of blocks.
			run := raw
			if l.chunk > 0 {
				run -= run % l.chunk
				run -= run % size
			}
			runs[i] = max(nearer, run)
		}
		rawNearer, nearer = raw, runs[i]
	}
	return runs
}
