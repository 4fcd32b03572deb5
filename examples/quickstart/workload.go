package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// workload is agents at work. A session belongs to a user and is of a kind; all of one
// kind share a system prompt. Each turn sends the whole conversation so far and adds
// what the agent read in between.
type workload struct {
	kinds        int // kinds of agents
	systemTokens int // of each kind's system prompt
	users        int
	sessions     int
	turns        int // of each session
	turnTokens   int // added by a turn, on average
	replyTokens  int
	span         time.Duration // in which the sessions begin
	think        time.Duration // from a reply to the next turn, on average
}

type session struct {
	user    int
	name    string
	begin   time.Duration
	opening []uint32 // system prompt and first message
	turns   [][]uint32
	thinks  []time.Duration
}

// draw makes the sessions of a workload: the same for the same seed.
func (w *workload) draw(seed uint64) []session {
	rnd := rand.New(rand.NewPCG(seed, 0))
	tokens := func(n int) []uint32 {
		t := make([]uint32, n)
		for i := range t {
			t[i] = rnd.Uint32N(100_000)
		}
		return t
	}
	around := func(mean int) int { return mean/2 + rnd.IntN(mean+1) }

	systems := make([][]uint32, w.kinds)
	for k := range systems {
		systems[k] = tokens(w.systemTokens)
	}
	sessions := make([]session, w.sessions)
	for i := range sessions {
		s := &sessions[i]
		s.user = rnd.IntN(w.users)
		s.name = "session " + strconv.Itoa(i)
		s.begin = time.Duration(rnd.Int64N(int64(w.span)))
		s.opening = append(tokens(0), systems[rnd.IntN(w.kinds)]...)
		for range w.turns {
			s.turns = append(s.turns, tokens(around(w.turnTokens)))
			s.thinks = append(s.thinks, time.Duration(around(int(w.think))))
		}
	}
	return sessions
}

// serveFunc sends one prompt of one user's session to some engine.
type serveFunc func(ctx context.Context, user int, session string, prompt []uint32, maxTokens int) (reply, error)

// play lives through the sessions, all at once, and returns the replies.
func (w *workload) play(ctx context.Context, sessions []session, serve serveFunc) ([]reply, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		replies []reply
		failed  error
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range sessions {
		wg.Go(func() {
			s := &sessions[i]
			time.Sleep(s.begin)
			prompt := append([]uint32(nil), s.opening...)
			for t := range s.turns {
				prompt = append(prompt, s.turns[t]...)
				rep, err := serve(ctx, s.user, s.name, prompt, w.replyTokens)
				mu.Lock()
				if err != nil && failed == nil {
					failed = err
					cancel()
				}
				replies = append(replies, rep)
				mu.Unlock()
				if err != nil {
					return
				}
				prompt = append(prompt, enginetest.Tokenize(rep.text)...)
				time.Sleep(s.thinks[t])
			}
		})
	}
	wg.Wait()
	return replies, failed
}
