package prefixindex

// level is how far away the nearest copy is. A level counts all nearer ones.
type level uint8

const (
	levelGPU level = iota
	levelCPU
	levelAny
	levels // their number
)

const tiers = int(TierShared) + 1

func levelOf(t Tier) level { return min(level(t), levelAny) }

// entry is a piece of a chain: the run of tokens between two borders, a border being
// where one of the index's blocks or one of the engine's ends. Where the two have one
// size an entry is both. An engine block larger than ours is several entries, all but
// the last of them inner ones; one of ours may take several engine blocks to fill.
//
// Entries form a tree through their parents. At its roots are entries of no tokens,
// one for each scope. Two entries may stand for the same block of the index: copies
// of different groups, or an engine's two names for one content. They are aliases;
// the block is held while one of them is.
type entry struct {
	keyLo, keyHi uint32 // engine hash, of a handle; scope, of a root; LRU links, of an assumed block
	tipLo, tipHi uint32 // BlockHash up to the end; of a partial entry, a digest
	parent       uint32 // or, of a free entry, the next free one
	place        uint32 // full blocks up to the end, kind, group

	known  uint8 // children that are known
	held   uint8 // children that are full, on GPU (farther levels: far.held)
	copies uint8 // see hasCopy
	flags  uint8
}

// Kinds of entries.
const (
	kindFree     = iota // zero, so that new memory is free
	kindRoot            // a scope; held by everyone
	kindHandle          // the last or only piece of an engine block
	kindInner           // another piece of an engine block; its child is the next
	kindAssumed         // a block that Insert recorded
	kindExpected        // a block that Expect recorded
)

const (
	flagFull    = 1 << iota // at level GPU: this piece and those before it in its block have copies
	flagFullCPU             // at level CPU
	flagFullAny             // at level any
	flagBorder              // ends one of the index's blocks; others are partial
	flagEvicted             // has copies that give no credit until it is stored again
	flagRecent              // touched since eviction last looked
	flagQueued              // in the queue of ghosts
	flagConfirm             // of an expected block: events have confirmed it
)

const (
	groupBits  = 8
	kindBits   = 3
	depthShift = groupBits + kindBits

	maxGroups = 1 << groupBits
	// maxDepth is the longest chain of blocks: beyond it, blocks are not recorded.
	maxDepth = 1<<(32-depthShift) - 1
)

func (e *entry) key() uint64       { return uint64(e.keyLo) | uint64(e.keyHi)<<32 }
func (e *entry) tip() uint64       { return uint64(e.tipLo) | uint64(e.tipHi)<<32 }
func (e *entry) setKey(k uint64)   { e.keyLo, e.keyHi = uint32(k), uint32(k>>32) }
func (e *entry) setTip(t uint64)   { e.tipLo, e.tipHi = uint32(t), uint32(t>>32) }
func (e *entry) depth() uint32     { return e.place >> depthShift }
func (e *entry) kind() uint32      { return e.place >> groupBits & (1<<kindBits - 1) }
func (e *entry) group() uint32     { return e.place & (maxGroups - 1) }
func (e *entry) border() bool      { return e.flags&flagBorder != 0 }
func (e *entry) full(l level) bool { return e.flags>>l&1 != 0 }

func placeOf(depth, kind, group uint32) uint32 {
	return depth<<depthShift | kind<<groupBits | group
}

// far is what entries need besides once an owner uses farther tiers than GPU.
type far struct {
	copies [tiers - 1]uint8  // of a handle, by tier from CPU on
	held   [levels - 1]uint8 // children that are full, by level from CPU on
}

// part is what entries need besides once borders of blocks and of engine blocks fall
// apart: the children of partial entries, and the tokens that a child needs to fill
// the block.
type part struct {
	first      uint32 // child of a partial entry: one of a list
	next, prev uint32 // others of that list, where this is the child
	tokens     uint32 // in tails: those of this piece
	end        uint16 // tokens of the unfinished block up to the end
	begin      uint16 // and up to the beginning
}

// named reports whether an entry has a name: a handle's engine hash, a root's scope.
func (e *entry) named() bool { return e.kind() == kindHandle || e.kind() == kindRoot }

// space is where the names of a kind and group are told apart.
func (e *entry) space() uint32 { return e.place & (1<<depthShift - 1) }

func (e *entry) nameHash() uint64 { return nameHash(e.key(), e.space()) }

// nameHash hashes a name: engines may count.
func nameHash(key uint64, space uint32) uint64 { return avalanche(key + uint64(space)*mixBlock) }

// findName returns the handle that an engine hash names, or 0.
func (c *contents) findName(key uint64, group uint32) uint32 {
	return c.find(key, placeOf(0, kindHandle, group))
}

// find returns the entry that has a name, or 0.
func (c *contents) find(key uint64, space uint32) uint32 {
	if c.names.live == 0 {
		return 0
	}
	i, tag := c.names.home(nameHash(key, space))
	for {
		n, at := c.names.next(i, tag)
		if n == 0 {
			return 0
		}
		if e := c.entries.at(n); e.key() == key && e.space() == space {
			return n
		}
		i = at + 1
	}
}

// newEntry takes an entry and puts it into the lookups. It returns 0 if their numbers
// are used up.
func (c *contents) newEntry(e entry) uint32 {
	n := c.free
	if n == 0 {
		n = max(c.entries.n, 1)
	}
	if n > maxEntry {
		return 0
	}
	// Before the entry is there, or a rebuilt lookup would find it in the slab.
	if e.named() {
		c.room(&c.names)
	}
	if e.border() && c.indexed {
		c.room(&c.tips)
	}
	if n == c.free {
		c.free = c.entries.at(n).parent
	} else {
		c.entries.extend(n + 1)
		if c.far.n > 0 {
			c.far.extend(n + 1)
		}
		if c.parts.n > 0 {
			c.parts.extend(n + 1)
		}
		if c.until.n > 0 {
			c.until.extend(n + 1)
		}
		if c.twins.n > 0 {
			c.twins.extend(n + 1)
		}
	}
	*c.entries.at(n) = e
	c.used++
	if e.parent != 0 {
		c.count(&c.entries.at(e.parent).known, counterOf(countKnown, e.parent), 1)
	}
	if e.named() {
		c.names.put(e.nameHash(), n)
	}
	if e.border() {
		if c.indexed {
			c.putTip(n, e.tip())
		}
	} else {
		c.partial++
	}
	return n
}

// freeEntry gives an entry back that is not full at any level and has no children.
func (c *contents) freeEntry(n uint32) {
	e := c.entries.at(n)
	if e.named() {
		c.names.drop(e.nameHash(), n)
	}
	if e.border() {
		if c.indexed {
			c.dropTip(n, e.tip())
		}
	} else {
		c.partial--
	}
	if e.parent != 0 {
		c.count(&c.entries.at(e.parent).known, counterOf(countKnown, e.parent), -1)
	}
	if c.parts.n > 0 {
		c.freePart(n, e.parent)
	}
	if c.far.n > 0 {
		*c.far.at(n) = far{}
	}
	*e = entry{parent: c.free}
	c.free = n
	c.used--
}

// room makes room for one more entry in a lookup. It reads the entries in order, which
// costs less than to follow the old cells.
func (c *contents) room(x *lookup) {
	if !x.full(c.entries.n) {
		return
	}
	x.clear(x.live+1, c.entries.n)
	for n := uint32(1); n < c.entries.n; n++ {
		e := c.entries.at(n)
		if x == &c.names && e.named() {
			x.put(e.nameHash(), n)
		}
		if x == &c.tips && c.firstTip(n, e) {
			x.put(e.tip(), n)
		}
	}
}

// Counters of children are bytes; the few that do not fit are kept aside.
const (
	byteFull = 255

	countKnown = uint64(levels) // beside the levels, whose counters are of held children
)

func counterOf(what uint64, n uint32) uint64 { return what<<32 | uint64(n) }

// count changes a counter by one.
func (c *contents) count(b *uint8, id uint64, by int) {
	if *b < byteFull {
		if *b += uint8(by); *b == byteFull {
			if c.wide == nil {
				c.wide = make(map[uint64]uint32)
			}
			c.wide[id] = byteFull
		}
		return
	}
	if n := c.wide[id] + uint32(by); n < byteFull {
		delete(c.wide, id)
		*b = uint8(n)
	} else {
		c.wide[id] = n
	}
}

// heldCounter returns the counter of held children of an entry at a level.
func (c *contents) heldCounter(n uint32, l level) *uint8 {
	if l == levelGPU {
		return &c.entries.at(n).held
	}
	return &c.far.at(n).held[l-1]
}

// value returns what a counter counts to.
func (c *contents) value(b *uint8, id uint64) int {
	if *b < byteFull {
		return int(*b)
	}
	return int(c.wide[id])
}
