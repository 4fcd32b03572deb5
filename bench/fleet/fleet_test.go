package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/internal/trace"
)

// small is a scenario of a few seconds.
func small() scenario {
	return scenario{name: "small", about: "a small one", begin: func(s *sim) {
		s.poisson(0, 15*time.Second, 30, s.prompts(16))
		s.at(12*time.Second, func() { s.restart(0, time.Second) })
	}}
}

// Whatever the policy, each request is answered once, and the same seed gives the same run.
func TestRunsAreCompleteAndRepeatable(t *testing.T) {
	sc := small()
	for _, pd := range policies() {
		t.Run(pd.name, func(t *testing.T) {
			c := defaults()
			c.engines, c.eventLoss = 4, 0.01
			a, err := run(c, &sc, &pd, 7)
			require.NoError(t, err)
			b, err := run(c, &sc, &pd, 7)
			require.NoError(t, err)
			require.Equal(t, a.ttft, b.ttft)
			require.Equal(t, a.e2e, b.e2e)
			require.Equal(t, a.computed, b.computed)
			arrived := 0
			for i := range a.bins {
				arrived += len(a.bins[i].ttft)
			}
			require.InDelta(t, 450, arrived, 100, "30 a second for 15 s")
			for i := range a.ttft {
				require.Positive(t, a.ttft[i])
				require.LessOrEqual(t, a.ttft[i], a.e2e[i])
			}
		})
	}
}

// On an idle engine the time to first token is a step's, and the uncached prompt over the
// prefill rate; each further token is a step.
func TestEngineTakesTheTimeOfItsModel(t *testing.T) {
	c := defaults()
	c.engines, c.spread = 1, 0
	var first, again, long *request
	sc := scenario{begin: func(s *sim) {
		prompt := s.text(1, 1_400)
		first, again = s.ask(1, 11, prompt), s.ask(1, 1, prompt)
		long = s.ask(2, 1, s.fresh(5_000)) // three chunks
		s.at(time.Second, func() { s.submit(first) })
		s.at(5*time.Second, func() { s.submit(again) })
		s.at(9*time.Second, func() { s.submit(long) })
	}}
	pds, err := choose("policy", policies(), "round-robin", func(p *policyDef) string { return p.name })
	require.NoError(t, err)
	_, err = run(c, &sc, &pds[0], 1)
	require.NoError(t, err)
	compute := func(tokens, steps int) float64 {
		return float64(tokens)/c.speed.prefillRate + float64(steps)*c.speed.step.Seconds()
	}
	require.InDelta(t, compute(1_400, 1), (first.begun - first.arrived).Seconds(), 1e-6)
	require.InDelta(t, compute(0, 10), (first.ended - first.begun).Seconds(), 0.001, "context costs a little")
	require.Equal(t, 1_344, again.cached, "whole blocks of 64")
	require.InDelta(t, compute(56, 1), (again.begun - again.arrived).Seconds(), 1e-6)
	require.InDelta(t, compute(5_000, 3), (long.begun - long.arrived).Seconds(), 1e-6)
}

// When the cache is too small for all that runs, requests give up their blocks and are
// answered all the same.
func TestPreemption(t *testing.T) {
	c := defaults()
	c.engines, c.speed.tokens = 1, 4_096
	sc := scenario{begin: func(s *sim) {
		for range 6 {
			s.at(warmUp, func() { s.submit(s.ask(s.rnd.Uint64(), 1_500, s.fresh(1_000))) })
		}
	}}
	pds := policies()
	res, err := run(c, &sc, &pds[0], 1)
	require.NoError(t, err)
	require.Equal(t, 6, res.requests)
	require.Greater(t, res.computed, 6_000, "what was given up is computed again")
}

// The order that others published for this workload comes out.
func TestPublishedOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	scs, err := choose("scenario", scenarios(nil), "capacity-73", func(s *scenario) string { return s.name })
	require.NoError(t, err)
	pds, err := choose("policy", policies(), "3:2:2,least-request,random,default", func(p *policyDef) string { return p.name })
	require.NoError(t, err)
	results, err := compare(defaults(), scs, pds, 1, 1)
	require.NoError(t, err)
	aware, least, random, ours := p90(results[0]), p90(results[1]), p90(results[2]), p90(results[3])
	require.Less(t, 57*aware, least)
	require.InEpsilon(t, least, random, 0.3, "load alone does not help")
	require.Less(t, ours, 1.25*aware)
}

func TestTrace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace.jsonl")
	write := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write(`{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 1000, "input_length": 900, "output_length": 5, "hash_ids": [0, 2]}
`)
	list, err := trace.ReadFile(name)
	require.NoError(t, err)
	sc := scenario{begin: mooncake(list)}
	pds := policies()
	res, err := run(defaults(), &sc, &pds[5], 1)
	require.NoError(t, err)
	require.Len(t, res.bins[0].ttft, 2)
	require.Equal(t, 1_600, res.bins[0].prompt)
	require.Equal(t, 512, res.bins[0].cached, "the block that both begin with")
}

func TestCommandRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-scenario x":    `no scenario "x"; there are agents`,
		"-policy x":      `no policy "x"; there are round-robin`,
		"-engines 0":     "-engines is 0, want 1 to 4096",
		"-load 0":        "-load is 0",
		"-spread 1":      "-spread is 1",
		"-metrics 0s":    "-metrics is 0s",
		"-event-loss 2":  "-event-loss is 2",
		"-seeds 0":       "-seeds is 0",
		"-event-delay x": "parse error",
	} {
		err := command(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want, args)
	}
}

// The report is whole: charts are well-formed and say what their axes are.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	sc := small()
	sc.name = "restart"
	pds, err := choose("policy", policies(), "round-robin,default", func(p *policyDef) string { return p.name })
	require.NoError(t, err)
	require.NoError(t, report(dir, defaults(), []scenario{sc}, pds, 1, 1, "fleet -report "+dir))
	for _, name := range []string{"hit-rate.svg", "index-speed.svg", "index-memory.svg"} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		d := xml.NewDecoder(bytes.NewReader(svg))
		for err == nil {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, name)
		require.NotContains(t, string(svg), "NaN")
	}
	md, err := os.ReadFile(filepath.Join(dir, "report.md"))
	require.NoError(t, err)
	require.Contains(t, string(md), "![Hit rate over time: restart](hit-rate.svg)")
	require.Contains(t, string(md), "| default | ")
}
