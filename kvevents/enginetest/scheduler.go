package enginetest

import (
	"container/heap"
	"slices"
	"time"
)

// scheduler is the engine's model of time, as a discrete-event machine: no
// lock, no clock, no goroutine. All times are since the engine was made.
// However late advance is called, everything happens at the time the model
// gives it.
type scheduler struct {
	pool        *Pool
	prefillRate float64 // tokens a second
	decodeStep  time.Duration
	maxRunning  int
	endTurn     func(at time.Duration) // after each moment at which something happened

	now        time.Duration
	waiting    []*request // first come, first served; preempted ones at the front
	prefilling *request
	prefillEnd time.Duration
	decoding   decodeQueue
	admissions uint64

	// The head of the queue when it last found too few blocks, and the pool's
	// change count then: trying again before either differs would hash its
	// prompt for nothing at every step of the others.
	refused   *request
	refusedAt uint64

	stats Stats // the counters; gauges are filled in by whoever asks
}

// request is one generation under way. The scheduler writes it under the
// engine's lock; changed tells the goroutine that waits for it.
type request struct {
	prompt    []uint32
	scope     Scope
	maxTokens int
	everyStep bool // wake the waiter at every token, not only at the end
	seed      uint64

	seq       *Sequence // nil while waiting and when done
	out       []uint32  // sampled so far
	cached    int       // of the prompt, when first admitted
	admission uint64    // running number; 0: never yet
	due       time.Duration
	index     int // in decoding; -1: not there

	arrived, first, finished time.Duration
	done                     bool
	err                      error // why it was ended early
	changed                  chan struct{}
}

func (r *request) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// next returns when something happens next by itself.
func (s *scheduler) next() (time.Duration, bool) {
	switch {
	case s.prefilling != nil && (len(s.decoding) == 0 || s.prefillEnd <= s.decoding[0].due):
		return s.prefillEnd, true
	case len(s.decoding) > 0:
		return s.decoding[0].due, true
	}
	return 0, false
}

// advance plays everything that is due by now, turn by turn.
func (s *scheduler) advance(now time.Duration) {
	for {
		at, ok := s.next()
		if !ok || at > now {
			break
		}
		s.now = at
		for len(s.decoding) > 0 && s.decoding[0].due == at {
			s.decode(s.decoding[0])
		}
		if s.prefilling != nil && s.prefillEnd == at {
			r := s.prefilling
			s.prefilling = nil
			r.seq.Compute()
			if len(r.out) == 0 {
				r.first = at
				s.stats.PromptTokens += uint64(len(r.prompt))
			}
			s.sample(r)
		}
		s.admit()
		s.endTurn(at)
	}
	s.now = max(s.now, now)
}

// submit queues r at the present; the caller has advanced to it.
func (s *scheduler) submit(r *request) {
	r.arrived = s.now
	r.index = -1
	s.stats.Requests++
	s.waiting = append(s.waiting, r)
	s.admit()
	s.endTurn(s.now)
}

// cancel ends r at the present, wherever it stands.
func (s *scheduler) cancel(r *request, why error) {
	switch {
	case r.done:
		return
	case r == s.prefilling:
		s.prefilling = nil
	case r.index >= 0:
		heap.Remove(&s.decoding, r.index)
	default:
		s.waiting = slices.DeleteFunc(s.waiting, func(w *request) bool { return w == r })
	}
	r.err = why
	s.stats.Aborted++
	s.finish(r)
	s.admit()
	s.endTurn(s.now)
}

// admit starts the prefill of the request at the head, if it can have blocks.
func (s *scheduler) admit() {
	if s.prefilling != nil || len(s.waiting) == 0 || len(s.decoding) >= s.maxRunning {
		return
	}
	r := s.waiting[0]
	if r == s.refused && s.refusedAt == s.pool.changes {
		return
	}
	tokens := r.prompt
	if len(r.out) > 0 { // preempted: what it had generated is recomputed too
		tokens = slices.Concat(r.prompt, r.out)
	}
	seq, err := s.pool.Open(tokens, r.scope)
	if err != nil {
		s.refused, s.refusedAt = r, s.pool.changes
		return // ErrNoBlocks: everyone waits behind the head
	}
	s.refused = nil
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	if r.admission == 0 {
		r.cached = seq.CachedTokens()
		s.stats.QueriedTokens += uint64(len(tokens))
		s.stats.CachedTokens += uint64(r.cached)
	}
	s.admissions++
	r.admission = s.admissions
	r.seq = seq
	uncached := len(tokens) - seq.CachedTokens()
	s.stats.ComputedTokens += uint64(uncached)
	s.prefilling = r
	s.prefillEnd = s.now + time.Duration(float64(uncached)/s.prefillRate*float64(time.Second))
}

// decode is one step of r: compute the token sampled last, sample another.
func (s *scheduler) decode(r *request) {
	for r.seq.Append(r.out[len(r.out)-1]) != nil {
		victim := s.latest()
		s.preempt(victim)
		if victim == r {
			return
		}
	}
	s.sample(r)
}

// sample gives r its next token, and its next step or its end.
func (s *scheduler) sample(r *request) {
	r.out = append(r.out, replyToken(r.seed, len(r.out)))
	s.stats.GeneratedTokens++
	if len(r.out) == r.maxTokens {
		if r.index >= 0 {
			heap.Remove(&s.decoding, r.index)
		}
		s.stats.Finished++
		s.finish(r)
		return
	}
	r.due = s.now + s.decodeStep
	if r.index >= 0 {
		heap.Fix(&s.decoding, r.index)
	} else {
		heap.Push(&s.decoding, r)
	}
	if r.everyStep {
		r.wake()
	}
}

func (s *scheduler) finish(r *request) {
	r.done = true
	r.finished = s.now
	if r.seq != nil {
		r.seq.Free()
		r.seq = nil
	}
	r.wake()
}

// latest is the running request that was admitted last: the one to preempt.
// The oldest therefore always gets on, and alone it fits.
func (s *scheduler) latest() *request {
	if s.prefilling != nil {
		return s.prefilling
	}
	latest := s.decoding[0]
	for _, r := range s.decoding {
		if r.admission > latest.admission {
			latest = r
		}
	}
	return latest
}

func (s *scheduler) preempt(r *request) {
	if r == s.prefilling {
		s.prefilling = nil
	} else {
		heap.Remove(&s.decoding, r.index)
	}
	r.seq.Free()
	r.seq = nil
	s.waiting = slices.Insert(s.waiting, 0, r)
	s.stats.Preemptions++
}

// running returns how many requests hold blocks.
func (s *scheduler) running() int {
	if s.prefilling != nil {
		return len(s.decoding) + 1
	}
	return len(s.decoding)
}

// each calls f for every request that is not done.
func (s *scheduler) each(f func(r *request, running bool)) {
	for _, r := range s.waiting {
		f(r, false)
	}
	if s.prefilling != nil {
		f(s.prefilling, true)
	}
	for _, r := range s.decoding {
		f(r, true)
	}
}

// decodeQueue is a heap by due time; of equal ones the older admission first.
type decodeQueue []*request

func (q decodeQueue) Len() int { return len(q) }

func (q decodeQueue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].admission < q[j].admission
}

func (q decodeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *decodeQueue) Push(x any) {
	r := x.(*request)
	r.index = len(*q)
	*q = append(*q, r)
}

func (q *decodeQueue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.index = -1
	return r
}
