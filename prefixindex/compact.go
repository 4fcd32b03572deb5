package prefixindex

import "unsafe"

// compact moves the entries together and gives the rest of the memory back.
// O(entries).
func (c *contents) compact() {
	to := make([]uint32, c.entries.n)
	next := uint32(1)
	for n := uint32(1); n < c.entries.n; n++ {
		if c.entries.at(n).kind() != kindFree {
			to[n] = next
			next++
		}
	}
	old := c.tables
	c.entries, c.far, c.parts, c.until, c.tails = slab[entry]{}, slab[far]{}, slab[part]{}, slab[int64]{}, tails{}
	c.twins = slab[twin]{}
	c.entries.extend(next)
	if old.far.n > 0 {
		c.far.extend(next)
	}
	if old.until.n > 0 {
		c.until.extend(next)
	}
	if old.twins.n > 0 && c.aliased > 0 {
		c.twins.extend(next)
	}
	c.free = 0
	c.names.clear(c.names.live, next)
	if c.indexed {
		c.tips.clear(c.tips.live, next)
	}
	for n, m := range to {
		if m == 0 {
			continue
		}
		n := uint32(n)
		e := c.entries.at(m)
		*e = *old.entries.at(n)
		e.parent = to[e.parent]
		switch {
		case e.named():
			c.names.put(e.nameHash(), m)
		case e.kind() == kindAssumed:
			e.keyLo, e.keyHi = to[e.keyLo], to[e.keyHi]
		}
		if c.twins.n > 0 {
			x := old.twins.at(n)
			*c.twins.at(m) = twin{to[x.before], to[x.after]}
		}
		if c.indexed && c.firstTip(m, e) {
			c.tips.put(e.tip(), m)
		}
		if old.far.n > n {
			*c.far.at(m) = *old.far.at(n)
		}
		if old.until.n > n {
			*c.until.at(m) = *old.until.at(n)
		}
		if old.parts.n > n {
			if x := *old.parts.at(n); x != (part{}) {
				c.parts.extend(next)
				x.first, x.next, x.prev = to[x.first], to[x.next], to[x.prev]
				if x.tokens != 0 {
					c.block = append(c.block[:0], make([]uint32, x.end-x.begin)...)
					old.tails.read(x.tokens, c.block)
					x.tokens = c.tails.write(c.block)
				}
				*c.parts.at(m) = x
			}
		}
		if x := old.tails.extras[n]; x != nil {
			if c.tails.extras == nil {
				c.tails.extras = make(map[uint32][]Extra)
			}
			c.tails.extras[m] = x
		}
	}
	c.tails.bytes = old.tails.bytes
	c.wide = nil
	for id, count := range old.wide {
		if c.wide == nil {
			c.wide = make(map[uint64]uint32)
		}
		c.wide[counterOf(id>>32, to[uint32(id)])] = count
	}
	for i := range c.queue.n {
		at := &c.queue.ring[(c.queue.head+i)%len(c.queue.ring)]
		*at = to[*at]
	}
	c.widen()
	c.eviction = eviction{}
	c.assumed.newest, c.assumed.oldest = to[c.assumed.newest], to[c.assumed.oldest]
	c.expected.renumber(to)
}

// sparse reports whether a third of the entries' memory lies idle.
func (c *contents) sparse() bool {
	return c.entries.n > pageLen && uint32(c.used)*3 < 2*c.entries.n
}

// mapEntry is about what a map needs for one of its elements of a few words.
const mapEntry = 48

// bytes returns the memory of c. O(1).
func (c *contents) bytes() int64 {
	n := int(unsafe.Sizeof(*c))
	n += c.entries.capacity() * int(unsafe.Sizeof(entry{}))
	n += c.far.capacity() * int(unsafe.Sizeof(far{}))
	n += c.parts.capacity() * int(unsafe.Sizeof(part{}))
	n += c.tails.chunks.capacity() * int(unsafe.Sizeof(tail{}))
	n += c.until.capacity() * 8
	n += c.twins.capacity() * int(unsafe.Sizeof(twin{}))
	n += 4 * (len(c.names.cells) + len(c.tips.cells) + len(c.queue.ring) +
		cap(c.chain) + cap(c.block) + 2*cap(c.ahead))
	n += mapEntry*len(c.wide) + c.tails.bytes
	for l := range c.holes {
		if h := &c.holes[l]; h.known != nil {
			n += int(unsafe.Sizeof(holeList{})) + mapEntry*len(h.known)
		}
	}
	n += c.orphans.bytes + c.expected.bytes()
	return int64(n)
}
