package kvevents_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// model is an engine, its publisher, a network that loses, and a listener that takes
// the steps of a Stream and checks them.
type model struct {
	testing.TB
	s       *kvevents.Stream
	now     time.Time
	life    byte
	sent    []kvevents.Frame // of this life
	ring    int              // how many of them replays have
	replay  *kvevents.Step   // that runs
	replays bool             // there are any

	applied []kvevents.Frame // in this epoch
	from    uint64           // the cache's contents follow from the frames of this number on
	any     bool             // from is that of the first frame applied
	known   bool             // there is a frame by which to know the engine again
	heard   uint64           // one past the highest number of this life that came in any way
	here    uint64           // the same, on this connection
	live    uint64           // one past the number of the last live frame of what passes for this life
	ears    bool             // a live frame has come on this connection
}

func newModel(t testing.TB, o kvevents.StreamOptions) *model {
	m := &model{TB: t, now: time.Unix(1e9, 0), ring: 1 << 20, replays: o.Replay}
	o.Clock = func() time.Time { return m.now }
	var err error
	m.s, err = kvevents.NewStream(o)
	require.NoError(t, err)
	m.follow()
	return m
}

// empties reports whether a frame empties the engine's cache.
func empties(f kvevents.Frame) bool { return f.Seq%31 == 5 }

// publish has the engine send a batch, which arrives or is lost.
func (m *model) publish(arrives bool) {
	seq := uint64(len(m.sent))
	f := kvevents.Frame{Seq: seq, Payload: binary.BigEndian.AppendUint64([]byte{m.life}, seq)}
	m.sent = append(m.sent, f)
	if arrives && !m.passes(seq) {
		m.arrives(f)
		m.s.Live(f)
		m.follow()
	}
}

// passes reports whether nothing can tell the frame of number seq from the old life's:
// the new one goes on exactly where that was heard last, and there is no replay.
func (m *model) passes(seq uint64) bool {
	n := len(m.applied)
	return !m.replays && n > 0 && m.applied[n-1].Payload[0] != m.life && m.applied[n-1].Seq+1 == seq
}

func (m *model) arrives(f kvevents.Frame) {
	m.heard, m.here, m.live, m.ears = f.Seq+1, f.Seq+1, f.Seq+1, true
}

// garble has the engine send a batch which arrives broken.
func (m *model) garble() {
	m.publish(false)
	f := m.sent[len(m.sent)-1]
	if m.passes(f.Seq) {
		return
	}
	m.arrives(f)
	f.Payload = f.Payload[:len(f.Payload)-1]
	m.s.Garbled(f)
	m.follow()
}

// restart begins another life of the engine. The transport tells.
func (m *model) restart() {
	m.fail()
	m.life++
	m.sent, m.heard, m.here = nil, 0, 0
	m.reconnect()
}

// fail breaks off the replay that runs.
func (m *model) fail() {
	if r := m.replay; r != nil {
		m.replay = nil
		m.s.ReplayEnded(r.Round, errors.New("broken"))
		m.follow()
	}
}

func (m *model) reconnect() {
	if !m.known {
		m.heard, m.live = 0, 0
	}
	m.here, m.ears = 0, false
	m.s.Reconnected()
	m.follow()
}

func (m *model) reset() {
	fetching := m.s.View() == prefixindex.ViewResyncing || m.s.View() == prefixindex.ViewNever
	m.from = max(m.from, m.live)
	if n := len(m.applied); n > 0 {
		m.from = max(m.from, m.applied[n-1].Seq+1)
	}
	nowhere := m.live == 0 && (fetching || !m.known) // it cannot know where the engine is
	m.known = !nowhere
	m.any = nowhere || m.replays && m.s.Stats().Lost > 0 // what was given up may have been beyond what was applied
	m.s.Reset()
	m.applied, m.heard, m.here = nil, m.from, m.from
	m.follow()
}

// tick lets time pass.
func (m *model) tick(d time.Duration) {
	m.now = m.now.Add(d)
	m.s.Tick()
	m.follow()
}

// serve has the replay that runs bring what is not lost, up to most frames.
func (m *model) serve(most int, lost func(i int) bool) {
	r := m.replay
	if r == nil {
		return
	}
	for i := max(int(r.From), len(m.sent)-m.ring); i < len(m.sent) && most > 0; i++ {
		if lost(i) {
			continue
		}
		most--
		m.heard, m.here = max(m.heard, uint64(i)+1), max(m.here, uint64(i)+1)
		m.s.Replayed(r.Round, m.sent[i])
		m.follow()
		if m.replay != r {
			return // it was stopped, or another is wanted
		}
	}
}

// end says that the replay which runs has brought all.
func (m *model) end() {
	if r := m.replay; r != nil {
		m.replay = nil
		m.s.ReplayEnded(r.Round, nil)
		m.follow()
	}
}

// follow takes the steps, and checks them and what the view claims.
func (m *model) follow() {
	for {
		step, ok := m.s.Next()
		if !ok {
			break
		}
		switch step.Action {
		case kvevents.Begin:
			m.heard = m.here // before that it may have been another engine
			if !m.ears {
				m.live = 0
			}
			m.applied, m.from, m.any, m.known = nil, 0, false, false
		case kvevents.Apply:
			st := m.s.Stats()
			if n := len(m.applied); n > 0 {
				last := m.applied[n-1]
				require.Greater(m, step.Frame.Seq, last.Seq, "each number once, in order")
				if st.Lost+st.Unchecked == 0 {
					require.Equal(m, last.Seq+1, step.Frame.Seq)
					require.Equal(m, last.Payload[0], step.Frame.Payload[0], "one life in an epoch")
				}
			}
			m.applied, m.known = append(m.applied, step.Frame), true
			if m.any || empties(step.Frame) {
				m.from, m.any = step.Frame.Seq, false
			}
			if empties(step.Frame) {
				m.s.Emptied()
			}
		case kvevents.Replay:
			m.replay = &step
		case kvevents.StopReplay:
			m.replay = nil
		}
	}
	requireBalance(m, m.s.Stats())
	if m.s.View() != prefixindex.ViewLive {
		return
	}
	next := m.from
	for _, f := range m.applied {
		if f.Seq >= m.from {
			require.Equal(m, m.life, f.Payload[0], "live with a life that is over")
			require.Equal(m, next, f.Seq, "live with a hole")
			next++
		}
	}
	require.GreaterOrEqual(m, next, m.heard, "live without all that was heard of: %+v", m.s.Stats())
}

// settle lets everything arrive from now on, until the stream comes to rest.
func (m *model) settle() {
	m.publish(true)
	m.publish(true) // if the first went unnoticed
	for range 1000 {
		m.serve(len(m.sent), func(int) bool { return false })
		m.end()
		if at, ok := m.s.Deadline(); ok && m.replay == nil {
			m.tick(at.Sub(m.now))
		} else if !ok {
			break
		}
	}
	require.NotEqual(m, prefixindex.ViewResyncing, m.s.View())
	require.NotEmpty(m, m.applied)
	require.Equal(m, m.sent[len(m.sent)-1], m.applied[len(m.applied)-1])
}

// Whatever is lost, live or in replays: a view that is live has all that was heard of.
func TestLiveHasAllThatWasHeardOf(t *testing.T) {
	seeds := 3000
	if testing.Short() {
		seeds = 300
	}
	live := 0
	for seed := range seeds {
		if !t.Run("", func(t *testing.T) { live += loseAtRandom(t, uint64(seed)) }) {
			t.Fatal("seed", seed)
		}
	}
	require.Greater(t, live, 10*seeds)
}

func loseAtRandom(t *testing.T, seed uint64) (live int) {
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	m := newModel(t, kvevents.StreamOptions{
		Replay:     r.IntN(4) > 0,
		Loss:       kvevents.Loss(r.IntN(2)),
		HeldFrames: pick(1, 2, 3, 4, 1000),
	})
	m.ring = pick(3, 10, 1000)
	liveLoss, replayLoss, restarts := pick(0, 5, 20, 40), pick(0, 5, 40), pick(0, 0, 3)
	lost := func(int) bool { return r.IntN(100) < replayLoss }
	for range 100 {
		switch n := r.IntN(100); {
		case n < 3:
			m.garble()
		case n < 50:
			m.publish(r.IntN(100) >= liveLoss)
		case n < 80:
			m.serve(1+r.IntN(20), lost)
			switch r.IntN(3) {
			case 0:
				m.end()
			case 1:
				m.fail()
			}
		case n < 90:
			m.tick(time.Duration(r.IntN(4)) * time.Second)
		case n < 92:
			m.reconnect()
		case n < 92+restarts:
			m.restart()
		case n == 99 && restarts > 0:
			m.reset()
		}
		if m.s.View() == prefixindex.ViewLive {
			live++
		}
	}
	m.settle()
	return live
}
