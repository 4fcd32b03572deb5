package kvevents

import (
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/prefixindex"
)

// Loss is what to do about numbers that are lost for good.
type Loss uint8

// The ways to go on after a loss.
const (
	// LossKeep keeps what is known and marks the view. Lost announcements cost hits;
	// lost removals leave blocks that are credited and no longer there, until they are
	// announced again, or the engine restarts or empties its cache.
	LossKeep Loss = iota

	// LossClear begins a new epoch, empty: what was announced before the loss, and may be
	// gone, is credited no more.
	LossClear
)

// StreamOptions configures a Stream. The zero StreamOptions are for a stream without
// replay.
type StreamOptions struct {
	// Replay says that past frames can be asked for, so that a Stream begins with all
	// that the engine still has, and asks again for what is missing.
	Replay bool

	// Loss is what to do about numbers that are lost for good.
	Loss Loss

	// HeldFrames and HeldBytes bound the frames that wait behind missing ones: by
	// default 65,536 frames and 64 MiB of payload. Where that is too little the highest
	// numbers are dropped, counted, and asked for later.
	HeldFrames int
	HeldBytes  int

	// ReplayIdle ends a replay that brings nothing for so long: by default a minute. It
	// is the last resort: engines lose the mark of the end as they lose frames, and a
	// Replayer had better notice by itself, which can tell waiting for its turn from
	// waiting for the engine.
	ReplayIdle time.Duration

	// ReplayAttempts is after how many replays in a row that brought nothing of use
	// the missing numbers are given up: 1 to 100, by default 3. Two are enough where
	// the engine sends what comes after a number but not the number itself.
	ReplayAttempts int

	// ReplayBackoff is the wait before a replay is tried for the second time, doubled
	// each time up to 30 seconds: by default half a second.
	ReplayBackoff time.Duration

	// StaleAfter is the silence after which the view is ViewStale until the next
	// frame. Zero is never, since engines without work are silent.
	StaleAfter time.Duration

	// Clock tells the time; by default time.Now.
	Clock func() time.Time
}

const maxReplayBackoff = 30 * time.Second

func (o *StreamOptions) validate() error {
	const maxFrames, maxBytes = 1 << 24, 1 << 30
	switch {
	case o.Loss > LossClear:
		return fmt.Errorf("%w: Loss is %d, want %d or %d", ErrOptions, o.Loss, LossKeep, LossClear)
	case o.HeldFrames < 0 || o.HeldFrames > maxFrames:
		return fmt.Errorf("%w: HeldFrames is %d, want 0 to %d", ErrOptions, o.HeldFrames, maxFrames)
	case o.HeldBytes < 0 || o.HeldBytes > maxBytes:
		return fmt.Errorf("%w: HeldBytes is %d, want 0 to %d", ErrOptions, o.HeldBytes, maxBytes)
	case o.ReplayIdle < 0:
		return fmt.Errorf("%w: ReplayIdle is %v, want 0 or more", ErrOptions, o.ReplayIdle)
	case o.ReplayAttempts < 0 || o.ReplayAttempts > 100:
		return fmt.Errorf("%w: ReplayAttempts is %d, want 0 to 100", ErrOptions, o.ReplayAttempts)
	case o.ReplayBackoff < 0 || o.ReplayBackoff > maxReplayBackoff:
		return fmt.Errorf("%w: ReplayBackoff is %v, want 0 to %v", ErrOptions, o.ReplayBackoff, maxReplayBackoff)
	case o.StaleAfter < 0:
		return fmt.Errorf("%w: StaleAfter is %v, want 0 or more", ErrOptions, o.StaleAfter)
	}
	if o.HeldFrames == 0 {
		o.HeldFrames = 1 << 16
	}
	if o.HeldBytes == 0 {
		o.HeldBytes = 64 << 20
	}
	if o.ReplayIdle == 0 {
		o.ReplayIdle = time.Minute
	}
	if o.ReplayAttempts == 0 {
		o.ReplayAttempts = 3
	}
	if o.ReplayBackoff == 0 {
		o.ReplayBackoff = time.Second / 2
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return nil
}

// Action is what a Stream wants done. More may be added; take no step for one that
// you do not know.
type Action uint8

// The actions.
const (
	Apply      Action = iota + 1 // apply the frame
	Begin                        // begin a new epoch
	Replay                       // begin a replay, and stop the one before if it still runs
	StopReplay                   // stop the replay
)

// Step is one thing to do.
type Step struct {
	Action Action
	Frame  Frame  // of Apply
	From   uint64 // of Replay: the first number wanted
	Round  uint64 // of Replay: its name, for Replayed and ReplayEnded
}

// Stream is the order of one stream's frames, without I/O: what happens goes in, and
// steps come out in the order in which they must be taken. After each call of another
// method, ask Next until it has no more. One goroutine at a time.
//
// Numbers count up from 0 in each life of the engine. Each is applied once, and none
// ahead of one that may still come: frames behind missing ones are held while those
// are fetched. A replay asks for the last frame applied as well, and if that is not
// the same any more, the engine has restarted and its numbers have passed ours; a
// number that goes backwards says so by itself. Either way a new epoch begins before
// anything of the new life is applied.
type Stream struct {
	o     StreamOptions
	steps []Step
	taken int // of steps
	held  held
	stats StreamStats

	next     uint64 // number to be applied next
	fresh    bool   // after Reset: the next number may be any
	last     numbered
	hasLast  bool // last is a frame that was applied, in this life of the engine
	live     uint64
	liveSum  uint64
	hasLive  bool              // live is the number of the last live frame of this life
	since    uint64            // from this number on frames come live; noNumber while none has on this connection
	end      uint64            // one past the highest number of this life that was heard of, live or in a replay
	endHere  uint64            // the same, on this connection
	ahead    map[uint64]uint64 // fingerprints of replayed frames that live ones may still repeat
	unsure   bool              // there were too many for ahead
	open     bool              // numbers are missing, or may be, and are being fetched
	gapped   bool              // some were lost for good
	unproven bool              // the connection was lost, and no replay can show that the engine is the same
	queued   uint64            // frames that steps apply, ever
	handed   uint64            // of them: that Next has returned
	lostAt   uint64            // queued when the last were lost
	heard    bool              // of the engine, at all
	heardAt  time.Time
	stale    bool
	round    round
	rounds   uint64    // begun
	attempts int       // replays in a row without use
	doubts   int       // replays in a row that did not have the last frame applied
	renewed  int       // epochs begun in a row because a replay was not what was expected
	retryAt  time.Time // zero: no replay waits
}

// round is one replay.
type round struct {
	running  bool
	from     uint64
	verify   bool   // the frame of number from must be the last one applied
	useful   bool   // it brought a frame that was applied
	higher   bool   // it brought frames, but none that comes next
	end      uint64 // one past the highest number that it brought
	deadline time.Time
}

// noNumber is above all numbers.
const noNumber = replayEnd

// maxAhead bounds Stream.ahead. Without a fingerprint a frame that repeats a replayed
// one is still not applied; but it cannot give away a restart.
const maxAhead = 1 << 16

// NewStream returns a stream that has heard nothing. With replay its first step is to
// ask for all that the engine has. An error names the option.
func NewStream(o StreamOptions) (*Stream, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Stream{o: o, since: noNumber}
	s.held.maxFrames, s.held.maxBytes = o.HeldFrames, o.HeldBytes
	if o.Replay {
		s.open = true
		s.ask()
	}
	return s, nil
}

// Next returns the next step, or false if there is none for now. A step that was
// returned counts as taken.
//
// O(1).
func (s *Stream) Next() (Step, bool) {
	if s.taken == len(s.steps) {
		s.steps, s.taken = s.steps[:0], 0
		return Step{}, false
	}
	step := s.steps[s.taken]
	s.steps[s.taken] = Step{} // frees the payload
	s.taken++
	if step.Action == Apply {
		s.handed++
		s.stats.Applied++
	}
	return step, true
}

func (s *Stream) step(step Step) { s.steps = append(s.steps, step) }

// Live takes a frame that has just arrived. The payload is kept while the frame is
// held.
//
// O(payload), for its fingerprint.
func (s *Stream) Live(f Frame) { s.arrived(f, true) }

// Garbled takes a frame that has just arrived, and whose payload cannot be read. What
// came over the wire broken may be whole in the engine's memory: so with replay it is
// missing until a replay brings it, as it may be by then. Without, it is applied.
//
// O(payload), for its fingerprint.
func (s *Stream) Garbled(f Frame) { s.arrived(f, !s.o.Replay) }

// arrived takes a frame that has just arrived. One that is not good is missing.
func (s *Stream) arrived(f Frame, good bool) {
	s.stats.Frames++
	s.hear()
	if f.Seq == replayEnd {
		s.stats.Invalid++
		return
	}
	s.unproven = false // either its number goes on, or what follows deals with it
	n := numbered{f, xxhash.Sum64(f.Payload)}
	switch {
	case s.hasLive && f.Seq == s.live && n.sum == s.liveSum:
		s.stats.Duplicates++
		return
	case s.hasLive && f.Seq <= s.live:
		s.stats.Restarts++
		s.restart()
	case f.Seq < s.next && !s.fresh:
		// A replay has brought this number already.
		s.heardLive(n)
		sum, known := s.ahead[f.Seq]
		delete(s.ahead, f.Seq)
		if known && sum == n.sum || !known && s.unsure {
			s.stats.Duplicates++
			return
		}
		s.stats.HiddenRestarts++ // but that of another life, or was never there to bring
		s.restart()
	case good && s.held.other(n):
		s.stats.HiddenRestarts++
		s.restart()
	}
	want := s.next
	if s.hasLive {
		want = max(want, s.live+1)
	}
	s.heardLive(n)
	if s.fresh {
		s.fresh = false
		s.next = f.Seq
		good = true // or at least applied, as there is none before it from which to ask
	} else if f.Seq > want {
		s.stats.Gaps++
		s.stats.Missing += f.Seq - want
	}
	switch {
	case s.open:
		s.hold(n, good)
	case f.Seq == s.next && good:
		s.apply(n)
	case s.o.Replay:
		s.open = true
		s.hold(n, good)
		s.ask()
	default:
		s.lose(f.Seq)
		s.apply(n)
	}
}

// heardLive remembers that n has come by itself, and that what follows it will.
func (s *Stream) heardLive(n numbered) {
	s.live, s.liveSum, s.hasLive = n.Seq, n.sum, true
	s.since = min(s.since, n.Seq)
	s.heardOf(n.Seq)
}

// heardOf remembers that there is a frame of number seq.
func (s *Stream) heardOf(seq uint64) {
	s.end = max(s.end, seq+1)
	s.endHere = max(s.endHere, seq+1)
}

func (s *Stream) hear() {
	s.heard, s.stale = true, false
	s.heardAt = s.o.Clock()
}

// hold keeps a frame until those before it are there, unless it is of no use.
func (s *Stream) hold(n numbered, good bool) {
	switch _, waits := s.held.frames[n.Seq]; {
	case !good:
		s.stats.Garbled++
	case waits:
		s.stats.Duplicates++
	default:
		s.stats.Overflowed += s.held.add(n)
	}
}

// apply hands out the frame that comes next.
func (s *Stream) apply(n numbered) {
	s.step(Step{Action: Apply, Frame: n.Frame})
	s.queued++
	s.last, s.hasLast = numbered{Frame{Seq: n.Seq}, n.sum}, true
	s.next = n.Seq + 1
	s.round.useful, s.attempts = true, 0
}

// drain hands out held frames as far as none is missing.
func (s *Stream) drain() {
	for {
		seq, ok := s.held.lowest()
		if !ok || seq > s.next {
			return
		}
		s.apply(s.held.take())
	}
}

// lose gives up the numbers before seq.
func (s *Stream) lose(seq uint64) {
	s.stats.Lost += seq - s.next
	if s.o.Loss == LossClear && s.hasLast {
		s.step(Step{Action: Begin})
	}
	s.next = seq
	s.gapped, s.lostAt = true, s.queued
}

// restart begins the next life of the engine. Nothing that is held or being fetched
// is known to be of it.
func (s *Stream) restart() {
	s.stop()
	s.step(Step{Action: Begin})
	s.stats.Dropped += uint64(s.held.drop())
	clear(s.ahead)
	s.unsure = false
	s.next, s.hasLast, s.hasLive, s.fresh = 0, false, false, false
	s.since, s.end, s.endHere = noNumber, 0, 0
	s.open, s.gapped = false, false
	s.attempts, s.doubts = 0, 0
}

// Reset says that the caller has emptied the cache and begun a new epoch, because the
// engine's is known to be empty. Frames that wait are dropped, counted as Discarded, and
// what was missing is no longer of interest: the stream goes on after the last live
// frame. Where none was heard, and not all that there was is known from a replay, it
// begins with the next.
//
// O(frames that wait).
func (s *Stream) Reset() {
	s.stats.Discarded += uint64(s.held.drop()) + s.queued - s.handed
	s.handed = s.queued
	clear(s.steps)
	s.steps, s.taken = s.steps[:0], 0
	s.stop()
	if s.fresh = !s.hasLive && (s.open || !s.hasLast); s.fresh {
		s.hasLast = false
		clear(s.ahead)
		s.unsure = false
	} else if s.hasLive && s.live+1 >= s.next {
		s.last, s.hasLast = numbered{Frame{Seq: s.live}, s.liveSum}, true
		s.next = s.live + 1
	}
	s.end, s.endHere = 0, 0
	s.open, s.gapped, s.unproven = false, false, false
	s.attempts, s.doubts = 0, 0
}

// Emptied says that the frame that Next returned last has emptied the cache: what was
// lost before it no longer matters. What was lost after it may be known already.
//
// O(1).
func (s *Stream) Emptied() { s.emptied(s.handed) }

// emptied is Emptied by the at-th frame that Next returned.
func (s *Stream) emptied(at uint64) {
	if at > s.lostAt {
		s.gapped = false
	}
}

// Damaged says that contents of the frame that Next returned last are lost, so that
// the frame cannot be known to have emptied the cache either.
//
// O(1).
func (s *Stream) Damaged() { s.gapped, s.lostAt = true, max(s.lostAt, s.handed) }

// View returns what the numbers so far let one believe. O(1).
func (s *Stream) View() prefixindex.View {
	switch {
	case !s.heard:
		return prefixindex.ViewNever
	case s.stale:
		return prefixindex.ViewStale
	case s.open:
		return prefixindex.ViewResyncing
	case s.gapped || s.unproven:
		return prefixindex.ViewGap
	}
	return prefixindex.ViewLive
}

// Stats returns counts since the Stream began. O(1).
func (s *Stream) Stats() StreamStats {
	st := s.stats
	st.Held, st.HeldBytes = len(s.held.frames)+int(s.queued-s.handed), s.held.bytes
	return st
}

// StreamStats counts what the numbers showed. No frame is unaccounted for:
//
//	Frames + Replayed = Applied + Held + Invalid + Duplicates + Garbled +
//		Overflowed + Dropped + LateReplayed + Discarded
type StreamStats struct {
	Held      int // frames that wait now
	HeldBytes int // of the payloads of those behind missing ones

	Frames         uint64 // live frames taken
	Replayed       uint64 // frames of replays taken
	Applied        uint64 // frames handed out to be applied
	Invalid        uint64 // frames whose number is none
	Duplicates     uint64 // frames not applied again, and those that overlap to show that the engine is the same
	Garbled        uint64 // live frames that could not be read, and were asked for again
	Overflowed     uint64 // frames for which there was no room to wait
	Dropped        uint64 // frames dropped because the engine had restarted, or may have; the new ones come again
	LateReplayed   uint64 // frames of replays that had been given up
	Discarded      uint64 // frames dropped by Reset
	Gaps           uint64 // places where numbers were missing in live frames, or before the first
	Missing        uint64 // numbers missing in them
	Recovered      uint64 // of Applied: frames that replays brought and that did not wait
	Lost           uint64 // numbers given up
	Restarts       uint64 // numbers that went backwards
	HiddenRestarts uint64 // restarts that only a replay gave away
	Unverified     uint64 // epochs begun because a replay did not reach back to the last frame applied
	Unchecked      uint64 // times that it went on without a replay to show that the engine is the same
	Replays        uint64 // begun
	ReplaysFailed  uint64 // ended by an error, or by silence
	ReplaysIdle    uint64 // of those: by silence
	ReplayHoles    uint64 // replays that left out numbers in their middle
	Reconnects     uint64 // connections that were lost and came back
}

// errReplayIdle is how a replay ends that brings nothing for too long.
var errReplayIdle = errors.New("kvevents: replay brings nothing")
