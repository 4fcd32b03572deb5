package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// spec says where an engine is. Its model and adapters are asked of it, and so are its
// event sockets, unless they stand here.
type spec struct {
	URL    string   `json:"url"`              // http://host:port
	Events []stream `json:"events,omitempty"` // by data-parallel rank
}

// stream is where one rank publishes its events.
type stream struct {
	Address string `json:"address"`          // of the PUB socket, tcp://host:port
	Replay  string `json:"replay,omitempty"` // of the ROUTER socket
	Topic   string `json:"topic,omitempty"`
}

// specFlags collects -endpoint, -events and -replay: each of the latter two belongs to
// what stands before it.
func specFlags(flags *flag.FlagSet, specs *[]spec) {
	flags.Func("endpoint", "`URL` of an engine, http://host:port; repeat it for each", func(s string) error {
		*specs = append(*specs, spec{URL: s})
		return nil
	})
	flags.Func("events", "`address` of the event socket of the -endpoint before it, tcp://host:port; "+
		"repeat it for each rank; without it the engine is asked", func(s string) error {
		if len(*specs) == 0 {
			return errors.New("comes before any -endpoint")
		}
		last := &(*specs)[len(*specs)-1]
		last.Events = append(last.Events, stream{Address: s})
		return nil
	})
	flags.Func("replay", "`address` of the replay socket that belongs to the -events before it", func(s string) error {
		if len(*specs) == 0 || len((*specs)[len(*specs)-1].Events) == 0 {
			return errors.New("comes before any -events")
		}
		events := (*specs)[len(*specs)-1].Events
		events[len(events)-1].Replay = s
		return nil
	})
}

// check names the first endpoint that cannot be one.
func check(specs []spec) error {
	seen := make(map[string]bool, len(specs))
	for i, s := range specs {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("endpoints[%d]: url is %q, want http://host:port or https", i, s.URL)
		}
		if seen[s.URL] {
			return fmt.Errorf("endpoints[%d]: url %s is there twice", i, s.URL)
		}
		seen[s.URL] = true
		for rank, e := range s.Events {
			for _, a := range []string{e.Address, cmp.Or(e.Replay, e.Address)} {
				if !strings.HasPrefix(a, "tcp://") && !strings.HasPrefix(a, "ipc://") {
					return fmt.Errorf("endpoints[%d]: events[%d]: address is %q, want tcp://host:port or ipc://path",
						i, rank, a)
				}
			}
		}
	}
	return nil
}

// endpointsFile is a file of specs, followed as it changes:
//
//	{"endpoints": [{"url": "http://10.0.0.7:8000"}, ...]}
//
// It is compared by content, once a second, so that it does not matter how it is
// replaced. A file that cannot be read or has a mistake changes nothing, is logged once,
// and counted.
type endpointsFile struct {
	path  string
	set   func([]spec) // what to do with new ones
	log   *slog.Logger
	last  []byte // content that was looked at last
	reads atomic.Uint64
	bad   atomic.Uint64
}

// follow looks at the file until ctx ends.
func (f *endpointsFile) follow(ctx context.Context) {
	for every := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
			if err := f.look(); err != nil {
				f.bad.Add(1)
				f.log.Error("endpoints file is not good; the old endpoints stay", "err", err)
			}
		}
	}
}

// look reads the file if it is new. An unreadable file counts as one content, to be
// complained of once.
func (f *endpointsFile) look() error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		text = []byte(err.Error())
	}
	if f.last != nil && bytes.Equal(text, f.last) {
		return nil
	}
	f.last = text
	if err != nil {
		return err
	}
	specs, err := parseEndpoints(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.reads.Add(1)
	f.set(specs)
	return nil
}

// parseEndpoints refuses unknown fields: a misspelled one would be a fleet without
// events, which looks well and routes blindly. An empty list is no mistake, but the
// field must be there, as it is not in a file that was cut off or is another one.
func parseEndpoints(text []byte) ([]spec, error) {
	var file struct {
		Endpoints *[]spec `json:"endpoints"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	if file.Endpoints == nil {
		return nil, errors.New(`no field "endpoints"`)
	}
	return *file.Endpoints, check(*file.Endpoints)
}
