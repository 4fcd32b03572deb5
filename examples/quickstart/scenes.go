package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/picker"
)

// scene is a fresh fleet of two with a router, and a supply of tokens.
type scene struct {
	*router
	rnd *rand.Rand
}

func newScene(nw network, maxRunning int) (*scene, error) {
	o := engineOptions()
	o.MaxRunning = maxRunning
	f, err := startFleet(2, o, nw)
	if err != nil {
		return nil, err
	}
	r, err := newRouter(f, seed)
	if err != nil {
		f.close()
		return nil, err
	}
	return &scene{router: r, rnd: rand.New(rand.NewPCG(seed, 0))}, nil
}

func (s *scene) close() {
	s.router.close()
	s.fleet.close()
}

func (s *scene) tokens(n int) []uint32 {
	t := make([]uint32, n)
	for i := range t {
		t[i] = s.rnd.Uint32N(100_000)
	}
	return t
}

// warm sends prompts to one engine, past the picker, and waits for what it publishes.
func (s *scene) warm(ctx context.Context, engine int, prompts ...[]uint32) error {
	for _, p := range prompts {
		if _, err := s.fleet.complete(ctx, engine, p, 1, nil); err != nil {
			return err
		}
	}
	return s.settle()
}

// agentOnA returns an agent's prompt of 7,000 tokens that is warm on A, while B has
// worked on something else.
func (s *scene) agentOnA(ctx context.Context) ([]uint32, error) {
	agent := s.tokens(7_000)
	if err := s.warm(ctx, a, agent); err != nil {
		return nil, err
	}
	return agent, s.warm(ctx, b, s.tokens(3_000))
}

// decide picks for a prompt, and returns where to and why.
func (s *scene) decide(session string, prompt []uint32) (picker.Record, error) {
	var rec picker.Record
	if err := s.settle(); err != nil {
		return rec, err
	}
	d, err := s.pick(session, prompt, &rec)
	d.Done(picker.Outcome{})
	return rec, err
}

const (
	a = 0
	b = 1
)

// scenes are four situations, each on a fresh fleet. Each returns the record of the
// decision that it is about.
var scenes = []struct { //nolint:gochecknoglobals // a table, never written
	title      string
	want       int // engine
	maxRunning int // of each engine
	play       func(ctx context.Context, s *scene) (picker.Record, error)
}{
	{
		title: "An agent's 7,000-token prefix is warm on A; B has never seen it.",
		want:  a, maxRunning: 8,
		play: func(ctx context.Context, s *scene) (picker.Record, error) {
			agent, err := s.agentOnA(ctx)
			if err != nil {
				return picker.Record{}, err
			}
			return s.decide("agent", append(agent, s.tokens(300)...))
		},
	},
	{
		title: "The same, but A has a long queue and B is idle.",
		want:  b, maxRunning: 2,
		play: func(ctx context.Context, s *scene) (picker.Record, error) {
			agent, err := s.agentOnA(ctx)
			if err != nil {
				return picker.Record{}, err
			}
			ctx, cancel := context.WithCancel(ctx)
			var others sync.WaitGroup
			defer others.Wait()
			defer cancel()
			for range 24 {
				prompt := s.tokens(2_000)
				others.Go(func() { s.fleet.complete(ctx, a, prompt, 2_000, nil) })
			}
			for s.fleet.engines[a].Stats().Waiting < 16 {
				if ctx.Err() != nil {
					return picker.Record{}, ctx.Err()
				}
				time.Sleep(time.Millisecond)
			}
			return s.decide("agent", append(agent, s.tokens(300)...))
		},
	},
	{
		title: "A new session shares a 5,000-token system prompt that is warm on B; its user was last on A.",
		want:  b, maxRunning: 8,
		play: func(ctx context.Context, s *scene) (picker.Record, error) {
			system := s.tokens(5_000)
			if err := s.warm(ctx, b, append(slices.Clip(system), s.tokens(500)...)); err != nil {
				return picker.Record{}, err
			}
			if err := s.warm(ctx, a, s.tokens(6_000)); err != nil { // the user's last session
				return picker.Record{}, err
			}
			return s.decide("user 7, new session", append(system, s.tokens(400)...))
		},
	},
	{
		title: "The prefix was warm on A, with its system prompt on B. A has restarted, and its next batch says so.",
		want:  b, maxRunning: 8,
		play: func(ctx context.Context, s *scene) (picker.Record, error) {
			agent := s.tokens(7_000)
			if err := s.warm(ctx, a, agent); err != nil {
				return picker.Record{}, err
			}
			if err := s.warm(ctx, b, agent[:2_000]); err != nil {
				return picker.Record{}, err
			}
			if err := s.fleet.engines[a].Restart(); err != nil {
				return picker.Record{}, err
			}
			if err := s.warm(ctx, a, s.tokens(100)); err != nil {
				return picker.Record{}, err
			}
			return s.decide("agent", append(agent, s.tokens(300)...))
		},
	},
}

// explain plays the scenes and prints each decision.
func explain(ctx context.Context, out io.Writer, nw network) error {
	fmt.Fprintf(out, "\nFour decisions, explained from their records\n")
	for i, sc := range scenes {
		rec, err := playScene(ctx, nw, i)
		if err != nil {
			return fmt.Errorf("%s %w", sc.title, err)
		}
		fmt.Fprintf(out, "\n%d. %s\n\n%s", i+1, sc.title, rec.Explain())
	}
	return nil
}

func playScene(ctx context.Context, nw network, i int) (picker.Record, error) {
	s, err := newScene(nw, scenes[i].maxRunning)
	if err != nil {
		return picker.Record{}, err
	}
	defer s.close()
	return scenes[i].play(ctx, s)
}
