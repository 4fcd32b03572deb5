package prefixindex

import (
	"fmt"
	"iter"
	"slices"
)

// Join makes name a member and returns its handle; for a current member that is
// the handle it has. A name that joins after it left begins a new generation,
// with nothing cached. Use a name that a replaced server does not inherit where
// there is one, such as a pod UID: an address may come back as another server. A
// host that learns of endpoints by address keeps the map from one to the other.
//
// O(1), and a word for each 64 members. It takes the lock of the membership, which no
// lookup takes. Errors are ErrFull beyond a million members, and an empty name.
func (ix *Index) Join(name string) (Endpoint, error) {
	if name == "" {
		return 0, fmt.Errorf("%w: the name of an endpoint is empty", ErrArgument)
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if e, ok := ix.Find(name); ok {
		return e, nil
	}
	n, ok := ix.members.take()
	if !ok || ix.generation == 1<<32-1 {
		return 0, fmt.Errorf("%w: %q would be member %d", ErrFull, name, maxMembers)
	}
	ix.generation++
	e := Endpoint(ix.generation)<<32 | Endpoint(n)
	d := ix.roster.Load().draft()
	*d.row(n) = member{endpoint: e, name: name}
	d.joined++
	ix.publish(d)
	ix.names.Store(name, e)
	return e, nil
}

func (ix *Index) publish(d *draft) {
	d.checkInvariants()
	ix.roster.Store(&d.roster)
}

// Leave ends the endpoint's generation: once it has returned, no lookup names
// the endpoint and its Writers return ErrFenced. A handle of no current member
// changes nothing.
//
// O(ranks) until the fence; the memory follows in steps, O(own blocks) in all.
func (ix *Index) Leave(e Endpoint) {
	ix.leave(func(m *member) bool { return m.endpoint == e })
	ix.sweep(sweepStep)
}

// Retain makes every endpoint leave whose name is not in names, and reports how
// many left. It lets nobody join.
//
// O(members + names); the memory follows in steps.
func (ix *Index) Retain(names []string) int {
	stay := make(map[string]bool, len(names))
	for _, name := range names {
		stay[name] = true
	}
	n := ix.leave(func(m *member) bool { return !stay[m.name] })
	ix.sweep(sweepStep)
	return n
}

// leave removes members in one publication.
func (ix *Index) leave(who func(*member) bool) int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	d := ix.roster.Load().draft()
	left := 0
	for i, page := range d.members {
		for j := range page {
			m := &page[j]
			if m.endpoint == 0 || !who(m) {
				continue
			}
			ix.names.Delete(m.name)
			for _, s := range m.seats {
				ix.end(d, s)
			}
			n := i<<6 | j
			*d.row(n) = member{}
			ix.members.give(n)
			left++
		}
	}
	if left > 0 {
		d.joined -= left
		ix.publish(d)
	}
	return left
}

// end fences an epoch in a draft.
func (ix *Index) end(d *draft, s seat) {
	s.writer.ended.Store(true)
	s.writer.due.Store(never)
	d.hide(&s)
	d.seated--
	ix.dead = append(ix.dead, s.contents)
}

// Find returns the handle of a current member.
//
// O(1), lock-free, no allocation.
func (ix *Index) Find(name string) (Endpoint, bool) {
	e, ok := ix.names.Load(name)
	if !ok {
		return 0, false
	}
	ep, _ := e.(Endpoint) // names holds nothing else
	return ep, true
}

// Name returns the name under which e joined, or "" if it is no current member.
//
// O(1), lock-free, no allocation.
func (ix *Index) Name(e Endpoint) string {
	if m := ix.roster.Load().member(e); m != nil {
		return m.name
	}
	return ""
}

// Endpoints yields the current members and their names, in no order.
//
// O(members). It sees the membership of the instant of the call to Endpoints.
func (ix *Index) Endpoints() iter.Seq2[Endpoint, string] {
	r := ix.roster.Load()
	return func(yield func(Endpoint, string) bool) {
		for _, page := range r.members {
			for i := range page {
				if m := &page[i]; m.endpoint != 0 && !yield(m.endpoint, m.name) {
					return
				}
			}
		}
	}
}

// View returns what the feeder of an owner last said of it; ViewNever for an
// owner that has no Writer.
//
// O(ranks), lock-free, no allocation.
func (ix *Index) View(e Endpoint, rank int) View {
	if m := ix.roster.Load().member(e); m != nil {
		if s := m.seat(rank); s != nil {
			return s.writer.currentView()
		}
	}
	return ViewNever
}

// open returns the Writer of a rank of e: of a new epoch if fresh, else of the one it
// has, if it has one.
func (ix *Index) open(e Endpoint, rank int, fresh bool) (*Writer, error) {
	if rank == -1 && !fresh {
		rank = 0 // picked where nothing was held
	}
	if rank < 0 || rank > maxRank {
		return nil, fmt.Errorf("%w: rank is %d, want 0 to %d", ErrArgument, rank, maxRank)
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	r := ix.roster.Load()
	m := r.member(e)
	if m == nil {
		return nil, fmt.Errorf("%w: handle %#x", ErrNotJoined, uint64(e))
	}
	old := m.seat(rank)
	if old != nil && !fresh {
		return old.writer, nil
	}
	if old == nil && r.seated >= maxOwners {
		return nil, fmt.Errorf("%w: %q rank %d would be owner %d", ErrFull, m.name, rank, maxOwners+1)
	}
	slot, ok := ix.slots.take()
	if !ok {
		return nil, fmt.Errorf("%w: %q rank %d: the memory of too many that left is not swept yet",
			ErrFull, m.name, rank)
	}
	w := &Writer{ix: ix, endpoint: e, name: m.name, rank: rank}
	w.due.Store(never)
	w.assumedDue.Store(never)
	w.stats.Epochs = 1
	w.contents = newContents(ix, w, uint32(slot))

	// One publication takes the old epoch out and puts the new one in.
	d := r.draft()
	row := d.row(e.Slot())
	seats := slices.Clone(row.seats)
	at, found := slices.BinarySearchFunc(seats, rank, func(s seat, rank int) int { return s.writer.rank - rank })
	if found {
		ix.end(d, seats[at])
	} else {
		seats = slices.Insert(seats, at, seat{})
	}
	seats[at] = seat{writer: w, contents: w.contents, slots: w.contents.slots}
	row.seats = seats
	d.seated++
	d.show(w.contents)
	ix.publish(d)
	return w, nil
}

// replace empties a Writer's cache: new contents in place of the old. The caller holds
// w.mu.
func (ix *Index) replace(w *Writer) error {
	return ix.reseat(w, func(d *draft, s *seat) error {
		slot, ok := ix.slots.take()
		if !ok {
			return fmt.Errorf("%w: the memory of too many that left is not swept yet", ErrFull)
		}
		old := w.contents
		w.contents = newContents(ix, w, uint32(slot))
		d.hide(s)
		ix.dead = append(ix.dead, old)
		return nil
	})
}

// showSlot publishes a slot that c has got in addition.
func (ix *Index) showSlot(c *contents) error {
	return ix.reseat(c.writer, func(*draft, *seat) error { return nil })
}

// reseat publishes the contents of a Writer and their slots, after change.
func (ix *Index) reseat(w *Writer, change func(*draft, *seat) error) error {
	yield("before the seat changes")
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if w.ended.Load() {
		return w.fenced()
	}
	d := ix.roster.Load().draft()
	row := d.row(w.endpoint.Slot())
	seats := slices.Clone(row.seats)
	for i := range seats {
		if s := &seats[i]; s.writer == w {
			if err := change(d, s); err != nil {
				return err
			}
			s.contents, s.slots = w.contents, w.contents.slots
		}
	}
	row.seats = seats
	d.show(w.contents)
	ix.publish(d)
	return nil
}

func (ix *Index) takeSlot() (uint32, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	slot, ok := ix.slots.take()
	if !ok {
		return 0, ErrFull
	}
	return uint32(slot), nil
}

// slotState returns what readers know of a slot, and its place there.
func (ix *Index) slotState(slot uint32) (*slotState, uint32) {
	// A slot's page is in the roster before anyone writes to the slot, but for one that
	// split has just taken.
	r := ix.roster.Load()
	if int(slot>>6) >= len(r.slots) {
		ix.mu.Lock()
		d := ix.roster.Load().draft()
		d.slotPage(int(slot >> 6))
		ix.publish(d)
		ix.mu.Unlock()
		r = ix.roster.Load()
	}
	return r.slots[slot>>6].state, slot & 63
}
