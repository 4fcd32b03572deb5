// Quickstart shows Warmroute at its job: two fake engines behind real HTTP on
// loopback, agents that talk to them through three routing policies, and four
// decisions explained. It needs nothing but Go and ends by itself.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

const (
	model          = "demo"
	scrapeInterval = 20 * time.Millisecond
	seed           = 1
)

// engineOptions are those of each engine: faster than life, so that a minute of work
// passes in seconds, and with a cache that holds a part of what is asked for.
func engineOptions() enginetest.Options {
	return enginetest.Options{
		Model:                  model,
		Blocks:                 3_000,
		PrefillTokensPerSecond: 100_000,
		DecodeStep:             time.Millisecond,
	}
}

func agents() workload {
	return workload{
		kinds: 12, systemTokens: 5_000,
		users: 8, sessions: 36, turns: 6, turnTokens: 400, replyTokens: 32,
		span: 3600 * time.Millisecond, think: 300 * time.Millisecond,
	}
}

func main() {
	log.SetFlags(0)
	if err := quickstart(); err != nil {
		log.Fatal(err)
	}
}

func quickstart() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	w, o := agents(), engineOptions()
	fmt.Printf("One workload, three ways to route it over two engines (takes about 8 seconds)\n\n")
	results, err := compare(ctx, w, o, seed, loopback())
	if err != nil {
		return err
	}
	printTable(os.Stdout, results)
	fmt.Printf(`
Workload: %d agent sessions of %d turns, of %d users; %d kinds of agents, each with a
system prompt of %s tokens; a turn adds about %d tokens and is answered with %d.
Each engine: a cache of %s tokens (%s blocks of 16), prefill of %s tokens a second,
%.0f ms for each token of a reply. Hit rate: prompt tokens found in the cache.
Sticky sessions keep a user's turns together, but users run all kinds of agents, so both
engines need every system prompt, and neither has the room.
`, w.sessions, w.turns, w.users, w.kinds, thousands(w.systemTokens), w.turnTokens, w.replyTokens,
		thousands(o.Blocks*16), thousands(o.Blocks), thousands(int(o.PrefillTokensPerSecond)), ms(o.DecodeStep))

	return explain(ctx, os.Stdout, loopback())
}
