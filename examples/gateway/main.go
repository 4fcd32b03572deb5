// Gateway is an OpenAI-compatible reverse proxy over inference engines, which sends each
// request where most of its prompt is cached, unless that is too busy. It is a template
// for a gateway of one's own.
//
//	go run ./examples/gateway
//
// is a demo with three fake engines. With engines of your own:
//
//	go run ./examples/gateway -endpoint http://10.0.0.7:8000 -endpoint http://10.0.0.8:8000
//
// OPERATING.md says what engines need, what to watch, and what to do about it.
//
//	main.go       flags, signals
//	gateway.go    the library put together; the proxy; limits; drain
//	fleet.go      the engines that are listed now, as candidates
//	engine.go     one engine: its events, its metrics, its health
//	endpoints.go  the list: flags, or a file that is followed
//	admin.go      metrics, probes, state
//	demo.go       the fake engines
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	// The first signal drains; the second ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// config is what flags say.
type config struct {
	listen, admin string
	engines       []spec
	file          string
	render        bool
	header        string

	maxBody, maxHeader       int
	maxInFlight, maxIndex    int
	bodyTimeout, timeout     time.Duration
	drainDelay, drainTimeout time.Duration

	log *slog.Logger
}

// parseFlags returns the configuration, and whether it is that of the demo.
func parseFlags(args []string) (c config, demo bool, err error) {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`address` to serve at")
	flags.StringVar(&c.admin, "admin", "127.0.0.1:8081", "`address` of metrics and probes; it needs no password")
	specFlags(flags, &c.engines)
	flags.StringVar(&c.file, "endpoints", "", "`file` with engines in JSON, followed as it changes")
	flags.BoolVar(&c.render, "render", false, "ask engines for tokens at their render endpoints rather than /tokenize")
	flags.StringVar(&c.header, "header", "X-Warmroute-Engine",
		"`name` of a header of replies that says which engine answered; empty: none")
	flags.IntVar(&c.maxBody, "max-body", 32<<20, "longest request body in `bytes`; 413 beyond")
	flags.IntVar(&c.maxHeader, "max-header", 64<<10, "longest request header in `bytes`; 431 beyond")
	flags.IntVar(&c.maxInFlight, "max-in-flight", 512, "`requests` on one engine; 429 when all have as many")
	flags.IntVar(&c.maxIndex, "max-index", 1<<30, "memory for what engines have cached, in `bytes`; 0: no bound")
	flags.DurationVar(&c.bodyTimeout, "body-timeout", time.Minute, "for a request's body to arrive")
	flags.DurationVar(&c.timeout, "timeout", 15*time.Minute, "for a request and its answer")
	flags.DurationVar(&c.drainDelay, "drain-delay", 5*time.Second,
		"from SIGTERM, when /readyz begins to fail, until no connection is accepted")
	flags.DurationVar(&c.drainTimeout, "drain-timeout", time.Minute, "for requests under way to end after that")
	verbose := flags.Bool("v", false, "log more")
	if err := flags.Parse(args); err != nil {
		return c, false, err
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	switch {
	case flags.NArg() > 0:
		return c, false, fmt.Errorf("what is %q? Only flags are expected", flags.Arg(0))
	case c.file != "" && c.engines != nil:
		return c, false, errors.New("both -endpoints and -endpoint are given")
	}
	for name, n := range map[string]int{
		"-max-body": c.maxBody, "-max-header": c.maxHeader, "-max-in-flight": c.maxInFlight,
	} {
		if n <= 0 {
			return c, false, fmt.Errorf("%s is %d; it must be more than 0", name, n)
		}
	}
	for name, d := range map[string]time.Duration{
		"-body-timeout": c.bodyTimeout, "-timeout": c.timeout, "-drain-timeout": c.drainTimeout,
	} {
		if d <= 0 {
			return c, false, fmt.Errorf("%s is %v; it must be more than 0", name, d)
		}
	}
	return c, c.file == "" && c.engines == nil, check(c.engines)
}

func run(ctx context.Context, args []string) error {
	c, demo, err := parseFlags(args)
	if err != nil {
		return err
	}
	if demo {
		specs, stop, err := startDemo()
		if err != nil {
			return err
		}
		defer stop()
		c.engines, c.drainDelay = specs, 0
	}
	g, err := newGateway(c)
	if err != nil {
		return err
	}
	if demo {
		for g.fleet.up() < len(c.engines) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Print(demoText(g.listeners[0].Addr(), g.listeners[1].Addr()))
	}
	return g.serve(ctx)
}
