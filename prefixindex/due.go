package prefixindex

import (
	"math"
	"time"
)

// never is when nothing is due.
const never = math.MaxInt64

// dueBy notes when the next of what a Writer's contents hold expires.
func (ix *Index) dueBy(w *Writer, at int64) {
	if w.due.Load() == at {
		return
	}
	w.due.Store(at)
	ix.dueAgain(at)
}

// expireDue ends what is due, for a lookup: without it, an owner that is only read
// would go on being credited. It takes locks only where they are free at once; where
// one is not, its holder is a write.
func (ix *Index) expireDue(now time.Time) {
	if at := now.UnixNano(); at >= ix.nextDue.Load() {
		ix.nextDue.Store(never)
		for _, page := range ix.roster.Load().members {
			for i := range page {
				for _, s := range page[i].seats {
					w := s.writer
					if w.due.Load() <= at && w.mu.TryLock() {
						if !w.ended.Load() {
							w.contents.expire(now)
						}
						w.mu.Unlock()
					}
					ix.dueAgain(w.due.Load())
				}
			}
		}
	}
}

// dueAgain makes lookups look at the latest at at.
func (ix *Index) dueAgain(at int64) {
	for {
		next := ix.nextDue.Load()
		if at >= next || ix.nextDue.CompareAndSwap(next, at) {
			return
		}
	}
}
