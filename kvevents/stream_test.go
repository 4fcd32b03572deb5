package kvevents_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

var viewNames = map[prefixindex.View]string{
	prefixindex.ViewNever: "never", prefixindex.ViewLive: "live", prefixindex.ViewGap: "gap",
	prefixindex.ViewResyncing: "resyncing", prefixindex.ViewStale: "stale",
}

// play gives a stream what a line of words says and returns the steps that follow, as
// words, and after them its view.
//
//	5       live frame 5, of the engine's first life; 5b is of its second
//	r5      frame 5 from the replay that runs, r5b of the second life
//	end     that was all; fail: the replay ended with an error
//	+3s     time passes
//	conn    the connection came back
//	g5      frame 5, live, which cannot be read
//	reset, emptied, damaged
//	old:r5  frame 5 from the replay before
type player struct {
	*testing.T
	s     *kvevents.Stream
	now   time.Time
	round uint64
}

func newPlayer(t *testing.T, o kvevents.StreamOptions) *player {
	t.Helper()
	p := &player{T: t, now: time.Unix(1e9, 0)}
	o.Clock = func() time.Time { return p.now }
	var err error
	p.s, err = kvevents.NewStream(o)
	require.NoError(t, err)
	return p
}

func (p *player) play(line string) string {
	p.Helper()
	out := p.steps(nil)
	for word := range strings.FieldsSeq(line) {
		round := p.round
		if rest, ok := strings.CutPrefix(word, "old:"); ok {
			word = rest
			round--
		}
		switch {
		case word == "end":
			p.s.ReplayEnded(round, nil)
		case word == "fail":
			p.s.ReplayEnded(round, errors.New("refused"))
		case word == "conn":
			p.s.Reconnected()
		case word == "emptied":
			p.s.Emptied()
		case word == "damaged":
			p.s.Damaged()
		case word == "reset":
			before := p.s.Stats().Discarded
			p.s.Reset()
			out = append(out, fmt.Sprintf("dropped:%d", p.s.Stats().Discarded-before))
		case word[0] == '+':
			d, err := time.ParseDuration(word[1:])
			require.NoError(p, err)
			p.now = p.now.Add(d)
			p.s.Tick()
		case word[0] == 'r':
			p.s.Replayed(round, p.frame(word[1:]))
		case word[0] == 'g':
			p.s.Garbled(p.frame(word[1:]))
		default:
			p.s.Live(p.frame(word))
		}
		out = p.steps(out)
		requireBalance(p, p.s.Stats())
	}
	return strings.Join(append(out, viewNames[p.s.View()]), " ")
}

// requireBalance fails if a frame is unaccounted for.
func requireBalance(t testing.TB, st kvevents.StreamStats) {
	t.Helper()
	require.Equal(t, st.Frames+st.Replayed, st.Applied+uint64(st.Held)+st.Invalid+st.Duplicates+st.Garbled+
		st.Overflowed+st.Dropped+st.LateReplayed+st.Discarded, "%+v", st)
}

// frame makes the frame of a word such as 5 or 5b.
func (p *player) frame(word string) kvevents.Frame {
	seq, err := strconv.ParseUint(strings.TrimRight(word, "abc"), 10, 64)
	require.NoError(p, err)
	return kvevents.Frame{Seq: seq, Payload: []byte(word)}
}

func (p *player) steps(out []string) []string {
	for {
		step, ok := p.s.Next()
		if !ok {
			return out
		}
		switch step.Action {
		case kvevents.Apply:
			out = append(out, string(step.Frame.Payload))
		case kvevents.Begin:
			out = append(out, "begin")
		case kvevents.Replay:
			p.round = step.Round
			out = append(out, fmt.Sprintf("replay:%d", step.From))
		case kvevents.StopReplay:
			out = append(out, "stop")
		}
	}
}

func TestStream(t *testing.T) {
	plain := kvevents.StreamOptions{}
	clears := kvevents.StreamOptions{Loss: kvevents.LossClear}
	replay := kvevents.StreamOptions{Replay: true, ReplayIdle: 5 * time.Second}
	replayClear := kvevents.StreamOptions{Replay: true, Loss: kvevents.LossClear}
	tight := kvevents.StreamOptions{Replay: true, HeldFrames: 2}
	narrow := kvevents.StreamOptions{Replay: true, HeldBytes: 3}
	stale := kvevents.StreamOptions{StaleAfter: time.Minute}
	type is = kvevents.StreamStats
	for _, c := range []struct {
		name string
		o    kvevents.StreamOptions
		do   []string // words given, then words expected, and so on
		want is       // only the counters that are not 0 here are compared
	}{
		{"from the first", plain, []string{"0 1 2", "0 1 2 live"}, is{Frames: 3}},
		{"nothing heard", plain, []string{"", "never"}, is{}},
		{"late join without replay", plain, []string{"57 58", "57 58 gap"}, is{Gaps: 1, Missing: 57, Lost: 57}},
		{"late join without replay, clear", clears, []string{"57 58", "57 58 gap"}, is{Lost: 57}},
		{"gap without replay", plain, []string{"0 1", "0 1 live", "4", "4 gap", "5", "5 gap"}, is{Gaps: 1, Missing: 2, Lost: 2}},
		{"gap without replay, clear", clears, []string{"0 1", "0 1 live", "4", "begin 4 gap"}, is{Lost: 2}},
		{"restart without replay", plain, []string{"0 1 2", "0 1 2 live", "0b 1b", "begin 0b 1b live"}, is{Restarts: 1}},
		{"restart heals a gap", plain, []string{"5", "5 gap", "0b", "begin 0b live"}, is{Restarts: 1, Lost: 5}},
		{"restart heard late, without replay", plain, []string{"0 1 2 3", "0 1 2 3 live", "2b", "begin 2b gap"}, is{Restarts: 1, Missing: 2, Lost: 2}},
		{"the last frame twice", plain, []string{"0 1 1 2", "0 1 2 live"}, is{Duplicates: 1}},
		{"the last number from another life", plain, []string{"0 1", "0 1 live", "1b", "begin 1b gap"}, is{Restarts: 1}},
		{"the mark of an end is no number", plain, []string{"0 18446744073709551615 1", "0 1 live"}, is{Invalid: 1}},
		{"the mark of an end is no number of a replay either", replay, []string{"r0 r18446744073709551615 r1 end", "replay:0 0 1 live", "2", "2 live"}, is{Invalid: 1}},
		{"emptied", plain, []string{"3", "3 gap", "4 emptied", "4 live"}, is{}},
		{"damaged", plain, []string{"0 damaged", "0 gap"}, is{}},
		{"silence", stale, []string{"+2m", "never", "0 +59s", "0 live", "+1s", "stale", "1", "1 live"}, is{}},

		{"replay of all there is", replay, []string{"", "replay:0 never", "r0 r1 r2 end", "0 1 2 live", "3", "3 live"}, is{Recovered: 3}},
		{"replay of nothing", replay, []string{"end", "replay:0 never", "0 1", "0 1 live"}, is{Gaps: 0}},
		{"live frames wait for the first replay", replay, []string{"3 4", "replay:0 resyncing", "r0 r1 r2", "0 1 2 resyncing", "r3", "3 4 stop live"}, is{Gaps: 1, Missing: 3, Recovered: 3}},
		{"a replay that overtakes", replay, []string{"", "replay:0 never", "r0 r1 r2 r3 end", "0 1 2 3 live", "1 2 3 4", "4 live"}, is{Duplicates: 3, Gaps: 0}},
		{"a replay that overtook another life", replay, []string{"r0 r1 r2 r3 end", "replay:0 0 1 2 3 live", "1b", "begin replay:0 resyncing", "r0b r1b", "0b 1b stop live"}, is{HiddenRestarts: 1}},
		{"late join with replay", replay, []string{"57", "replay:0 resyncing", "r0 r1 r2 end", "0 1 2 replay:2 resyncing"}, is{}},
		{"a frame that cannot be read is asked for again", replay, []string{"end 0 1", "replay:0 0 1 live", "g2", "replay:1 resyncing", "3", "resyncing", "r1 r2 r3", "2 3 stop live"}, is{Recovered: 1}},
		{"a frame that cannot be read, and no later one", replay, []string{"end 0 g1", "replay:0 0 replay:0 resyncing", "r0 r1", "1 resyncing", "end", "live"}, is{Recovered: 1}},
		{"a frame that cannot be read, among those that wait", replay, []string{"end 0 2 g3 4", "replay:0 0 replay:0 resyncing", "r0 r1 r2", "1 2 resyncing", "r3 r4", "3 4 stop live"}, is{Recovered: 2}},
		{"a frame that cannot be read, the first after a reset", replay, []string{"end 0 reset g1", "replay:0 0 dropped:0 replay:0 resyncing", "r0 r1 end", "1 live"}, is{Garbled: 1}},
		{"a frame that cannot be read, the first of all after a reset", replay, []string{"reset g1 2", "replay:0 dropped:0 stop 1 2 live"}, is{Replays: 1}},
		{"a frame that cannot be read, and no replay", plain, []string{"0 g1", "0 1 live"}, is{}},
		{"history is partial", replay, []string{"r40 r41 end", "replay:0 40 41 gap", "42", "42 gap"}, is{Lost: 40}},
		{"history is partial and live frames wait", replay, []string{"42", "replay:0 resyncing", "r40 r41 r42", "40 41 42 stop gap"}, is{Lost: 40}},
		{"history begins after live frames", replay, []string{"42 43", "replay:0 resyncing", "r44", "42 43 44 resyncing", "end", "gap"}, is{Lost: 42}},

		{"gap", replay, []string{"end 0 1", "replay:0 0 1 live", "4 5", "replay:1 resyncing", "r1 r2 r3", "2 3 resyncing", "r4", "4 5 stop live"}, is{Gaps: 1, Missing: 2, Recovered: 2, Lost: 0}},
		{"gap, end before the live frame", replay, []string{"end 0 1", "replay:0 0 1 live", "4 5", "replay:1 resyncing", "r1 r2 r3 end", "2 3 4 5 live"}, is{Recovered: 2}},
		{"a removal waits for the store before it", replay, []string{"end 0 2", "replay:0 0 replay:0 resyncing", "r0 r1 end", "1 2 live"}, is{}},
		{"older frames than asked for", replay, []string{"end 0 1 3", "replay:0 0 1 replay:1 resyncing", "r0 r1 r2 r3", "2 3 stop live"}, is{Duplicates: 3}},
		{"interior hole", replay, []string{"end 0 5", "replay:0 0 replay:0 resyncing", "r0 r1 r3", "1 resyncing", "r4", "stop replay:1 resyncing", "old:r5 r1 r2 r3", "2 3 4 5 stop live"}, is{ReplayHoles: 1, LateReplayed: 1}},
		{"interior hole, and the end is lost before what comes live", replay, []string{"end 0 5", "replay:0 0 replay:0 resyncing", "r0 r1 r3 fail", "1 replay:1 resyncing", "r1 r2 r3 fail", "2 3 replay:3 resyncing", "r3 r4 r5", "4 5 stop live"}, is{ReplayHoles: 1}},
		{"interior hole, and the engine is not heard live", replay, []string{"r0 r2 r3", "replay:0 0 resyncing", "end", "replay:0 resyncing"}, is{ReplayHoles: 1}},
		{"permanent hole", replay, []string{
			"end 0 4", "replay:0 0 replay:0 resyncing", "r0 r1 r3", "1 stop replay:1 resyncing", "r1 r3", "stop replay:1 resyncing",
			"r1 r3", "stop 3 4 gap", "5", "5 gap",
		}, is{Lost: 1, ReplayHoles: 3}},
		{"permanent holes", replay, []string{
			"end 0 7", "replay:0 0 replay:0 resyncing", "r0 r2 r4 r6", "stop replay:0 resyncing", "r0 r2 r4 r5", "stop 2 4 5 6 7 gap",
		}, is{Lost: 2}},
		{"permanent hole, and others after what replays reach", replay, []string{
			"end 0 3 5", "replay:0 0 replay:0 resyncing", "r0 r2 end", "replay:0 resyncing", "r0 r2 end", "2 3 replay:3 resyncing", "r3 r4 r5", "4 5 stop gap",
		}, is{Lost: 1}},
		{"permanent hole, clear", replayClear, []string{"end 0 2", "replay:0 0 replay:0 resyncing", "r0 r2 r0 r2", "stop replay:0 stop begin 2 gap"}, is{Lost: 1}},
		{"replay ends early", replay, []string{
			"end 0 2", "replay:0 0 replay:0 resyncing", "r0 end", "resyncing", "+500ms r0 end", "replay:0 resyncing",
			"+999ms", "resyncing", "+1ms r0 end", "replay:0 2 gap",
		}, is{Lost: 1, Replays: 4}},
		{"replay repeats itself and never ends", replay, []string{"end 0 1 3", "replay:0 0 1 replay:1 resyncing", "r1 +3s r1 +3s", "stop resyncing"}, is{ReplaysFailed: 1, ReplaysIdle: 1}},
		{"replay never ends, but brings all", replay, []string{"end 0 1 3", "replay:0 0 1 replay:1 resyncing", "r1 r2 +5s", "2 stop 3 live"}, is{ReplaysFailed: 1, ReplaysIdle: 1}},
		{"replay never comes", replay, []string{
			"end 0 2 3", "replay:0 0 replay:0 resyncing", "+5s", "stop resyncing", "+1s +5s", "replay:0 stop resyncing",
			"4 +1s +4s", "replay:0 resyncing", "+1s", "stop 2 3 4 gap", "5", "5 gap",
		}, is{Lost: 1, ReplaysFailed: 3}},
		{"replay is refused, at the start", replay, []string{"fail", "replay:0 never", "+500ms fail", "replay:0 never", "+1s fail", "replay:0 never", "0 1", "0 1 live"}, is{ReplaysFailed: 3, Lost: 0}},
		{"replay is refused, and holes are many", replay, []string{
			"fail", "replay:0 never", "+500ms fail", "replay:0 never", "2 3 6 8", "resyncing", "+1s", "replay:0 resyncing", "fail", "2 3 6 8 gap",
		}, is{Lost: 5, Gaps: 3, Missing: 5}},
		{"progress is tried again at once", replay, []string{"end 0 4", "replay:0 0 replay:0 resyncing", "r0 r1 fail", "1 replay:1 resyncing", "r1 r2 fail", "2 replay:2 resyncing", "r2 r3 end", "3 4 live"}, is{}},
		{"frames of a replay that was given up", replay, []string{"end 0 2", "replay:0 0 replay:0 resyncing", "+5s +1s", "stop replay:0 resyncing", "old:r0 old:r1 r0 r1 r2", "1 2 stop live"}, is{LateReplayed: 2}},
		{"replay comes after the gap was given up", replay, []string{"end 0 2", "replay:0 0 replay:0 resyncing", "fail +1s fail", "replay:0 resyncing", "+1s fail", "replay:0 2 gap", "r1", "gap"}, is{LateReplayed: 1}},

		{"restart with replay", replay, []string{"end 0 1", "replay:0 0 1 live", "0b", "begin 0b live"}, is{Restarts: 1}},
		{"restart heard late", replay, []string{"end 0 1 2", "replay:0 0 1 2 live", "1b", "begin replay:0 resyncing", "r0b r1b", "0b 1b stop live"}, is{Restarts: 1, Lost: 0}},
		{"restart hidden in a gap", replay, []string{"end 0 1", "replay:0 0 1 live", "3b", "replay:1 resyncing", "r1b", "stop begin replay:0 resyncing", "r0b r1b r2b r3b", "0b 1b 2b 3b resyncing", "end", "live"}, is{HiddenRestarts: 1}},
		{"restart hidden between frames that wait", replay, []string{"end 0 1", "replay:0 0 1 live", "3 9b", "replay:1 resyncing", "r1b", "stop begin replay:0 resyncing", "r0b r3b r9b", "0b stop replay:0 resyncing"}, is{HiddenRestarts: 1, Dropped: 3}},
		{"restart hidden while nothing was applied", replay, []string{"3 4", "replay:0 resyncing", "r0b r1b r2b", "0b 1b 2b resyncing", "r3b", "stop begin replay:0 resyncing", "r0b r1b r2b r3b r4b end", "0b 1b 2b 3b 4b live"}, is{HiddenRestarts: 1, Dropped: 3}},
		{"restart while frames wait", replay, []string{"end 0 1 3", "replay:0 0 1 replay:1 resyncing", "0b", "stop begin 0b live", "r2", "live"}, is{Restarts: 1, Dropped: 1, LateReplayed: 1}},
		{"engine restarted and has less than we", replay, []string{"end 0 1", "replay:0 0 1 live", "5b", "replay:1 resyncing", "end", "replay:1 resyncing", "end", "begin replay:0 resyncing", "r4b r5b end", "4b 5b gap"}, is{Unverified: 1}},
		{"the last frame applied was lost on the way", replay, []string{"end 0 3", "replay:0 0 replay:0 resyncing", "r1", "stop replay:0 resyncing", "r0 r1 r2 r3", "1 2 3 stop live"}, is{Unverified: 0}},
		{"replay older than the ring", replay, []string{"end 0 90", "replay:0 0 replay:0 resyncing", "r50", "stop replay:0 resyncing", "r50", "stop begin replay:0 resyncing", "r50 r51 end", "50 51 replay:51 resyncing", "r51 r52 fail", "52 replay:52 resyncing"}, is{Unverified: 1, Lost: 50}},
		{"a replay goes on past frames that only a replay brought", replay, []string{"r0 r2 end", "replay:0 0 replay:0 resyncing", "r0 r1 r2", "1 2 resyncing", "r3 end", "3 live"}, is{ReplayHoles: 1}},
		{"a replay that broke off goes on past its frames", replay, []string{"r0 r1 r4 fail", "replay:0 0 1 replay:1 resyncing", "r1 r2 r3 r4", "2 3 4 resyncing", "end", "live"}, is{}},
		{"a replay goes on past frames from before the connection was lost", replay, []string{"end 0 1 3", "replay:0 0 1 replay:1 resyncing", "conn", "stop replay:1 resyncing", "r1 r2 r3", "2 3 resyncing", "r4 r5 end", "4 5 live"}, is{}},
		{"what only a replay brought of a life that is over goes backwards too", replay, []string{"r7 r8 end", "replay:0 7 8 gap", "conn", "replay:8 resyncing", "1b", "stop begin replay:0 resyncing", "r0b r1b", "0b 1b stop live"}, is{HiddenRestarts: 1}},
		{"what waits of a life that is over does not pass for what comes live", replay, []string{"r0 r1 r3 fail", "replay:0 0 1 replay:1 resyncing", "conn 3b", "stop replay:1 stop begin replay:0 resyncing", "r0b r1b r2b r3b", "0b 1b 2b 3b stop live"}, is{HiddenRestarts: 1, Dropped: 1}},
		{"frames that waited were progress", tight, []string{"end 0 2 3 4", "replay:0 0 replay:0 resyncing", "r0 end", "resyncing", "+500ms", "replay:0 resyncing", "r0 end +1s r0 r1 end", "replay:0 1 2 3 replay:3 resyncing", "r3 r4", "4 resyncing", "end", "live"}, is{}},
		{"a new epoch knows what was heard before it", replay, []string{"end 0 1 4", "replay:0 0 1 replay:1 resyncing", "r2", "stop replay:1 resyncing", "r2", "stop begin replay:0 resyncing", "r1 r2 end", "1 2 replay:2 resyncing", "r2 r3 r4 end", "3 4 gap"}, is{Unverified: 1, Lost: 1}},
		{"replays that are never what came live", replay, []string{
			"end 0 2", "replay:0 0 replay:0 resyncing", "r0b", "stop begin replay:0 resyncing", "3 r0 r1 r2 r3b", "0 1 2 stop begin replay:0 resyncing",
			"4 r0 r1 r2 r3 r4b", "0 1 2 3 stop begin resyncing", "+499ms", "resyncing", "5 +1ms", "replay:0 resyncing",
			"r0 r1 r2 r3 r4 r5b", "0 1 2 3 4 stop begin resyncing", "+999ms", "resyncing", "+1ms", "replay:0 resyncing", "r0 r1 r2 r3 r4 r5 end", "0 1 2 3 4 5 live",
		}, is{HiddenRestarts: 4}},
		{"reconnected, the same engine", replay, []string{"end 0 1 conn", "replay:0 0 1 replay:1 resyncing", "2", "resyncing", "r1 r2", "2 stop live"}, is{Reconnects: 1}},
		{"reconnected, another engine", replay, []string{"end 0 1 conn", "replay:0 0 1 replay:1 resyncing", "r1b", "stop begin replay:0 resyncing", "r0b r1b end", "0b 1b live", "2b", "2b live"}, is{HiddenRestarts: 1}},
		{"reconnected while frames wait", replay, []string{"end 0 1 3", "replay:0 0 1 replay:1 resyncing", "r1 conn 4b", "stop replay:1 resyncing", "r1b", "stop begin replay:0 resyncing"}, is{HiddenRestarts: 1}},
		{"reconnected, and no replay", replay, []string{"end 0 1 conn", "replay:0 0 1 replay:1 resyncing", "fail +1s fail", "replay:1 resyncing", "+1s", "replay:1 resyncing", "2", "resyncing", "fail", "2 gap", "emptied", "gap", "3 emptied", "3 live"}, is{Unchecked: 1}},
		{"reconnected, another engine, and no replay", replay, []string{"end 0 1 conn", "replay:0 0 1 replay:1 resyncing", "fail +1s fail +1s fail", "replay:1 replay:1 gap", "2b", "2b gap", "4b", "replay:2 resyncing", "r2b r3b r4b", "3b 4b stop gap"}, is{Unchecked: 1}},
		{"reconnected, without replay", plain, []string{"conn", "never", "0 1 conn", "0 1 gap", "2", "2 live"}, is{Reconnects: 2, Unchecked: 1}},
		{"reconnected, without replay, and some were missed", plain, []string{"0 conn 2 3", "0 2 3 gap"}, is{Lost: 1}},
		{"reconnected, another engine, without replay", plain, []string{"0 1 2 conn", "0 1 2 gap", "0b", "begin 0b live"}, is{Restarts: 1}},
		{"reconnected, without replay, and emptied", plain, []string{"2 conn", "2 gap", "3 emptied", "3 live"}, is{}},
		{"reconnected, without replay, and reset", plain, []string{"0 conn reset", "0 dropped:0 live", "1", "1 live"}, is{}},

		{"no room to wait", tight, []string{"end 0 2 3 4 5", "replay:0 0 replay:0 resyncing", "r0 r1 r2", "1 2 3 resyncing", "r3 r4 r5", "4 5 resyncing", "end", "live"}, is{Overflowed: 2, Lost: 0}},
		{"no room to wait, asked again", tight, []string{"end 0 2 3 4 5", "replay:0 0 replay:0 resyncing", "r0 r1 end", "1 2 3 replay:3 resyncing", "6", "resyncing", "r3 r4 r5 r6", "4 5 6 stop live"}, is{Overflowed: 2, Lost: 0}},
		{"no room to wait, given up", tight, []string{"fail", "replay:0 never", "+500ms fail", "replay:0 never", "+1s", "replay:0 never", "0 1 2 3", "resyncing", "fail", "0 1 replay:1 resyncing", "fail +500ms", "replay:1 resyncing", "fail +1s", "replay:1 resyncing", "fail", "gap", "4", "4 gap"}, is{Overflowed: 2, Lost: 2}},
		{"no room to wait, and early frames come late", tight, []string{
			"end 0 20 21", "replay:0 0 replay:0 resyncing", "r0 r2 r3 r4 r5 r6 end", "replay:0 resyncing", "r0 r2 r3 r4 r5 r6 end",
			"2 3 replay:3 resyncing", "r3 r4 r5 r6 r7 r8 r9 end", "4 5 6 7 8 9 replay:9 resyncing",
		}, is{Lost: 1}},
		{"no room for bytes", narrow, []string{"10 11", "replay:0 resyncing", "fail +500ms fail", "replay:0 resyncing", "+1s fail", "replay:0 10 gap"}, is{Overflowed: 1}},

		{"reset", plain, []string{"0 1 reset", "0 1 dropped:0 live", "2", "2 live", "4", "4 gap"}, is{Lost: 1}},
		{"reset, and numbers missing after it", plain, []string{"0 1 reset", "0 1 dropped:0 live", "7", "7 gap"}, is{Lost: 5}},
		{"reset heals a gap", plain, []string{"0 2 reset", "0 2 dropped:0 live"}, is{Lost: 1}},
		{"reset while frames wait", replay, []string{"end 0 2 3", "replay:0 0 replay:0 resyncing", "reset", "dropped:2 stop live", "r1", "live", "4 5", "4 5 live", "7", "replay:5 resyncing"}, is{Discarded: 2}},
		{"reset, and numbers missing after it, with replay", replay, []string{"end 0 2 3 reset", "replay:0 0 replay:0 dropped:2 stop live", "6", "replay:3 resyncing", "r3 r4 r5 r6", "4 5 6 stop live"}, is{}},
		{"reset, then another engine whose numbers go on", replay, []string{"end 0 1 reset conn", "replay:0 0 1 dropped:0 replay:1 resyncing", "2b r1b", "stop begin replay:0 resyncing", "r0b r1b r2b", "0b 1b 2b resyncing", "end", "live"}, is{HiddenRestarts: 1}},
		{"reset behind what a replay brought", replay, []string{"r0 r1 r2 end 0 reset", "replay:0 0 1 2 dropped:0 live", "1 2 3", "3 live"}, is{Duplicates: 3}},
		{"reset forgets what only a replay knew of", replay, []string{"end 0 1 conn", "replay:0 0 1 replay:1 resyncing", "r1 r3 reset", "dropped:1 stop live", "g2", "replay:1 resyncing", "r1 r2 end", "2 live"}, is{Garbled: 1}},
		{"reset behind a frame that was too large to wait", narrow, []string{"1000 fail +500ms fail", "replay:0 replay:0 resyncing", "+1s fail", "replay:0 gap", "reset 1002", "dropped:0 replay:1000 resyncing"}, is{Overflowed: 2, Lost: 1001}},
		{"reset in the first replay", replay, []string{"r0 r1 reset", "replay:0 0 1 dropped:0 stop live", "5 6", "5 6 live"}, is{}},
		{"reset after the first replay", replay, []string{"r0 r1 end reset", "replay:0 0 1 dropped:0 live", "1 2", "2 live", "4", "replay:2 resyncing"}, is{Duplicates: 1}},
		{"reset before anything", replay, []string{"reset", "replay:0 dropped:0 stop never", "8 9", "8 9 live"}, is{Lost: 0}},
		{"reset, then a restart", replay, []string{"end 0 1 2 reset", "replay:0 0 1 2 dropped:0 live", "1b", "begin replay:0 resyncing"}, is{Restarts: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlayer(t, c.o)
			for i := 0; i < len(c.do); i += 2 {
				require.Equal(t, c.do[i+1], p.play(c.do[i]), "at %q", c.do[i])
			}
			got := p.s.Stats()
			for _, n := range []struct {
				name      string
				want, got uint64
			}{
				{"Frames", c.want.Frames, got.Frames},
				{"Invalid", c.want.Invalid, got.Invalid},
				{"Duplicates", c.want.Duplicates, got.Duplicates},
				{"Gaps", c.want.Gaps, got.Gaps},
				{"Missing", c.want.Missing, got.Missing},
				{"Recovered", c.want.Recovered, got.Recovered},
				{"Lost", c.want.Lost, got.Lost},
				{"Dropped", c.want.Dropped, got.Dropped},
				{"Overflowed", c.want.Overflowed, got.Overflowed},
				{"Restarts", c.want.Restarts, got.Restarts},
				{"HiddenRestarts", c.want.HiddenRestarts, got.HiddenRestarts},
				{"Unverified", c.want.Unverified, got.Unverified},
				{"Replays", c.want.Replays, got.Replays},
				{"ReplaysFailed", c.want.ReplaysFailed, got.ReplaysFailed},
				{"ReplaysIdle", c.want.ReplaysIdle, got.ReplaysIdle},
				{"ReplayHoles", c.want.ReplayHoles, got.ReplayHoles},
				{"LateReplayed", c.want.LateReplayed, got.LateReplayed},
				{"Reconnects", c.want.Reconnects, got.Reconnects},
				{"Unchecked", c.want.Unchecked, got.Unchecked},
				{"Garbled", c.want.Garbled, got.Garbled},
				{"Discarded", c.want.Discarded, got.Discarded},
			} {
				if n.want != 0 {
					require.Equal(t, n.want, n.got, n.name)
				}
			}
			if c.want.Lost == 0 && c.want.Unverified == 0 && !strings.Contains(strings.Join(c.do, " "), "gap") {
				require.Zero(t, got.Lost)
			}
		})
	}
}

// Two ranks have numbers of their own: one Stream each.
func TestStreamsOfTwoRanks(t *testing.T) {
	a, b := newPlayer(t, kvevents.StreamOptions{}), newPlayer(t, kvevents.StreamOptions{})
	require.Equal(t, "0 1 2 live", a.play("0 1 2"))
	require.Equal(t, "0 live", b.play("0"))
	require.Equal(t, "3 live", a.play("3"))
	require.Equal(t, "1 live", b.play("1"))
}

// A frame that empties the cache was queued with a later one, behind a loss: the loss
// stands.
func TestEmptiedBeforeALoss(t *testing.T) {
	p := newPlayer(t, kvevents.StreamOptions{Replay: true})
	p.play("end 0 1 3 6")
	for p.s.Stats().Lost == 0 {
		p.s.Replayed(p.round, p.frame("1"))
		p.s.Replayed(p.round, p.frame("7"))
		p.s.ReplayEnded(p.round, nil)
		for p.s.Stats().Lost == 0 {
			if step, ok := p.s.Next(); !ok {
				break
			} else if step.Action == kvevents.Replay {
				p.round = step.Round
			}
		}
	}
	var applied []uint64
	for {
		step, ok := p.s.Next()
		if !ok {
			break
		}
		if step.Action != kvevents.Apply {
			continue
		}
		applied = append(applied, step.Frame.Seq)
		if step.Frame.Seq == 3 {
			p.s.Emptied()
		}
	}
	require.Equal(t, []uint64{3, 6, 7}, applied)
	require.Equal(t, prefixindex.ViewGap, p.s.View())
	p.play("8 emptied")
	require.Equal(t, prefixindex.ViewLive, p.s.View())
	require.Equal(t, "9 gap", p.play("9 damaged emptied"))
}

func TestStreamDeadline(t *testing.T) {
	p := newPlayer(t, kvevents.StreamOptions{Replay: true, ReplayIdle: 5 * time.Second, StaleAfter: time.Minute})
	in := func() time.Duration {
		at, ok := p.s.Deadline()
		if !ok {
			return -1
		}
		return at.Sub(p.now)
	}
	require.Equal(t, 5*time.Second, in())
	p.play("fail")
	require.Equal(t, 500*time.Millisecond, in())
	p.play("+500ms end")
	require.EqualValues(t, -1, in())
	p.play("0")
	require.Equal(t, time.Minute, in())
	p.play("2 +1s")
	require.Equal(t, 4*time.Second, in())
	p.play("r0 r1 r2 +2m")
	require.EqualValues(t, -1, in())
}

func TestStreamOptions(t *testing.T) {
	for _, c := range []struct {
		o    kvevents.StreamOptions
		want string
	}{
		{kvevents.StreamOptions{Loss: 2}, "Loss is 2, want 0 or 1"},
		{kvevents.StreamOptions{HeldFrames: -1}, "HeldFrames is -1, want 0 to 16777216"},
		{kvevents.StreamOptions{HeldBytes: -1}, "HeldBytes is -1"},
		{kvevents.StreamOptions{ReplayIdle: -1}, "ReplayIdle is -1ns"},
		{kvevents.StreamOptions{ReplayAttempts: 101}, "ReplayAttempts is 101, want 0 to 100"},
		{kvevents.StreamOptions{ReplayBackoff: time.Hour}, "ReplayBackoff is 1h0m0s, want 0 to 30s"},
		{kvevents.StreamOptions{StaleAfter: -1}, "StaleAfter is -1ns"},
	} {
		_, err := kvevents.NewStream(c.o)
		require.ErrorContains(t, err, c.want)
	}
}
