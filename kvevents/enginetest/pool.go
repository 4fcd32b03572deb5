package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
)

var (
	// ErrNoBlocks means that too few blocks are free now: the request must wait,
	// or a running one must give its blocks back. Nothing was changed.
	ErrNoBlocks = errors.New("enginetest: no free blocks")

	// ErrInUse means that the cache cannot be reset while sequences are open.
	ErrInUse = errors.New("enginetest: blocks in use")

	// ErrFreed means that the sequence was freed before.
	ErrFreed = errors.New("enginetest: sequence freed")

	// ErrOptions means that an option is out of its range; the message names it.
	ErrOptions = errors.New("enginetest: invalid option")
)

// PoolOptions configure a Pool. The zero value is a pool of 16,384 blocks of 16
// tokens with seed 0.
type PoolOptions struct {
	Blocks      int          // capacity; 0 is 16384; at most 1<<30
	BlockTokens int          // tokens in a block; 0 is 16; at most 1<<16
	Seed        uint64       // of the block hashes; pools of equal seed name equal blocks equally
	OnEvent     func(*Event) // every change, in order, on the caller's goroutine; nil: none built
}

func (o *PoolOptions) validate() error {
	if o.Blocks < 1 || o.Blocks > 1<<30 {
		return fmt.Errorf("%w: Blocks is %d, want 1 to %d", ErrOptions, o.Blocks, 1<<30)
	}
	if o.BlockTokens < 1 || o.BlockTokens > 1<<16 {
		return fmt.Errorf("%w: BlockTokens is %d, want 1 to %d", ErrOptions, o.BlockTokens, 1<<16)
	}
	return nil
}

// Pool is one KV cache of an engine: its blocks, who uses them, what they hold.
// The package comment has the rules. A Pool is not safe for concurrent use; it
// does no I/O, reads no clock and, given a seed, behaves the same every time.
type Pool struct {
	blockTokens int
	capacity    int
	root        uint64
	onEvent     func(*Event)

	blocks []block // those ever used; grows up to capacity
	table  blockTable

	// Free blocks, in order of reuse: spare (no hash), blocks never used,
	// then the queue of cached ones from its head.
	spare      int32 // stack through next
	head, tail int32
	free       int // all of them

	evictions uint64
	changes   uint64   // of what can let an Open that failed succeed
	scratch   []uint64 // hashes of the event under way
	event     Event    // it; here, so that it need not be allocated
}

// block is 24 bytes; with its share of the table a full pool takes 32 bytes a
// block.
type block struct {
	hash       uint64 // 0: holds nothing that can be hit
	refs       int32  // sequences that use it; 0: it is free
	prev, next int32  // in the queue of cached free blocks
	peer       int32  // next copy of the same hash
}

const none = -1

// NewPool returns an empty pool. The error wraps ErrOptions. Memory grows with
// the blocks used: about 32 bytes each.
func NewPool(o PoolOptions) (*Pool, error) {
	o.Blocks = cmp.Or(o.Blocks, 16384)
	o.BlockTokens = cmp.Or(o.BlockTokens, 16)
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Pool{
		blockTokens: o.BlockTokens,
		capacity:    o.Blocks,
		root:        fold(fold(foldKey, o.Seed), o.Seed),
		onEvent:     o.OnEvent,
		spare:       none,
		head:        none,
		tail:        none,
		free:        o.Blocks,
	}, nil
}

// Sequence is one request's blocks in a Pool: the prompt's, then those that its
// generated tokens fill.
type Sequence struct {
	pool   *Pool // nil once freed
	scope  Scope
	tokens []uint32
	blocks []int32
	cached int
	full   int    // leading blocks that carry a hash: hits, then computed ones
	last   uint64 // hash of block full-1, or the root
}

// Open looks the prompt up, takes the blocks it hits out of the free queue and
// allocates blocks for the rest, evicting the least recently used. The hit is
// whole blocks and leaves at least the last token to compute. ErrNoBlocks
// changes nothing. tokens and scope are kept, and must not change, until Free.
//
// Cost: one hash a block up to the first miss, and constant time a block.
func (p *Pool) Open(tokens []uint32, scope Scope) (*Sequence, error) {
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%w: empty prompt", ErrRequest)
	}
	total := (len(tokens) + p.blockTokens - 1) / p.blockTokens
	s := &Sequence{
		pool:   p,
		scope:  scope,
		tokens: slices.Clip(tokens),
		blocks: make([]int32, 0, total),
		last:   p.root,
	}
	idle := 0 // hits that nobody uses now: they stop being free
	p.walk(tokens[:len(tokens)-1], &s.scope, func(h uint64, id int32) {
		s.blocks = append(s.blocks, id)
		s.last = h
		if p.blocks[id].refs == 0 {
			idle++
		}
	})
	s.full = len(s.blocks)
	s.cached = s.full * p.blockTokens
	if total-s.full > p.free-idle {
		return nil, fmt.Errorf("%w: %d needed, %d free", ErrNoBlocks, total-s.full, p.free-idle)
	}
	for _, id := range s.blocks {
		if p.blocks[id].refs == 0 {
			p.unqueue(id)
			p.free--
		}
		p.blocks[id].refs++
	}
	for len(s.blocks) < total {
		s.blocks = append(s.blocks, p.take())
	}
	return s, nil
}

// walk calls hit for each leading whole block of tokens that the pool holds.
func (p *Pool) walk(tokens []uint32, scope *Scope, hit func(hash uint64, id int32)) {
	parent := p.root
	for i := 0; len(tokens) >= p.blockTokens; i++ {
		parent = blockHash(parent, tokens[:p.blockTokens], scope, i)
		id := p.table.find(p.blocks, parent)
		if id == none {
			return
		}
		hit(parent, id)
		tokens = tokens[p.blockTokens:]
	}
}

// CachedTokens returns how many of the prompt's tokens the sequence took from
// the cache when it was opened. O(1).
func (s *Sequence) CachedTokens() int { return s.cached }

// Compute says that every token so far has been computed: the full blocks
// become hits for later prompts and are announced in one Stored event. A block
// whose hash is cached already becomes a further copy of it. Cost: one hash
// for each new full block.
func (s *Sequence) Compute() {
	p := s.pool
	if p == nil {
		return
	}
	bt := p.blockTokens
	full := len(s.tokens) / bt
	if full == s.full {
		return
	}
	e := Event{
		Kind:        Stored,
		HasParent:   s.full > 0,
		First:       s.full,
		Tokens:      s.tokens[s.full*bt : full*bt],
		BlockTokens: bt,
		Scope:       &s.scope,
	}
	if e.HasParent {
		e.Parent = s.last
	}
	p.scratch = p.scratch[:0]
	for i := s.full; i < full; i++ {
		s.last = blockHash(s.last, s.tokens[i*bt:(i+1)*bt], &s.scope, i)
		id := s.blocks[i]
		p.blocks[id].hash = s.last
		p.table.add(p.blocks, id)
		p.scratch = append(p.scratch, s.last)
	}
	s.full = full
	p.changes++
	e.Hashes = p.scratch
	p.emit(e)
}

// Append is one decoding step: it computes token, the one that was sampled
// last, and takes a new block for it when the last is full. A block that it
// fills is announced. On ErrNoBlocks nothing has changed and the step can be
// tried again. Amortised O(1).
func (s *Sequence) Append(token uint32) error {
	p := s.pool
	if p == nil {
		return ErrFreed
	}
	if len(s.tokens) == len(s.blocks)*p.blockTokens {
		if p.free == 0 {
			return ErrNoBlocks
		}
		s.blocks = append(s.blocks, p.take())
	}
	s.tokens = append(s.tokens, token)
	if len(s.tokens)%p.blockTokens == 0 {
		s.Compute()
	}
	return nil
}

// Free gives the blocks back, last block first, so that of one sequence the
// children are evicted before their parents. Blocks without a hash are the
// first to be reused. Freeing twice does nothing. O(1) a block.
func (s *Sequence) Free() {
	p := s.pool
	if p == nil {
		return
	}
	s.pool = nil
	p.changes++
	for _, id := range slices.Backward(s.blocks) {
		b := &p.blocks[id]
		if b.refs--; b.refs > 0 {
			continue
		}
		p.free++
		if b.hash == 0 {
			b.next = p.spare
			p.spare = id
		} else {
			p.queue(id)
		}
	}
}

// take allocates one block; the caller has checked that one is free.
func (p *Pool) take() int32 {
	p.free--
	var id int32
	switch {
	case p.spare != none:
		id = p.spare
		p.spare = p.blocks[id].next
	case len(p.blocks) < p.capacity:
		if len(p.blocks) == cap(p.blocks) {
			grown := make([]block, len(p.blocks), min(p.capacity, max(64, 2*len(p.blocks))))
			copy(grown, p.blocks)
			p.blocks = grown
		}
		id = int32(len(p.blocks))
		p.blocks = append(p.blocks, block{})
	default:
		id = p.head
		p.unqueue(id)
		p.table.remove(p.blocks, id)
		p.evictions++
		p.scratch = append(p.scratch[:0], p.blocks[id].hash)
		p.emit(Event{Kind: Removed, Hashes: p.scratch})
	}
	p.blocks[id] = block{refs: 1}
	return id
}

func (p *Pool) queue(id int32) {
	p.blocks[id].prev, p.blocks[id].next = p.tail, none
	if p.tail == none {
		p.head = id
	} else {
		p.blocks[p.tail].next = id
	}
	p.tail = id
}

func (p *Pool) unqueue(id int32) {
	b := &p.blocks[id]
	if b.prev == none {
		p.head = b.next
	} else {
		p.blocks[b.prev].next = b.next
	}
	if b.next == none {
		p.tail = b.prev
	} else {
		p.blocks[b.next].prev = b.prev
	}
}

func (p *Pool) emit(e Event) {
	if p.onEvent != nil {
		p.event = e
		p.onEvent(&p.event)
		p.event = Event{}
	}
}

// Reset empties the cache and announces Cleared. As in vLLM it is refused,
// with ErrInUse, while any sequence is open. O(blocks used).
func (p *Pool) Reset() error {
	if p.free != p.capacity {
		return fmt.Errorf("%w: %d", ErrInUse, p.capacity-p.free)
	}
	p.blocks = p.blocks[:0]
	clear(p.table.slots)
	p.table.used = 0
	p.spare, p.head, p.tail = none, none, none
	p.emit(Event{Kind: Cleared})
	return nil
}

// CachedTokens returns the hit that Open would report for this prompt now,
// without touching anything. Cost: one hash a block up to the first miss.
func (p *Pool) CachedTokens(tokens []uint32, scope Scope) int {
	return p.Holds(tokens[:max(0, len(tokens)-1)], scope)
}

// Holds returns how many leading tokens of the prompt are in the cache: whole
// blocks, the last one included. Cost: one hash a block up to the first miss.
func (p *Pool) Holds(tokens []uint32, scope Scope) int {
	n := 0
	p.walk(tokens, &scope, func(uint64, int32) { n += p.blockTokens })
	return n
}

// Resident yields every cached hash and how many copies of it there are, in no
// particular order. The pool must not change meanwhile. O(blocks used).
func (p *Pool) Resident() iter.Seq2[uint64, int] {
	return func(yield func(uint64, int) bool) {
		for _, s := range p.table.slots {
			if s == 0 {
				continue
			}
			newest := s - 1
			copies := 1
			for id := p.blocks[newest].peer; id != newest; id = p.blocks[id].peer {
				copies++
			}
			if !yield(p.blocks[newest].hash, copies) {
				return
			}
		}
	}
}

// Blocks returns the capacity, and how many blocks are free, cached free ones
// included. O(1).
func (p *Pool) Blocks() (capacity, free int) { return p.capacity, p.free }

// Evictions returns how many cached blocks were given up for new ones. O(1).
func (p *Pool) Evictions() uint64 { return p.evictions }
