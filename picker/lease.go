package picker

import "time"

// leases are the open tickets of a ledger with leases, the one renewed longest ago
// first: a list through the tickets themselves. Numbers are places + 1, 0 is none.
type leases struct{ head, tail uint32 }

func (q *leases) remove(tickets []ticket, place uint32) {
	t := &tickets[place]
	if t.prev == 0 && q.head != place+1 {
		return // not in the list
	}
	if t.prev != 0 {
		tickets[t.prev-1].next = t.next
	} else {
		q.head = t.next
	}
	if t.next != 0 {
		tickets[t.next-1].prev = t.prev
	} else {
		q.tail = t.prev
	}
	t.next, t.prev = 0, 0
}

func (q *leases) add(tickets []ticket, place uint32) {
	tickets[place].prev = q.tail
	if q.tail != 0 {
		tickets[q.tail-1].next = place + 1
	} else {
		q.head = place + 1
	}
	q.tail = place + 1
}

// renew begins the ticket's lease anew, if there are leases. The ledger's lock is held.
func (l *Ledger) renew(place uint32, now time.Time) {
	if l.lease == 0 {
		return
	}
	l.leases.remove(l.tickets, place)
	l.tickets[place].renewed = now
	l.leases.add(l.tickets, place)
}

// expire closes the tickets whose lease has ended. The ledger's lock is held.
func (l *Ledger) expire(now time.Time) {
	for l.leases.head != 0 {
		place := l.leases.head - 1
		t := &l.tickets[place]
		if now.Sub(t.renewed) < l.lease {
			return
		}
		l.close(place, t)
		l.stats.Expired++
	}
}
