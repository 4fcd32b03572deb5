package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// startDemo starts three fake engines on loopback ports, with HTTP and event sockets as
// real ones have them. Each caches what it was sent, and takes a second for 2,000 tokens
// that it has to compute, so that a hit can be felt.
func startDemo() (specs []spec, stop func(), err error) {
	var stops []func()
	stop = func() {
		for i := len(stops) - 1; i >= 0; i-- {
			stops[i]()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	for range 3 {
		engine, err := enginetest.New(enginetest.Options{Model: "demo", PrefillTokensPerSecond: 2000})
		if err != nil {
			return nil, nil, err
		}
		stops = append(stops, engine.Close)
		events, err := engine.Publish(enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"})
		if err != nil {
			return nil, nil, err
		}
		stops = append(stops, events.Close)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		server := &http.Server{Handler: engine, ReadHeaderTimeout: 10 * time.Second}
		go server.Serve(l)
		stops = append(stops, func() { server.Close() })
		specs = append(specs, spec{
			URL:    "http://" + l.Addr().String(),
			Events: []stream{{Address: events.Address(), Replay: events.ReplayAddress()}},
		})
	}
	return specs, stop, nil
}

// system is a prompt of a few blocks.
const system = "You are the assistant of a small library. You know every shelf and every book on it, you " +
	"answer in one sentence, and where you are not sure you say so and name somebody who may know. You never " +
	"recommend a book that is on loan, and you are patient with children, who ask the best questions."

// demoText is what to do with the demo.
func demoText(address, admin net.Addr) string {
	return fmt.Sprintf(`
Three fake engines are behind the gateway. Ask one of them something, twice:

  curl -si http://%s/v1/chat/completions -H 'Content-Type: application/json' -d '{
    "model": "demo", "max_tokens": 8, "messages": [
      {"role": "system", "content": "%s"},
      {"role": "user", "content": "Where are the books about lighthouses?"}]}'

The second answer comes from the same engine, sooner, and its usage says how many tokens
of the prompt were cached. Another question after the same system prompt finds that.
http://%s/debug/ says why.

`, address, system, admin)
}
