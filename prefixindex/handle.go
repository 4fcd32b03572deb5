package prefixindex

import "container/heap"

// handleKey names an engine block within an epoch.
type handleKey struct {
	group int
	hash  EngineHash
}

// content is what an engine hash stands for. An engine that announces a hash again
// must mean the same.
type content struct {
	parent    handleKey // if hasParent
	hasParent bool
	root      BlockHash // else: that of the scope
	tokens    int
	digest    uint64 // of tokens and extras
}

// level is how far away the nearest copy is. It indexes the runs of a match.
type level uint8

const (
	levelGPU level = iota
	levelCPU
	levelAny
	levels // their number, and the level of what is not held
)

const tiers = int(TierShared) + 1

func levelOf(t Tier) level { return min(level(t), levelAny) }

// handle is an engine block that the epoch was told of. It is parked until its
// ancestors are known; then it has a place in its chain and, with a copy that is
// credited, a level. Known without such a copy it is a ghost: it stays to place its
// children and to be given copies by name.
type handle struct {
	key     handleKey
	content content
	copies  [tiers]uint8
	evicted bool // by Options.OwnerBlocks: has copies, but no credit until stored again

	// While parked: what a place will be computed from.
	parked bool
	tokens []uint32
	extras []Extra

	// Once known. The range in the chain is [start, end), in tokens. blocks are
	// the index's blocks that end in it, the first being number start/BlockTokens;
	// tail is what is left over, with what ancestors left of the same block, and
	// last the hash that it follows.
	parent     *handle
	start, end int
	blocks     []BlockHash
	last       BlockHash
	tail       []uint32
	tailExtras []Extra // At counts from the tail's first token
	level      level

	// Known children, as a list through their prev and next.
	children     *handle
	prev, next   *handle
	heldChildren int

	// Place in one of the epoch's heaps, leaves or ghosts, and age in it.
	heap  *handleHeap
	at    int
	stamp uint64
}

// hasCopy reports whether the engine has the block on some tier.
func (h *handle) hasCopy() bool { return h.copies != [tiers]uint8{} }

// credit is the level that the copies give.
func (h *handle) credit() level {
	if h.evicted {
		return levels
	}
	for t, n := range h.copies {
		if n > 0 {
			return levelOf(Tier(t))
		}
	}
	return levels
}

// covers is the level at which h and its ancestors back to token from are all held.
func (h *handle) covers(from int) level {
	l := h.level
	for h.start > from {
		h = h.parent
		l = max(l, h.level)
	}
	return l
}

func (h *handle) link(child *handle) {
	child.next = h.children
	if child.next != nil {
		child.next.prev = child
	}
	h.children = child
}

func (h *handle) unlink(child *handle) {
	if child.prev != nil {
		child.prev.next = child.next
	} else {
		h.children = child.next
	}
	if child.next != nil {
		child.next.prev = child.prev
	}
}

// handleHeap keeps handles by age, the oldest first.
type handleHeap []*handle

func (q *handleHeap) oldest() *handle { return (*q)[0] }

// move puts h into q, or nowhere if q is nil, and takes it out of where it was.
func (h *handle) move(q *handleHeap) {
	if h.heap == q {
		if q != nil {
			heap.Fix(q, h.at)
		}
		return
	}
	if h.heap != nil {
		heap.Remove(h.heap, h.at)
	}
	h.heap = q
	if q != nil {
		heap.Push(q, h)
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q handleHeap) Len() int           { return len(q) }
func (q handleHeap) Less(i, j int) bool { return q[i].stamp < q[j].stamp }

func (q handleHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *handleHeap) Push(x any) {
	h := x.(*handle)
	h.at = len(*q)
	*q = append(*q, h)
}

func (q *handleHeap) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return h
}
