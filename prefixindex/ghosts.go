package prefixindex

// A handle without credit is a ghost. It stays so that its children can be placed, and
// later copies by name resolved; the oldest without known children are forgotten once
// there are more than sparedGhosts and a quarter of the handles with credit, or an owner
// knows too much in all (evict.go). What forgetting costs is at most a parked child.
const sparedGhosts = 4096

// ghostQueue is a ring of handles that became ghosts, the oldest first. Some may have
// credit again, or children; those are passed over. Others may be gone, and their numbers
// in use again.
type ghostQueue struct {
	ring []uint32
	head int
	n    int
}

func (q *ghostQueue) push(n uint32) {
	q.ring[(q.head+q.n)%len(q.ring)] = n
	q.n++
}

func (q *ghostQueue) pop() uint32 {
	n := q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return n
}

// widen gives the queue twice the room of what is queued in truth.
func (c *contents) widen() {
	queued := make([]uint32, 0, c.queue.n)
	for c.queue.n > 0 {
		n := c.queue.pop()
		if e := c.entries.at(n); e.flags&flagQueued != 0 {
			e.flags &^= flagQueued // once only
			queued = append(queued, n)
		}
	}
	for _, n := range queued {
		c.entries.at(n).flags |= flagQueued
	}
	c.queue = ghostQueue{ring: make([]uint32, 2*len(queued)+16), n: len(queued)}
	copy(c.queue.ring, queued)
}

// enqueue notes that a handle has become a ghost, or lost its last child as one.
func (c *contents) enqueue(n uint32) {
	if e := c.entries.at(n); e.flags&flagQueued == 0 {
		if c.queue.n == len(c.queue.ring) {
			c.widen()
		}
		e.flags |= flagQueued
		c.queue.push(n)
	}
}

func (c *contents) trimGhosts() {
	spare := c.ghosts - sparedGhosts - (c.handles-c.ghosts)/4
	var sum uint64
	for i := range min(spare, c.queue.n) { // as in fetch
		sum += c.names.peek(c.entries.at(c.queue.ring[(c.queue.head+i)%len(c.queue.ring)]).nameHash())
	}
	c.fetched = sum
	for c.queue.n > 0 && c.ghosts > sparedGhosts+(c.handles-c.ghosts)/4 {
		c.forgetGhost()
	}
}

// forgetGhost forgets the oldest in the queue, if it still is what it was queued for.
func (c *contents) forgetGhost() {
	n := c.queue.pop()
	e := c.entries.at(n)
	if e.kind() != kindHandle || e.flags&flagQueued == 0 {
		return
	}
	e.flags &^= flagQueued
	if e.known == 0 && c.credit(n) == 0 {
		c.forget(n)
	}
}

// forget drops a ghost without children, and those of its ancestors that only it kept.
func (c *contents) forget(n uint32) {
	c.handles--
	c.ghosts--
	c.writer.stats.Forgotten++
	for {
		parent := c.entries.at(n).parent
		c.freeEntry(n)
		if !c.entries.at(parent).isInner() {
			c.reap(parent)
			return
		}
		n = parent
	}
}

// reap frees entry n if nothing needs it: no children, no credit, no name. A handle
// among its ancestors that is left without children becomes forgettable.
func (c *contents) reap(n uint32) {
	for n != 0 {
		e := c.entries.at(n)
		if e.known != 0 {
			return
		}
		switch e.kind() {
		case kindHandle:
			if c.credit(n) == 0 {
				c.enqueue(n)
			}
			return
		case kindRoot:
		case kindAssumed, kindExpected:
			if e.copies != 0 {
				return
			}
		default:
			return
		}
		parent := e.parent
		c.freeEntry(n)
		n = parent
	}
}
