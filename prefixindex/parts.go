package prefixindex

// newPart notes what a new entry needs besides where borders of blocks and of engine
// blocks fall apart.
func (c *contents) newPart(n uint32, p *piece) {
	if p.border && p.begin == 0 {
		return
	}
	c.parts.extend(c.entries.n)
	x := c.parts.at(n)
	x.begin, x.end = uint16(p.begin), uint16(p.begin+len(p.tokens))
	if p.begin > 0 {
		up := c.parts.at(c.entries.at(n).parent)
		if x.next = up.first; x.next != 0 {
			c.parts.at(x.next).prev = n
		}
		up.first = n
	}
	if !p.border {
		x.tokens = c.tails.write(p.tokens)
		if len(p.extras) > 0 {
			if c.tails.extras == nil {
				c.tails.extras = make(map[uint32][]Extra)
			}
			own := append([]Extra(nil), p.extras...)
			for i := range own {
				own[i].At -= p.from
			}
			c.tails.extras[n] = own
			c.tails.bytes += extrasBytes(own) + 2*mapEntry
		}
	}
}

// freePart gives it back.
func (c *contents) freePart(n, parent uint32) {
	x := c.parts.at(n)
	if x.begin > 0 {
		if x.prev != 0 {
			c.parts.at(x.prev).next = x.next
		} else {
			c.parts.at(parent).first = x.next
		}
		if x.next != 0 {
			c.parts.at(x.next).prev = x.prev
		}
	}
	c.tails.free(x.tokens)
	if own, ok := c.tails.extras[n]; ok {
		c.tails.bytes -= extrasBytes(own) + 2*mapEntry
		delete(c.tails.extras, n)
	}
	*x = part{}
}

// tails holds the tokens of partial entries, in chunks, and their extras, which are
// rare.
type tails struct {
	chunks slab[tail]
	spare  uint32 // freed chunks
	extras map[uint32][]Extra
	bytes  int // of extras
}

type tail struct {
	tokens [7]uint32
	next   uint32
}

func (t *tails) write(tokens []uint32) uint32 {
	var first, last uint32
	for len(tokens) > 0 {
		n := t.spare
		if n != 0 {
			t.spare = t.chunks.at(n).next
		} else {
			n = max(t.chunks.n, 1)
			t.chunks.extend(n + 1)
		}
		x := t.chunks.at(n)
		tokens = tokens[copy(x.tokens[:], tokens):]
		x.next = 0
		if first == 0 {
			first = n
		} else {
			t.chunks.at(last).next = n
		}
		last = n
	}
	return first
}

func (t *tails) read(n uint32, into []uint32) {
	for ; n != 0 && len(into) > 0; n = t.chunks.at(n).next {
		into = into[copy(into, t.chunks.at(n).tokens[:]):]
	}
}

func (t *tails) free(n uint32) {
	for n != 0 {
		x := t.chunks.at(n)
		next := x.next
		x.next, t.spare = t.spare, n
		n = next
	}
}
