package prefixindex

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// ErrSnapshot means that Restore was given something that is no snapshot, a damaged
// one, or one of another version, block size or seed.
var ErrSnapshot = errors.New("prefixindex: unusable snapshot")

// A snapshot is, with numbers as uvarints and hashes as eight little-endian bytes:
//
//	magic with version; block size, seed; then for each member a 1 and its name, and
//	for each of its owners a 1, rank, view, flags, chunk lengths, cursor, groups,
//	entries, the order of assumed blocks, and parked blocks; 0 ends each list; the
//	XXH64 of all that
//
// Entries come parents first, each with what its parent and its hash do not say; a
// restored owner is built from them by the same steps as from events, so that bits,
// holes and counters cannot contradict them.
const snapshotMagic = "warmroute index\x001\n"

// Batch runs apply while no snapshot of the owner is taken, and keeps what it returns as
// the owner's cursor: opaque bytes that say which of the engine's events the contents
// include. A nil result leaves the cursor as it is. apply may call w's other methods, but
// not Index.Snapshot or Index.Resume, which would wait for it for ever.
//
// The cost is that of apply, and a copy of the cursor.
func (w *Writer) Batch(apply func() (cursor []byte)) {
	w.batch.Lock()
	defer w.batch.Unlock()
	if cursor := apply(); cursor != nil {
		w.cursor = append(w.cursor[:0], cursor...)
	}
}

// Resume returns the Writer of an owner's present epoch, and its cursor: after Restore,
// what Batch returned last before the snapshot. Errors are ErrNotJoined, and ErrFenced if
// the owner has no epoch.
//
// O(ranks).
func (ix *Index) Resume(e Endpoint, rank int) (*Writer, []byte, error) {
	m := ix.roster.Load().member(e)
	if m == nil {
		return nil, nil, fmt.Errorf("%w: handle %#x", ErrNotJoined, uint64(e))
	}
	s := m.seat(rank)
	if s == nil {
		return nil, nil, fmt.Errorf("%w: %q rank %d has none", ErrFenced, m.name, rank)
	}
	w := s.writer
	w.batch.Lock()
	defer w.batch.Unlock()
	return w, slices.Clone(w.cursor), nil
}

// Snapshot writes all members and what their owners hold, blocks of Expect apart, to
// out. Each owner is as of one instant between two of its batches (Batch), not all as of
// the same.
//
// O(blocks). It holds up the writes of one owner at a time while that is copied, and no
// lookup.
func (ix *Index) Snapshot(out io.Writer) error {
	buf := bufio.NewWriterSize(out, 1<<16)
	e := encoder{sum: xxhash.New(), out: buf}
	e.raw([]byte(snapshotMagic))
	e.number(uint64(ix.options.BlockTokens))
	e.hash(ix.options.Seed)
	for _, page := range ix.roster.Load().members {
		for i := range page {
			m := &page[i]
			if m.endpoint == 0 {
				continue
			}
			e.number(1)
			e.string(m.name)
			for _, s := range m.seats {
				w := s.writer
				w.batch.Lock()
				w.mu.Lock()
				if !w.ended.Load() {
					e.number(1)
					w.encode(&e)
				}
				w.mu.Unlock()
				w.batch.Unlock()
				e.flush()
			}
			e.number(0)
		}
	}
	e.number(0)
	e.flush()
	if e.err == nil {
		_, e.err = buf.Write(binary.LittleEndian.AppendUint64(nil, e.sum.Sum64()))
	}
	if e.err == nil {
		e.err = buf.Flush()
	}
	return e.err
}

const (
	snapFed = 1 << iota
)

const (
	snapBorder = 1 << (iota + 4) // beside the kind
	snapEvicted
	snapCopies // on GPU only, one
)

func (w *Writer) encode(e *encoder) {
	c := w.contents
	flags := uint64(0)
	if w.fed {
		flags |= snapFed
	}
	e.number(uint64(w.rank))
	e.number(uint64(w.view.Load()))
	e.number(flags)
	for t := range w.chunk {
		e.number(uint64(w.chunk[t].Load()))
	}
	e.string(string(w.cursor))
	e.number(uint64(len(c.groups)))
	for _, g := range c.groups {
		e.number(uint64(g))
	}

	number := make([]uint32, c.entries.n) // in the snapshot
	next := uint32(1)
	var path []uint32
	for n := uint32(1); n < c.entries.n; n++ {
		if c.entries.at(n).isInner() {
			continue // comes right before the rest of its handle
		}
		for p := n; p != 0 && number[p] == 0; p = c.entries.at(p).parent {
			if e := c.entries.at(p); e.kind() == kindFree || e.kind() == kindExpected || e.unlisted() {
				break
			}
			path = append(path, p)
		}
		for len(path) > 0 {
			p := path[len(path)-1]
			path = path[:len(path)-1]
			number[p] = next
			next++
			c.encodeEntry(e, p, number)
		}
	}
	e.number(0)
	for n := c.assumed.oldest; n != 0; n = *c.newer(n) {
		e.number(uint64(number[n]))
		if c.ix.options.AssumedTTL > 0 {
			e.number(uint64(*c.until.at(n)))
		} else {
			e.number(math.MaxInt64)
		}
	}
	e.number(0)
	for key, o := range c.orphans.byName {
		e.number(1)
		e.hash(key.key)
		e.number(uint64(key.group))
		e.hash(o.parent.key)
		e.tokens(o.tokens)
		e.extras(o.extras)
		e.raw(o.copies[:])
	}
	e.number(0)
}

func (c *contents) encodeEntry(e *encoder, n uint32, number []uint32) {
	x := c.entries.at(n)
	var copies [tiers]uint8
	head := uint64(x.kind())
	if x.border() {
		head |= snapBorder
	}
	if x.kind() == kindHandle {
		for t := range copies {
			if t == 0 || c.far.n > 0 {
				copies[t] = *c.copiesOf(n, Tier(t))
			}
		}
		if x.flags&flagEvicted != 0 {
			head |= snapEvicted
		}
		if copies == [tiers]uint8{1} {
			head |= snapCopies
		}
	}
	e.number(head)
	e.hash(x.tip())
	if x.kind() == kindRoot {
		return
	}
	e.number(uint64(number[x.parent]))
	if !x.border() {
		p := c.parts.at(n)
		tokens := make([]uint32, p.end-p.begin)
		c.tails.read(p.tokens, tokens)
		e.tokens(tokens)
		e.extras(c.tails.extras[n])
	}
	switch x.kind() {
	case kindInner:
		e.number(uint64(x.group()))
	case kindHandle:
		e.number(uint64(x.group()))
		e.hash(x.key())
		if head&snapCopies == 0 {
			e.raw(copies[:])
		}
	}
}

// Restore returns an index with the contents of a snapshot. o is as for New; a block size
// or seed that is not zero must be the snapshot's. The view of owners fed by events is
// ViewStale until their feeder, which gets their Writers from Resume, says otherwise.
// What o has no room for is evicted, and nothing expires later than if inserted now.
// Anything but a whole snapshot is ErrSnapshot.
//
// O(blocks). Restore trusts nothing: it allocates as it reads.
func Restore(o Options, in io.Reader) (*Index, error) {
	d := decoder{in: bufio.NewReaderSize(in, 1<<16), sum: xxhash.New()}
	magic := make([]byte, len(snapshotMagic))
	d.raw(magic)
	if d.err == nil && string(magic) != snapshotMagic {
		return nil, fmt.Errorf("%w: it begins with %q", ErrSnapshot, magic)
	}
	size, seed := d.number(math.MaxInt32), d.hash()
	if d.err == nil && (size < minBlockTokens || size > maxBlockTokens || seed == 0) {
		d.fail("it is for blocks of %d tokens and seed %#x", size, seed)
	}
	if d.err != nil {
		return nil, d.err
	}
	if o.BlockTokens != 0 && o.BlockTokens != size || o.Seed != 0 && o.Seed != seed {
		return nil, fmt.Errorf("%w: it is for blocks of %d tokens and seed %#x", ErrSnapshot, size, seed)
	}
	o.BlockTokens, o.Seed = size, seed
	ix, err := New(o)
	if err != nil {
		return nil, err
	}
	for d.number(1) == 1 {
		name := d.string()
		if d.err != nil {
			break
		}
		if _, twice := ix.Find(name); twice {
			return nil, fmt.Errorf("%w: member %q occurs twice", ErrSnapshot, name)
		}
		e, err := ix.Join(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		last := -1
		for d.number(1) == 1 {
			rank := d.number(maxRank)
			if d.err == nil && rank <= last {
				d.fail("rank %d of %q comes after %d", rank, name, last)
			}
			if d.err != nil {
				break
			}
			last = rank
			w, err := ix.open(e, rank, true)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
			}
			w.mu.Lock()
			w.decode(&d)
			if d.err == nil {
				w.contents.trim()
				w.contents.due()
				w.account()
				w.checkInvariants()
			}
			w.mu.Unlock()
			if d.err == nil {
				ix.enforce()
			}
		}
	}
	want := d.sum.Sum64()
	if sum := d.hash(); d.err == nil && sum != want {
		d.fail("the checksum is %#x, want %#x", sum, want)
	}
	if d.err != nil {
		return nil, d.err
	}
	return ix, nil
}

func (w *Writer) decode(d *decoder) {
	c := w.contents
	view := d.number(int(ViewStale))
	flags := d.number(snapFed)
	w.fed = flags&snapFed != 0
	if View(view) != ViewNever && View(view) != ViewAssumed {
		view = int(ViewStale)
	}
	w.view.Store(uint32(view))
	for t := range w.chunk {
		w.chunk[t].Store(int64(d.number(math.MaxInt32)))
	}
	w.cursor = []byte(d.string())
	for range d.number(maxGroups) {
		g := d.number(math.MaxInt32)
		if slices.Contains(c.groups, g) {
			d.fail("group %d occurs twice", g)
			return
		}
		c.groups = append(c.groups, g)
	}
	number := []uint32{0} // entries by their number in the snapshot
	for d.err == nil {
		head := d.number(1<<7 - 1)
		if head == 0 || d.err != nil {
			break
		}
		n := c.decodeEntry(d, uint32(head), number)
		if d.err != nil {
			return
		}
		number = append(number, n)
	}
	if last := len(number) - 1; last > 0 && c.entries.at(number[last]).isInner() {
		d.fail("the last entry is an inner one")
	}
	c.decodeAssumed(d, number)
	for d.number(1) == 1 {
		key := nameKey{d.hash(), uint32(d.number(max(len(c.groups)-1, 0)))}
		o := &orphan{parent: nameKey{d.hash(), key.group}, tokens: d.tokens(maxEngineBlockTokens)}
		o.extras = d.extras(len(o.tokens))
		d.raw(o.copies[:])
		switch {
		case d.err != nil:
			return
		case len(c.groups) == 0 || len(o.tokens) == 0 || o.copies == [tiers]uint8{} ||
			c.orphans.find(key) != nil || c.findName(key.key, key.group) != 0 ||
			c.findName(o.parent.key, key.group) != 0:
			d.fail("parked block %#x contradicts the rest", key.key)
			return
		}
		c.park(key, o.parent, o.tokens, o.extras, TierGPU)
		if parked := c.orphans.find(key); parked != nil {
			parked.copies = o.copies
		}
	}
	if c.aliased == 0 {
		c.indexed, c.tips, c.twins = false, lookup{}, slab[twin]{} // only the checks needed it
	}
	w.stats = Stats{Epochs: 1, ParkedDropped: w.stats.ParkedDropped}
}

// decodeAssumed links the assumed blocks, the oldest first. Each must be there, and younger
// than those that follow it.
func (c *contents) decodeAssumed(d *decoder, number []uint32) {
	ttl := c.ix.options.AssumedTTL
	latest := c.ix.options.Clock().Add(ttl).UnixNano()
	for d.err == nil {
		i := d.number(len(number) - 1)
		if i == 0 || d.err != nil {
			break
		}
		until := d.number64(math.MaxInt64)
		n := number[i]
		e := c.entries.at(n)
		if e.kind() != kindAssumed || e.copies != 0 || c.entries.at(e.parent).listed() {
			d.fail("entry %d is not to be assumed, or not before its parent", i)
			return
		}
		e.copies = 1
		for l := range levels {
			if c.distinct(l) {
				c.fill(n, l)
			}
		}
		c.assumed.n++
		c.linkNewest(n)
		if ttl > 0 {
			c.until.extend(c.entries.n)
			*c.until.at(n) = min(int64(until), latest)
		}
	}
	for _, n := range number {
		if c.entries.at(n).unlisted() {
			d.fail("an assumed block has no place in their order")
		}
	}
}

// decodeEntry adds an entry, or fails if it does not fit to its parent.
func (c *contents) decodeEntry(d *decoder, head uint32, number []uint32) uint32 {
	kind, border := head&(snapBorder-1), head&snapBorder != 0
	tip := d.hash()
	var before *entry // the inner entry that only its handle's next may follow
	if last := number[len(number)-1]; last != 0 && c.entries.at(last).isInner() {
		before = c.entries.at(last)
	}
	if kind == kindRoot {
		if !border || tip == 0 || before != nil || c.findTip(tip) != 0 {
			d.fail("misplaced root %#x", tip)
			return 0
		}
		return c.root(tip)
	}
	parent := number[d.number(len(number)-1)]
	if d.err != nil {
		return 0
	}
	if parent == 0 || tip == 0 || kind != kindHandle && kind != kindInner && kind != kindAssumed {
		d.fail("entry of kind %d with parent %d", kind, parent)
		return 0
	}
	up := c.entries.at(parent)
	if before != nil && (before != up || kind == kindAssumed) || before == nil && up.isInner() {
		d.fail("entry %#x parts the pieces of a block", tip)
		return 0
	}
	size := c.ix.hasher.blockTokens
	begin := 0
	if !up.border() {
		begin = int(c.parts.at(parent).end)
	}
	p := piece{tip: tip, begin: begin, border: border}
	if border {
		p.tokens = make([]uint32, size-begin) // their number counts
	} else {
		p.tokens = d.tokens(size - begin - 1)
		p.extras = d.extras(len(p.tokens))
	}
	e := entry{parent: parent}
	depth := up.depth()
	if border {
		e.flags = flagBorder
		depth++
	}
	var copies [tiers]uint8
	group := 0
	switch kind {
	case kindInner:
		group = d.number(max(len(c.groups)-1, 0))
	case kindHandle:
		group = d.number(max(len(c.groups)-1, 0))
		key := d.hash()
		e.setKey(key)
		if copies[0] = 1; head&snapCopies == 0 {
			d.raw(copies[:])
		}
		if d.err == nil && c.findName(key, uint32(group)) != 0 {
			d.fail("engine hash %#x occurs twice", key)
		}
	}
	switch {
	case d.err != nil:
	case depth >= maxDepth || c.used >= maxEntry-1:
		d.fail("too many blocks")
	case kind != kindHandle && !border || !border && len(p.tokens) == 0 ||
		kind == kindAssumed && !up.border() || len(c.groups) == 0 && kind != kindAssumed ||
		before != nil && before.group() != uint32(group) ||
		kind == kindAssumed && c.findKind(tip, kindAssumed) != 0:
		d.fail("entry %#x contradicts its parent", tip)
	case c.misplaced(tip, parent, depth, border):
		d.fail("block %#x occurs in two places", tip)
	}
	if d.err != nil {
		return 0
	}
	e.place = placeOf(depth, kind, uint32(group))
	e.setTip(tip)
	n := c.newEntry(e)
	c.newPart(n, &p)
	if kind != kindHandle {
		return n
	}
	c.handles++
	c.ghosts++
	if head&snapEvicted != 0 {
		c.entries.at(n).flags |= flagEvicted
	}
	for t, have := range copies {
		if have > 0 && (Tier(t) == TierGPU || c.reach(Tier(t))) {
			was := c.credit(n)
			*c.copiesOf(n, Tier(t)) = have
			c.recredit(n, was)
		}
	}
	if c.credit(n) == 0 {
		c.enqueue(n)
	}
	return n
}

// misplaced reports whether the block of a hash is known at another place: a hash stands
// for one chain.
func (c *contents) misplaced(tip uint64, parent uint32, depth uint32, border bool) bool {
	if !border {
		return false
	}
	n := c.findTip(tip)
	if n == 0 {
		return false
	}
	above := parent
	for !c.entries.at(above).border() {
		above = c.entries.at(above).parent
	}
	e := c.entries.at(n)
	return e.kind() == kindRoot || e.depth() != depth ||
		c.entries.at(c.above(e)).tip() != c.entries.at(above).tip()
}
