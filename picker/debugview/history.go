package debugview

import (
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
)

const (
	bucket  = 5 * time.Second
	buckets = 120 // ten minutes
)

// history is how much of the prompts was predicted to be cached and how much was, over
// the last ten minutes.
type history struct {
	ring [buckets]sums
}

// sums is what ended within one bucket of time.
type sums struct {
	at int64 // number of the bucket since 1970

	ended          uint64
	failed         uint64
	prompt         uint64 // tokens of requests with a prediction
	predicted      uint64 // tokens of them
	reportedPrompt uint64 // tokens of requests with a prediction and a report
	reported       uint64 // tokens that their engines found in the cache
}

// add counts the end of a request.
func (h *history) add(now time.Time, e *picker.DoneEvent) {
	at := now.UnixNano() / int64(bucket)
	s := &h.ring[uint64(at)%buckets]
	if s.at != at {
		*s = sums{at: at}
	}
	s.ended++
	if e.Outcome.Result == picker.Failed || e.Outcome.Result == picker.Refused {
		s.failed++
	}
	predicted, known := e.Decision.CachedTokens.Get()
	if !known || e.Decision.PromptTokens <= 0 || predicted < 0 {
		return
	}
	s.prompt += uint64(e.Decision.PromptTokens)
	s.predicted += uint64(predicted)
	if reported, known := e.Outcome.CachedTokens.Get(); known && reported >= 0 {
		s.reportedPrompt += uint64(e.Decision.PromptTokens)
		s.reported += uint64(min(reported, float64(e.Decision.PromptTokens)))
	}
}

// served is when a request last ended well on each endpoint, by slot.
type served []struct {
	endpoint prefixindex.Endpoint
	at       time.Time
}

// maxSlots bounds it when handles are made up and name any slot.
const maxSlots = 1 << 17

func (s *served) note(e prefixindex.Endpoint, now time.Time) {
	slot := e.Slot()
	if e == 0 || slot >= maxSlots {
		return
	}
	if slot >= len(*s) {
		*s = append(*s, make(served, slot+1-len(*s))...)
	}
	(*s)[slot].endpoint, (*s)[slot].at = e, now
}

func (s *served) of(e prefixindex.Endpoint) (at time.Time) {
	if slot := e.Slot(); slot < len(*s) && (*s)[slot].endpoint == e {
		at = (*s)[slot].at
	}
	return at
}

// point is a moment of the history. Shares of the prompts are 0 to 1, or -1 where nothing
// ended that tells.
type point struct {
	At        time.Time
	Ended     uint64
	Failed    uint64
	Predicted float64
	Reported  float64
}

// points returns the buckets up to now, the oldest first.
func (h *history) points(now time.Time) []point {
	list := make([]point, buckets)
	newest := now.UnixNano() / int64(bucket)
	for i := range list {
		at := newest - buckets + 1 + int64(i)
		s := &h.ring[uint64(at)%buckets]
		if s.at != at {
			s = new(sums)
		}
		list[i] = point{
			At: time.Unix(0, at*int64(bucket)), Ended: s.ended, Failed: s.failed,
			Predicted: share(s.predicted, s.prompt), Reported: share(s.reported, s.reportedPrompt),
		}
	}
	return list
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return -1
	}
	return float64(part) / float64(whole)
}
