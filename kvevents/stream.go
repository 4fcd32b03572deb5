package kvevents

import "github.com/warmroute/warmroute/prefixindex"

// Action is what a Stream wants done. More may be added; take no step for one that
// you do not know.
type Action uint8

// The actions.
const (
	Apply Action = iota + 1 // apply the frame
	Begin                   // begin a new epoch; the frame that showed it follows
)

// Step is one thing to do.
type Step struct {
	Action Action
	Frame  Frame // of Apply
}

// Stream is the order of one stream's frames, without I/O: frames go in as they
// arrive, and steps come out in the order in which they must be taken. The zero
// Stream is ready and takes any first number. One goroutine at a time.
type Stream struct {
	steps   []Step // to be taken, first first
	next    uint64
	started bool
	view    prefixindex.View
	stats   StreamStats
}

// Live takes a frame that has just arrived. What follows from it is to be asked of
// Next, until that has no more, before the next frame is given.
//
// O(1).
func (s *Stream) Live(f Frame) {
	s.stats.Frames++
	missing := f.Seq - s.next
	if s.started && f.Seq < s.next {
		s.stats.Restarts++
		s.steps = append(s.steps, Step{Action: Begin})
		s.view = prefixindex.ViewLive
		missing = f.Seq
	}
	switch {
	case missing > 0:
		s.stats.Gaps++
		s.stats.Missing += missing
		s.view = prefixindex.ViewGap
	case !s.started:
		s.view = prefixindex.ViewLive
	}
	s.started = true
	s.next = f.Seq + 1
	s.steps = append(s.steps, Step{Action: Apply, Frame: f})
}

// Next returns the next step, or false if there is none for now. A step that was
// returned counts as taken.
//
// O(1).
func (s *Stream) Next() (Step, bool) {
	if len(s.steps) == 0 {
		return Step{}, false
	}
	step := s.steps[0]
	s.steps = s.steps[:copy(s.steps, s.steps[1:])]
	return step, true
}

// View returns what the numbers so far let one believe. O(1).
func (s *Stream) View() prefixindex.View { return s.view }

// Stats returns counts since the Stream began. O(1).
func (s *Stream) Stats() StreamStats { return s.stats }

// StreamStats counts what the numbers showed.
type StreamStats struct {
	Frames   uint64 // frames taken
	Gaps     uint64 // places where numbers were missing
	Missing  uint64 // numbers missing in them
	Restarts uint64 // numbers that went backwards
}
