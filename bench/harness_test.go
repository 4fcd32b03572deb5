package bench_test

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

const (
	blockTokens  = 16
	promptBlocks = 640
	promptTokens = promptBlocks * blockTokens // 10,240
)

var scope = prefixindex.Scope{Model: "llama"}

// BENCH_SIZE chooses between benchmarks that set up in an instant and those that
// take seconds and gigabytes: "small", "large", or unset for both. -short is
// "small" too.
func small(b *testing.B) {
	if os.Getenv("BENCH_SIZE") == "large" {
		b.Skip("small")
	}
}

func large(b *testing.B) {
	if testing.Short() || os.Getenv("BENCH_SIZE") == "small" {
		b.Skip("large")
	}
}

// mix spreads x over 64 bits, one to one: the last steps of SplitMix64
// (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A chain is a conversation: its number determines its tokens, so that millions of
// blocks need not be kept to be asked for again.
type chain struct {
	id     uint64
	tokens []uint32
}

func newChain(id uint64, tokens int) *chain {
	c := &chain{tokens: make([]uint32, tokens)}
	c.become(id)
	return c
}

// become makes c another conversation of the same length.
func (c *chain) become(id uint64) {
	c.id = id
	for i := range c.tokens {
		c.tokens[i] = uint32(mix(id<<24+uint64(i)) >> 47) // a vocabulary of 131,072
	}
}

func (c *chain) blocks() int { return len(c.tokens) / blockTokens }

// prompt returns the prompt of all of c, with its hashes known.
func (c *chain) prompt(h prefixindex.Hasher) *prefixindex.Prompt {
	p := new(prefixindex.Prompt)
	p.Reset(scope, c.tokens)
	h.Hashes(p)
	return p
}

// An implementation is an index with a fleet of owners, numbered from 0.
type implementation interface {
	hasher() prefixindex.Hasher
	store(owner int, c *chain, from, to int) error  // blocks [from, to) of c
	remove(owner int, c *chain, from, to int) error // the same, children first, as engines evict
	lookup(p *prefixindex.Prompt)
	held(owner int) (tokens int) // as the last lookup found
}

// implementations are what a benchmark runs on where all of them can do the work.
var implementations = []struct {
	name string
	open func(b testing.TB, owners int) implementation
}{
	{"warmroute", func(b testing.TB, owners int) implementation { return newWarmroute(b, owners) }},
	{"reference", newReference},
}

// warmroute is the implementation that this repository is about. An owner's calls
// come from one goroutine at a time, and lookups from one.
type warmroute struct {
	ix        *prefixindex.Index
	endpoints []prefixindex.Endpoint
	writers   []*prefixindex.Writer
	spans     []prefixindex.Span // an owner each, for their memory
	removals  []prefixindex.Removal
	match     prefixindex.Match
}

func newWarmroute(b testing.TB, owners int) *warmroute {
	return newWarmrouteWith(b, owners, prefixindex.Options{Seed: 1})
}

func newWarmrouteWith(b testing.TB, owners int, o prefixindex.Options) *warmroute {
	ix, err := prefixindex.New(o)
	must(b, err)
	w := &warmroute{ix: ix}
	for range owners {
		w.join(b)
	}
	return w
}

// join adds an owner and returns its number.
func (w *warmroute) join(b testing.TB) int {
	owner := len(w.writers)
	e, err := w.ix.Join(fmt.Sprintf("engine-%d", owner))
	must(b, err)
	writer, err := w.ix.Writer(e, 0)
	must(b, err)
	w.endpoints = append(w.endpoints, e)
	w.writers = append(w.writers, writer)
	w.spans = append(w.spans, prefixindex.Span{BlockTokens: blockTokens})
	w.removals = append(w.removals, prefixindex.Removal{})
	return owner
}

// engineHash is the name that an engine gives to a block: different on each.
func engineHash(owner int, c *chain, block int) prefixindex.EngineHash {
	return prefixindex.EngineHash(mix(mix(c.id) + uint64(owner)<<32 + uint64(block)))
}

func (w *warmroute) hasher() prefixindex.Hasher { return w.ix.Hasher() }

func (w *warmroute) store(owner int, c *chain, from, to int) error {
	s := &w.spans[owner]
	s.Hashes = s.Hashes[:0]
	for block := from; block < to; block++ {
		s.Hashes = append(s.Hashes, engineHash(owner, c, block))
	}
	s.Tokens = c.tokens[from*blockTokens : to*blockTokens]
	s.Scope = scope
	if s.HasParent = from > 0; s.HasParent {
		s.Parent = engineHash(owner, c, from-1)
	}
	return w.writers[owner].Store(s)
}

func (w *warmroute) remove(owner int, c *chain, from, to int) error {
	r := &w.removals[owner]
	r.Hashes = r.Hashes[:0]
	for block := to - 1; block >= from; block-- {
		r.Hashes = append(r.Hashes, engineHash(owner, c, block))
	}
	return w.writers[owner].Remove(r)
}

func (w *warmroute) lookup(p *prefixindex.Prompt) { w.ix.Match(p, &w.match) }

func (w *warmroute) held(owner int) int { return w.match.Of(w.endpoints[owner]).GPU }

// fill stores that many blocks in all, in chains of promptBlocks that are dealt to
// the owners in turn, and returns how many chains are full. Chain i is the one with
// number first+i.
func fill(b testing.TB, impl implementation, owners []int, first uint64, blocks int) (chains int) {
	c := newChain(first, promptTokens)
	for ; blocks >= promptBlocks; blocks -= promptBlocks {
		c.become(first + uint64(chains))
		must(b, impl.store(owners[chains%len(owners)], c, 0, promptBlocks))
		chains++
	}
	c.become(first + uint64(chains))
	if blocks > 0 {
		must(b, impl.store(owners[chains%len(owners)], c, 0, blocks))
	}
	return chains
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// expect fails unless the lookup of p finds want(owner) blocks on each owner.
func expect(b testing.TB, impl implementation, p *prefixindex.Prompt, owners int, want func(owner int) int) {
	b.Helper()
	impl.lookup(p)
	for owner := range owners {
		if got := impl.held(owner); got != want(owner)*blockTokens {
			b.Fatalf("owner %d of %d holds %d tokens, want %d", owner, owners, got, want(owner)*blockTokens)
		}
	}
}

func must(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// latencies is a histogram of durations. Its memory is fixed, so that recording
// does not disturb what is measured; a percentile is exact to 1/64 of itself.
type latencies struct {
	counts [64 * 58]uint32
	n      uint64
	sum    time.Duration
}

func (l *latencies) record(d time.Duration) {
	l.counts[bucket(uint64(max(d, 0)))]++
	l.n++
	l.sum += d
}

// bucket numbers durations below 128 ns one by one, and cuts each doubling above in
// 64 equal steps.
func bucket(ns uint64) int {
	if ns < 64 {
		return int(ns)
	}
	exponent := bits.Len64(ns) - 7 // of the lowest bit kept
	return exponent<<6 + int(ns>>exponent)
}

// percentile wants at least one duration.
func (l *latencies) percentile(p float64) float64 {
	rank := uint64(p / 100 * float64(l.n-1))
	var seen uint64
	for i, count := range &l.counts {
		if seen += uint64(count); seen > rank {
			return lowest(i)
		}
	}
	return 0
}

// lowest returns the shortest duration of a bucket.
func lowest(i int) float64 {
	if i < 128 {
		return float64(i)
	}
	exponent := i>>6 - 1
	return float64(uint64(i-exponent<<6) << exponent)
}

// report adds p50 and p99 to the benchmark's figures, with a name before them that
// ends in "-" or is empty. Of fewer than 100 durations there is no p99.
func (l *latencies) report(b *testing.B, name string) {
	if l.n > 0 {
		b.ReportMetric(l.percentile(50), name+"p50-ns")
	}
	if l.n >= 100 {
		b.ReportMetric(l.percentile(99), name+"p99-ns")
	}
}

// heap returns the bytes in live objects. What the first collection leaves in pools
// and finalizers, the second takes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLatencies(t *testing.T) {
	var l latencies
	for ns := range 100_001 {
		l.record(time.Duration(ns))
	}
	for _, p := range []float64{0.01, 0.1, 1, 50, 99, 100} {
		require.InEpsilon(t, p*1000, l.percentile(p), 1./64)
	}
	for _, ns := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 1<<40 + 1} {
		require.LessOrEqual(t, lowest(bucket(ns)), float64(ns))
		require.Less(t, float64(ns), lowest(bucket(ns)+1))
	}
}
