package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmroute/warmroute/bench/internal/trace"
)

// scenario is a workload. Its draws come from the run's seed, in the same order whatever
// the policy, as far as arrivals do not depend on replies.
type scenario struct {
	name  string
	about string
	begin func(s *sim)
}

func scenarios(list []trace.Request) []scenario {
	return []scenario{
		{
			"agents",
			"sessions of 8 turns: a system prompt of 4,000 tokens, one of 24, and all that was said before", agents,
		},
		{
			"shared-system-prompt", "60 requests/s: 64 system prompts of 2,000 to 10,000 tokens, " +
				"the k-th asked for in proportion to 1/k, and a question of 300", shared,
		},
		{
			"capacity-73", "150 groups of 5 prompts, 6,000 tokens shared and 1,200 not, in turn; " +
				"3 to 60 requests/s in 16 steps of 8 s", capacity73,
		},
		{"burst", "20 requests/s over 32 system prompts; every 15 s 96 at once with one prefix of 8,000 tokens", burst},
		{"hot-prefix", "30 requests/s over 40 system prompts; for 45 s, 40 more for one of 8,000 tokens", hotPrefix},
		{
			"restart",
			"40 requests/s over 64 system prompts; two engines restart, 20 s apart, and are away for 5 s", restart,
		},
		{
			"mooncake",
			"requests of Mooncake's conversation trace, or of a generator with its proportions", mooncake(list),
		},
	}
}

// text returns n tokens that depend on the seed and id alone.
func (s *sim) text(id uint64, n int) []uint32 {
	rnd := rand.NewPCG(s.result.seed, id)
	t := make([]uint32, n)
	for i := range t {
		t[i] = uint32(rnd.Uint64()>>32) % 150_000
	}
	return t
}

// fresh returns n tokens that nobody had before.
func (s *sim) fresh(n int) []uint32 {
	s.result.texts++
	return s.text(1<<40+s.result.texts, n)
}

// around draws a number between half and one and a half of the mean.
func (s *sim) around(mean int) int { return mean/2 + s.rnd.IntN(mean+1) }

// exponential draws a time of that mean.
func (s *sim) exponential(mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-s.rnd.Float64()) * float64(mean))
}

// zipf draws 0 to n-1, the k-th in proportion to 1/(k+1).
func zipf(n int) func(rnd *rand.Rand) int {
	sums := make([]float64, n)
	sum := 0.0
	for k := range sums {
		sum += 1 / float64(k+1)
		sums[k] = sum
	}
	return func(rnd *rand.Rand) int {
		k, _ := slices.BinarySearch(sums, rnd.Float64()*sum)
		return min(k, n-1)
	}
}

// ask makes the request for prompt, with a reply of so many tokens.
func (s *sim) ask(session uint64, reply int, prompt ...[]uint32) *request {
	tokens := slices.Concat(prompt...)
	return &request{tokens: append(tokens, s.fresh(reply)...), prompt: len(tokens), session: session}
}

func agents(s *sim) {
	const turns = 8
	kinds := zipf(24)
	s.poisson(0, 2*time.Minute, 4.5, func() {
		session := s.rnd.Uint64()
		said := s.text(uint64(kinds(s.rnd)), 4_000)
		turn := 0
		var next func()
		next = func() {
			r := s.ask(session, s.around(120), said, s.fresh(s.around(800)))
			said = r.tokens
			if turn++; turn < turns {
				r.then = func() { s.at(s.now+s.exponential(4*time.Second), next) }
			}
			s.submit(r)
		}
		next()
	})
}

// prompts returns a function that sends a question about one of n system prompts.
func (s *sim) prompts(n int) func() {
	draw := zipf(n)
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = 2_000 + s.rnd.IntN(8_001)
	}
	return func() {
		k := draw(s.rnd)
		s.submit(s.ask(s.rnd.Uint64(), s.around(150), s.text(uint64(k), lengths[k]), s.fresh(300)))
	}
}

func shared(s *sim) { s.poisson(0, 80*time.Second, 60, s.prompts(64)) }

func burst(s *sim) {
	send := s.prompts(32)
	s.poisson(0, 90*time.Second, 20, send)
	for k := range 6 {
		s.at(time.Duration(10+15*k)*time.Second, func() {
			prefix := s.text(uint64(1_000+k), 8_000)
			for range 96 {
				s.submit(s.ask(s.rnd.Uint64(), s.around(150), prefix, s.fresh(200)))
			}
		})
	}
}

func hotPrefix(s *sim) {
	s.poisson(0, 90*time.Second, 30, s.prompts(40))
	hot := s.text(1_000, 8_000)
	send := func() {
		r := s.ask(s.rnd.Uint64(), s.around(60), hot, s.fresh(800))
		r.kind = 1
		s.submit(r)
	}
	s.poisson(0, 90*time.Second, 0.5, send)
	s.poisson(20*time.Second, 65*time.Second, 40, send)
}

func restart(s *sim) {
	s.poisson(0, 80*time.Second, 40, s.prompts(64))
	for i := range 2 {
		s.at(time.Duration(30+20*i)*time.Second, func() { s.restart(i, 5*time.Second) })
	}
}

func capacity73(s *sim) {
	const step = 8 * time.Second
	rates := []float64{3, 10, 15, 20, 22, 25, 30, 35, 40, 43, 46, 49, 52, 55, 57, 60}
	order := s.rnd.Perm(750)
	next := 0
	for k, rate := range rates {
		from := time.Duration(k) * step
		s.poisson(from, from+step, rate, func() {
			n := order[next%len(order)]
			next++
			r := s.ask(uint64(n), s.around(250), s.text(uint64(n/5), 6_000), s.text(uint64(1_000+n), 1_200))
			r.kind = k
			s.submit(r)
		})
	}
}
