package prefixindex

import (
	"slices"
	"unsafe"
)

// nameKey is an engine block's name within an epoch.
type nameKey struct {
	key   uint64
	group uint32 // index in contents.groups
}

// orphans are engine blocks whose parent is not known yet: parked, and never credited.
// Their number is bounded by Options.OwnerOrphans, their memory by orphanBytes for each.
type orphans struct {
	byName   map[nameKey]*orphan
	byParent map[nameKey][]nameKey
	bytes    int
}

const orphanBytes = 4096

// size is about what a parked block needs.
func (o *orphan) size() int {
	return 4*len(o.tokens) + extrasBytes(o.extras) + int(unsafe.Sizeof(*o)) + 3*mapEntry
}

// extrasBytes is what extras need.
func extrasBytes(extras []Extra) int {
	n := len(extras) * int(unsafe.Sizeof(Extra{}))
	for i := range extras {
		n += len(extras[i].ID)
	}
	return n
}

type orphan struct {
	parent nameKey
	tokens []uint32
	extras []Extra
	copies [tiers]uint8
}

func (o *orphans) find(key nameKey) *orphan {
	if len(o.byName) == 0 {
		return nil
	}
	return o.byName[key]
}

func (o *orphan) same(tokens []uint32, extras []Extra) bool {
	return slices.Equal(o.tokens, tokens) && slices.Equal(o.extras, extras)
}

// park keeps a block until its parent is known.
func (c *contents) park(key, parent nameKey, tokens []uint32, extras []Extra, t Tier) {
	st := &c.writer.stats
	o := &c.orphans
	x := &orphan{parent: parent, tokens: tokens, extras: extras}
	if most := c.ix.options.OwnerOrphans; len(o.byName) >= most || int64(o.bytes+x.size()) > int64(most)*orphanBytes {
		st.ParkedDropped++
		return
	}
	if o.byName == nil {
		o.byName = make(map[nameKey]*orphan)
		o.byParent = make(map[nameKey][]nameKey)
	}
	x.tokens, x.extras = slices.Clone(tokens), slices.Clone(extras)
	x.copies[t] = 1
	o.byName[key] = x
	o.bytes += x.size()
	o.byParent[parent] = append(o.byParent[parent], key)
	st.Parked++
}

func (c *contents) addParkedCopy(o *orphan, t Tier) {
	c.addCount(&o.copies[t], &c.writer.stats.Stored)
}

// adopt places the parked blocks that waited for key, and those that waited for them.
func (c *contents) adopt(key nameKey) {
	if len(c.orphans.byParent) == 0 {
		return
	}
	for queue := []nameKey{key}; len(queue) > 0; queue = queue[1:] {
		children := c.orphans.byParent[queue[0]]
		if len(children) == 0 {
			continue
		}
		delete(c.orphans.byParent, queue[0])
		parent := c.findName(queue[0].key, queue[0].group)
		for _, child := range children {
			o := c.orphans.take(child)
			n := uint32(0)
			if parent != 0 {
				n = c.place(parent, child, c.cut(parent, o.tokens, o.extras))
			}
			if n == 0 {
				c.writer.stats.ParkedDropped++
				continue
			}
			c.writer.stats.Adopted++
			for t, copies := range o.copies {
				if copies > 0 && (Tier(t) == TierGPU || c.reach(Tier(t))) {
					was := c.credit(n)
					*c.copiesOf(n, Tier(t)) = copies
					c.recredit(n, was)
				}
			}
			queue = append(queue, child)
		}
	}
}

// removeParked takes one copy of a parked block away; without any it is forgotten.
func (c *contents) removeParked(key nameKey, t Tier) {
	st := &c.writer.stats
	o := c.orphans.find(key)
	if o == nil || o.copies[t] == 0 {
		st.RemovedUnknown++
		return
	}
	st.Removed++
	o.copies[t]--
	if o.copies != [tiers]uint8{} {
		return
	}
	c.unpark(key)
}

// unpark forgets a parked block.
func (c *contents) unpark(key nameKey) {
	parent := c.orphans.take(key).parent
	rest := slices.DeleteFunc(c.orphans.byParent[parent], func(k nameKey) bool { return k == key })
	if len(rest) > 0 {
		c.orphans.byParent[parent] = rest
	} else {
		delete(c.orphans.byParent, parent)
	}
	if len(c.orphans.byName) == 0 {
		c.orphans = orphans{} // maps do not shrink
	}
}

// take takes a parked block from those known by name.
func (o *orphans) take(key nameKey) *orphan {
	x := o.byName[key]
	delete(o.byName, key)
	o.bytes -= x.size()
	return x
}

// dropParked forgets any n parked blocks.
func (c *contents) dropParked(n int) {
	for key := range c.orphans.byName {
		if n--; n < 0 {
			return
		}
		c.unpark(key)
		c.writer.stats.ParkedDropped++
	}
}
