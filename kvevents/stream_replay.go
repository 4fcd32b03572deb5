package kvevents

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// ask begins a replay: from the last frame applied on, which has to be the same as
// then, or of all there is.
func (s *Stream) ask() {
	s.rounds++
	s.stats.Replays++
	s.retryAt = time.Time{}
	s.round = round{running: true, deadline: s.o.Clock().Add(s.o.ReplayIdle)}
	if s.hasLast {
		s.round.from, s.round.verify = s.last.Seq, true
	}
	s.step(Step{Action: Replay, From: s.round.from, Round: s.rounds})
}

// stop ends whatever replay runs or waits.
func (s *Stream) stop() {
	if s.round.running {
		s.step(Step{Action: StopReplay})
	}
	s.round.running = false
	s.retryAt = time.Time{}
}

// Replayed takes a frame of the replay named round.
//
// O(payload), for its fingerprint, and O(held frames), a few bytes moved for each.
func (s *Stream) Replayed(round uint64, f Frame) {
	s.stats.Replayed++
	if !s.round.running || round != s.rounds {
		s.stats.LateReplayed++
		return
	}
	s.hear()
	if f.Seq == replayEnd {
		s.stats.Invalid++
		return
	}
	if f.Seq >= s.round.end { // one that repeats itself for ever brings nothing
		s.round.end = f.Seq + 1
		s.round.deadline = s.heardAt.Add(s.o.ReplayIdle)
	}
	s.heardOf(f.Seq)
	n := numbered{f, xxhash.Sum64(f.Payload)}
	switch {
	case f.Seq < s.round.from:
		s.stats.Duplicates++
	case s.round.verify:
		s.verify(n)
	case f.Seq < s.next:
		s.stats.Duplicates++
	case f.Seq == s.next:
		s.fetched(n)
	default:
		s.beyond(n)
	}
}

// beyond takes a frame from a replay that does not come next.
func (s *Stream) beyond(n numbered) {
	if !s.hasLast {
		// The engine has forgotten what was before, or its replay has lost it. The oldest
		// that there is begins the picture.
		if seq, ok := s.held.lowest(); ok && seq < n.Seq {
			s.lose(seq)
			s.drain()
		} else {
			s.lose(n.Seq)
		}
	}
	switch {
	case n.Seq < s.next:
		s.stats.Duplicates++ // it was held
	case n.Seq == s.next:
		s.fetched(n)
	default:
		s.round.higher = true
		s.hold(n, true)
		if n.Seq >= s.since && s.held.reaches(n.Seq, s.end) {
			// The replay has passed over what is missing, and what follows is here or comes
			// by itself. Its end may never come.
			s.step(Step{Action: StopReplay})
			s.ReplayEnded(s.rounds, nil)
		}
	}
}

// verify compares the first frame of a replay with the last one applied.
func (s *Stream) verify(n numbered) {
	switch {
	case n.Seq > s.round.from:
		s.stats.Dropped++
		s.doubt()
	case n.sum != s.last.sum:
		s.stats.Dropped++
		s.stats.HiddenRestarts++
		s.renew()
	default:
		s.stats.Duplicates++
		s.round.verify = false
		s.doubts = 0
	}
}

// doubt deals with a replay that lacks the last frame applied. The replay may have
// lost it on the way; if it is missing for the second time, then the engine no longer
// has it, and what is known may be another life's.
func (s *Stream) doubt() {
	s.doubts++
	if s.doubts < 2 {
		s.stop()
		s.ask()
		return
	}
	s.stats.Unverified++
	s.renew()
}

// renew begins a new epoch with all that the engine has. Held frames are part of
// that, or of the life before. So is the last live one; but what was heard on this
// connection is taken for the new life's, and wanted.
func (s *Stream) renew() {
	live, sum, since, here := s.live, s.liveSum, s.since, s.endHere
	s.restart()
	if since != noNumber {
		s.heardLive(numbered{Frame{Seq: live}, sum})
	}
	s.end, s.endHere = here, here
	s.open = true
	if s.renewed++; s.renewed > 2 {
		s.retry(s.renewed - 2) // a source whose replays are never what came live would keep all busy
		return
	}
	s.ask()
}

// retry has a replay begin after the n-th wait in a row.
func (s *Stream) retry(n int) {
	wait := s.o.ReplayBackoff << min(n-1, 16)
	s.retryAt = s.o.Clock().Add(min(wait, maxReplayBackoff))
}

// fetched takes the frame that comes next, from a replay. The frames that wait behind
// it go on waiting until the replay brings one of them too: only then is it known that
// they are of the same life.
func (s *Stream) fetched(n numbered) {
	if s.held.other(n) {
		// What is held was sent in another life than what the engine has now.
		s.stats.Dropped++
		s.stats.HiddenRestarts++
		s.renew()
		return
	}
	if _, waits := s.held.frames[n.Seq]; !waits {
		s.stats.Recovered++
		if !s.hasLive || n.Seq > s.live {
			s.expect(n)
		}
		s.apply(n)
		return
	}
	s.stats.Duplicates++
	s.drain()
	if s.met() {
		s.close()
	}
}

// met reports whether all is applied up to where frames come by themselves. Frames
// that wait may be from replays, and then prove nothing about what follows them.
func (s *Stream) met() bool { return s.next > s.since }

// expect remembers a frame that will come once more, live.
func (s *Stream) expect(n numbered) {
	if s.ahead == nil {
		s.ahead = map[uint64]uint64{}
	}
	if len(s.ahead) == maxAhead {
		s.unsure = true
		return
	}
	s.ahead[n.Seq] = n.sum
}

// ReplayEnded says that the replay named round has ended: with nil if the engine said
// that this was all.
//
// O(held frames).
func (s *Stream) ReplayEnded(round uint64, err error) {
	if !s.round.running || round != s.rounds {
		return
	}
	s.round.running = false
	if err != nil {
		s.stats.ReplaysFailed++
	} else if s.round.verify {
		// All that the engine has is older than what was applied.
		s.doubt()
		return
	}
	if s.round.higher {
		s.stats.ReplayHoles++
	}
	if !s.round.verify {
		s.drain()
		// A replay that broke off will do if what it was to bring is there.
		if (err == nil || s.met()) && s.close() {
			return
		}
	}
	if s.round.useful {
		s.ask() // there was progress: at once
		return
	}
	s.attempts++
	switch {
	case s.attempts >= s.o.ReplayAttempts, s.round.higher && s.attempts >= 2:
		s.giveUp(err == nil)
	case s.round.higher:
		s.ask()
	default:
		s.retry(s.attempts)
	}
}

// missing returns up to which number, exclusive, frames are known to be missing: next
// if there are none.
func (s *Stream) missing() uint64 {
	if seq, ok := s.held.lowest(); ok {
		return seq
	}
	return max(s.end, s.next) // there was no room for them
}

// close ends the fetching if nothing is missing, and reports whether it did.
func (s *Stream) close() bool {
	if s.missing() > s.next {
		return false
	}
	s.open = false
	s.attempts, s.doubts, s.renewed = 0, 0, 0
	s.stop()
	return true
}

// giveUp goes on without the numbers that are missing first. What the last replays
// passed over as well is given up with them, and where replays do not work, all that
// is missing.
func (s *Stream) giveUp(works bool) {
	s.attempts = 0
	if s.round.verify {
		// If the engine is another, what was applied before is not in its cache, nor what waits
		// from before. A later replay will only show that it is the one of the frames after this.
		s.stats.Unchecked++
		defer func() { s.gapped, s.lostAt = true, s.queued }()
	}
	for first := true; ; first = false {
		m := s.missing()
		if works && !first && m >= s.round.end {
			s.ask()
			return
		}
		if m > s.next {
			s.lose(m)
		}
		s.drain()
		if s.close() {
			return
		}
	}
}

// Reconnected says that the connection was lost and is there again. The engine may
// have restarted meanwhile, and a number alone would not show it: so what follows
// waits until a replay has. Without replay the view is gap until the next live frame.
// If its number goes on exactly, the engine passes for the same.
//
// O(1).
func (s *Stream) Reconnected() {
	s.stats.Reconnects++
	switch {
	case !s.open && !s.hasLast:
		return
	case !s.o.Replay:
		s.stats.Unchecked++
		s.unproven = true
		return
	}
	if !s.hasLast {
		// Nothing was applied by which to know the engine again. What is held will be in
		// the replay, if it is still of interest.
		s.stats.Dropped += uint64(s.held.drop())
		s.hasLive, s.end = false, 0
	}
	s.since, s.endHere = noNumber, 0
	s.stop()
	s.open = true
	s.ask()
}

// Deadline returns when Tick wants to be called, if at all. O(1).
func (s *Stream) Deadline() (time.Time, bool) {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if s.round.running {
		earlier(s.round.deadline)
	}
	if !s.retryAt.IsZero() {
		earlier(s.retryAt)
	}
	if s.o.StaleAfter > 0 && s.heard && !s.stale {
		earlier(s.heardAt.Add(s.o.StaleAfter))
	}
	return at, !at.IsZero()
}

// Tick does what has become due. Calling it too early or too often does no harm.
//
// O(held frames).
func (s *Stream) Tick() {
	now := s.o.Clock()
	if s.round.running && !now.Before(s.round.deadline) {
		s.stats.ReplaysIdle++
		s.step(Step{Action: StopReplay})
		s.ReplayEnded(s.rounds, errReplayIdle)
	}
	if !s.retryAt.IsZero() && !now.Before(s.retryAt) {
		s.ask()
	}
	if s.o.StaleAfter > 0 && s.heard && !s.stale && now.Sub(s.heardAt) >= s.o.StaleAfter {
		s.stale = true
	}
}
