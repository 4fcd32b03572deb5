package prefixindex

import (
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

func (e *epoch) isAssumed(b BlockHash) bool {
	return e.assumed != nil && e.assumed.Contains(b)
}

// insert assumes the first n full blocks of p, or all.
func (e *epoch) insert(p *Prompt, n int, now time.Time) {
	if full := p.blocks(e.ix.hasher); n < 0 || n > full {
		n = full
	}
	if e.view == ViewNever {
		e.view = ViewAssumed
	}
	e.assume(p.grow(e.ix.hasher, n)[:n], now)
	e.trim()
}

// assume records blocks without handles, the last first, so that the head of a prompt
// is the most recent of it.
func (e *epoch) assume(blocks []BlockHash, now time.Time) {
	if e.assumed == nil {
		e.assumed, _ = simplelru.NewLRU(e.ix.options.OwnerBlocks, func(b BlockHash, _ time.Time) {
			if e.reported(b) == levels {
				e.count(b, false)
			}
		})
	}
	until := now.Add(e.ix.options.AssumedTTL)
	for _, b := range slices.Backward(blocks) {
		if !e.assumed.Contains(b) {
			e.stats.Inserted++
			if e.reported(b) == levels {
				e.count(b, true)
			}
		}
		if e.assumed.Add(b, until) {
			e.stats.Evicted++
		}
	}
}

// expire sweeps out what no lookup reports any more.
func (e *epoch) expire(now time.Time) {
	if e.assumed == nil || e.ix.options.AssumedTTL == 0 {
		return
	}
	for {
		_, until, ok := e.assumed.GetOldest()
		if !ok || now.Before(until) {
			return
		}
		e.assumed.RemoveOldest()
		e.stats.Expired++
	}
}
