// Command replay measures the index under the traffic of a fleet: requests of a trace go to
// workers with a KV cache each, the caches' event payloads are decoded and applied, and
// each request is looked up meanwhile.
//
//	go run ./bench/replay                                  # 8 and 64 workers, a made workload
//	go run ./bench/replay -trace trace.jsonl -workers 8,64,1000,7000 -md replay.md
//
// It has three parts. First it plays requests through 64 block pools, or as many as there
// are workers, and keeps the payloads; more workers than that get the same ones with other
// prompts. Then it feeds the index as fast as one goroutine can, and compares what a lookup
// says of each request's worker with what that worker's pool found. Last it offers requests
// at rates below and beyond what was reached: lookups on one goroutine, events on another.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/bench/internal/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "replay:", err)
		}
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	trace    string
	workers  []int
	requests int
	pool     int
	rates    []float64
	step     time.Duration
	json, md string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	list, err := s.read()
	if err != nil {
		return err
	}
	r := report{
		Trace:    s.name(),
		Command:  "go run ./bench/replay " + strings.Join(args, " "),
		Go:       runtime.Version(),
		CPUs:     runtime.NumCPU(),
		Date:     time.Now().UTC().Format(time.DateOnly),
		Pool:     s.pool,
		StepTime: s.step.Seconds(),
	}
	for _, workers := range s.workers {
		size, err := measure(ctx, s, list, workers, progress(stderr))
		if err != nil {
			return err
		}
		r.Sizes = append(r.Sizes, size)
	}
	if s.json != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.json, append(b, '\n'), 0o600); err != nil {
			return err
		}
	}
	text := r.markdown()
	if s.md != "" {
		if err := os.WriteFile(s.md, []byte(text), 0o600); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, text)
	return err
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	var s settings
	fs := flag.NewFlagSet("replay", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&s.trace, "trace", "", "`file` of requests in Mooncake's format; none: agent sessions are made")
	workers := fs.String("workers", "8,64", "numbers of workers; memory is about 1 MB each with full pools")
	fs.IntVar(&s.requests, "requests", 50, "requests a worker, at least")
	fs.IntVar(&s.pool, "pool", 16_384, "blocks of a worker's cache")
	rates := fs.String("rates", "0.25,0.5,0.75,1,1.5", "rates to offer, as shares of what one goroutine reached")
	fs.DurationVar(&s.step, "step", 3*time.Second, "time at each rate")
	fs.StringVar(&s.json, "json", "", "write the report to this `file` as JSON")
	fs.StringVar(&s.md, "md", "", "write the report to this `file` as Markdown")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	for field := range strings.SplitSeq(*workers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > 16_384 {
			return nil, fmt.Errorf("-workers has %q, want numbers from 1 to 16384", field)
		}
		s.workers = append(s.workers, n)
	}
	for field := range strings.SplitSeq(*rates, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(x > 0 && x <= 100) {
			return nil, fmt.Errorf("-rates has %q, want numbers above 0 and up to 100", field)
		}
		s.rates = append(s.rates, x)
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unknown argument %q", fs.Arg(0))
	case s.requests < 1 || s.requests > 100_000:
		return nil, fmt.Errorf("-requests is %d, want 1 to 100000", s.requests)
	case s.pool < 64 || s.pool > 1<<24:
		return nil, fmt.Errorf("-pool is %d, want 64 to %d", s.pool, 1<<24)
	case s.step <= 0 || s.step > time.Hour:
		return nil, fmt.Errorf("-step is %v, want more than 0 and up to 1h", s.step)
	}
	return &s, nil
}

// read returns the trace; of what is made, as much as the smallest fleet needs, since a
// larger one repeats it with other numbers.
func (s *settings) read() ([]trace.Request, error) {
	if s.trace == "" {
		return trace.Sessions(1, 8*s.requests), nil
	}
	return trace.ReadFile(s.trace)
}

// name of the trace; a folder of this machine is nobody's concern.
func (s *settings) name() string {
	if s.trace == "" {
		return "agent sessions, made"
	}
	return s.trace[strings.LastIndexByte(s.trace, '/')+1:]
}

// progress returns what shows a line on a terminal, over the line before; elsewhere nothing
// is shown.
func progress(w io.Writer) func(format string, a ...any) {
	f, ok := w.(*os.File)
	if !ok {
		return func(string, ...any) {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(string, ...any) {}
	}
	var last time.Time
	return func(format string, a ...any) {
		if format != "" && time.Since(last) < 100*time.Millisecond {
			return
		}
		last = time.Now()
		fmt.Fprintf(w, "\r\x1b[K"+format, a...)
	}
}
