package enginetest

// Stats are an engine's gauges, as of now, and its counters since New, over
// all its lives. (/metrics counts the present life only.)
type Stats struct {
	Restarts   uint64
	Running    int // prefilling or decoding
	Waiting    int
	FreeBlocks int // cached ones included

	Requests        uint64 // accepted; = Finished + Aborted + Running + Waiting
	Finished        uint64
	Aborted         uint64 // cancelled, or ended by Restart or Close
	Preemptions     uint64
	PromptTokens    uint64 // of prompts whose prefill is done
	QueriedTokens   uint64 // of prompts looked up in the cache
	CachedTokens    uint64 // of those, found
	ComputedTokens  uint64 // prefilled, after preemptions too
	GeneratedTokens uint64
	Evictions       uint64 // cached blocks given up for others
	Batches         uint64 // published
}

// plus adds the counters of b to those of a.
func (a Stats) plus(b Stats) Stats {
	a.Requests += b.Requests
	a.Finished += b.Finished
	a.Aborted += b.Aborted
	a.Preemptions += b.Preemptions
	a.PromptTokens += b.PromptTokens
	a.QueriedTokens += b.QueriedTokens
	a.CachedTokens += b.CachedTokens
	a.ComputedTokens += b.ComputedTokens
	a.GeneratedTokens += b.GeneratedTokens
	a.Evictions += b.Evictions
	a.Batches += b.Batches
	return a
}

// Stats returns the engine's gauges and counters. O(1).
func (e *Engine) Stats() Stats {
	e.lock()
	defer e.unlock()
	s := e.past.plus(e.present())
	s.Restarts = e.life
	s.Running = e.sched.running()
	s.Waiting = len(e.sched.waiting)
	_, s.FreeBlocks = e.sched.pool.Blocks()
	return s
}

// present returns the counters of this life.
func (e *Engine) present() Stats {
	s := e.sched.stats
	s.Evictions = e.sched.pool.Evictions()
	return s
}
