package zmtp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var (
	// ErrDiscovery means that an engine's answer says nothing usable about its sockets.
	ErrDiscovery = errors.New("zmtp: discovery failed")

	// ErrNoEvents means that the engine says that it publishes no events.
	ErrNoEvents = errors.New("zmtp: engine publishes no events")
)

// What is read of an answer. Each rank takes some hundred bytes; what SGLang tells besides
// is all of its configuration.
const (
	maxSources    = 1 << 20
	maxServerInfo = 16 << 20
)

// Discover asks an engine's HTTP API, at http://host:port, for the sockets of its ranks:
// /kv_event_sources of vLLM, and where there is no such path, /server_info of SGLang. nil
// is http.DefaultClient. Where an engine says that it listens on every interface, the
// host is that of the URL.
//
// One request or two, bounded by ctx and the client. Safe for concurrent use.
func Discover(ctx context.Context, client *http.Client, base string) ([]RankAddresses, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%w: URL is %q, want http://host:port", ErrDiscovery, base)
	}
	if client == nil {
		client = http.DefaultClient
	}
	body, err := getBody(ctx, client, u.JoinPath("kv_event_sources"), maxSources)
	if err == nil {
		return ParseKVEventSources(body, u.Hostname())
	}
	if !errors.Is(err, errNotFound) {
		return nil, err
	}
	if body, err = getBody(ctx, client, u.JoinPath("server_info"), maxServerInfo); err != nil {
		return nil, err
	}
	return ParseServerInfo(body, u.Hostname())
}

var errNotFound = errors.New("not found")

func getBody(ctx context.Context, client *http.Client, u *url.URL, most int64) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDiscovery, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDiscovery, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return nil, fmt.Errorf("%w: GET %s: %w", ErrDiscovery, u, errNotFound)
	default:
		return nil, fmt.Errorf("%w: GET %s: status %d", ErrDiscovery, u, resp.StatusCode)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: GET %s: %w", ErrDiscovery, u, err)
	case int64(len(body)) > most:
		return nil, fmt.Errorf("%w: GET %s: more than %d bytes", ErrDiscovery, u, most)
	}
	return body, nil
}

// eventSource is what vLLM says of one rank.
type eventSource struct {
	Rank     int    `json:"data_parallel_rank"`
	Endpoint string `json:"endpoint"`
	Replay   string `json:"replay_endpoint"` // null or "": none
	Topic    string `json:"topic"`
}

// ParseKVEventSources reads the body of vLLM's GET /kv_event_sources: an object with an
// object for each rank, by rank, or, as other front ends have it, an array of objects
// that name their rank. host is put where an address names every interface. Ranks come
// in ascending order.
//
// O(body). Safe for concurrent use.
func ParseKVEventSources(body []byte, host string) ([]RankAddresses, error) {
	var sources []eventSource
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		sources, err = sourcesByRank(body)
	} else {
		err = json.Unmarshal(body, &sources)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: kv_event_sources: %w", ErrDiscovery, err)
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%w: kv_event_sources is empty", ErrNoEvents)
	}
	if err := notTooMany(len(sources), "kv_event_sources"); err != nil {
		return nil, err
	}
	ranks := make([]RankAddresses, 0, len(sources))
	for _, s := range sources {
		r := RankAddresses{Rank: s.Rank, Topic: s.Topic}
		var err error
		if r.Address, err = on(host, s.Endpoint); err == nil && s.Replay != "" {
			r.ReplayAddress, err = on(host, s.Replay)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: kv_event_sources, rank %d: %w", ErrDiscovery, s.Rank, err)
		}
		ranks = append(ranks, r)
	}
	return sorted(ranks, "kv_event_sources")
}

func sourcesByRank(body []byte) ([]eventSource, error) {
	var byRank map[int]eventSource
	if err := json.Unmarshal(body, &byRank); err != nil {
		return nil, err
	}
	sources := make([]eventSource, 0, len(byRank))
	for rank, s := range byRank {
		s.Rank = rank
		sources = append(sources, s)
	}
	return sources, nil
}

// ParseServerInfo reads the field kv_events of the body of SGLang's GET /server_info: a
// host, a port for rank 0, and the number of ranks, or, of versions that have it, a list
// of publishers. host is put where an address names every interface. Ranks come in
// ascending order.
//
// O(body). Safe for concurrent use.
func ParseServerInfo(body []byte, host string) ([]RankAddresses, error) {
	var info struct {
		Events *struct {
			Publisher  string `json:"publisher"`
			Host       string `json:"endpoint_host"`
			Port       int    `json:"endpoint_port_base"`
			ReplayHost string `json:"replay_endpoint_host"`
			ReplayPort int    `json:"replay_endpoint_port_base"`
			Topic      string `json:"topic"`
			BlockSize  int    `json:"block_size"`
			Size       int    `json:"dp_size"`
			Publishers []struct {
				Rank     int    `json:"dp_rank"`
				Endpoint string `json:"endpoint"`
			} `json:"publishers"`
		} `json:"kv_events"`
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return nil, fmt.Errorf("%w: server_info: %w", ErrDiscovery, err)
	}
	e := info.Events
	switch {
	case e == nil:
		return nil, fmt.Errorf("%w: server_info has no kv_events", ErrNoEvents)
	case e.Publisher != "zmq":
		return nil, fmt.Errorf("%w: kv_events.publisher is %q, want \"zmq\"", ErrNoEvents, e.Publisher)
	}
	fail := func(err error) ([]RankAddresses, error) {
		return nil, fmt.Errorf("%w: server_info.kv_events: %w", ErrDiscovery, err)
	}
	address := func(in string, port int) (string, error) {
		return on(host, "tcp://"+net.JoinHostPort(strings.Trim(in, "[]"), strconv.Itoa(port)))
	}
	zero := RankAddresses{Topic: e.Topic, BlockTokens: max(0, e.BlockSize)}
	if len(e.Publishers) > 0 {
		const where = "server_info.kv_events.publishers"
		if err := notTooMany(len(e.Publishers), where); err != nil {
			return nil, err
		}
		ranks := make([]RankAddresses, 0, len(e.Publishers))
		for _, p := range e.Publishers {
			r := zero
			r.Rank = p.Rank
			var err error
			if r.Address, err = on(host, p.Endpoint); err == nil && e.ReplayPort != 0 {
				r.ReplayAddress, err = replayBeside(r, e.ReplayPort)
			}
			if err != nil {
				return fail(err)
			}
			ranks = append(ranks, r)
		}
		return sorted(ranks, where)
	}
	var err error
	if zero.Address, err = address(e.Host, e.Port); err == nil && e.ReplayPort != 0 {
		zero.ReplayAddress, err = address(e.ReplayHost, e.ReplayPort)
	}
	if err != nil {
		return fail(err)
	}
	ranks, err := Ranks(zero, max(1, e.Size))
	if err != nil {
		return fail(err)
	}
	return ranks, nil
}

// replayBeside is where a rank replays that publishes on a node of its own.
func replayBeside(r RankAddresses, portBase int) (string, error) {
	e, err := parseAddress(r.Address)
	if err != nil {
		return "", err
	}
	e.port = portBase
	return RankAddress(e.String(), r.Rank)
}

// notTooMany refuses more ranks than any engine has, before there is anything for them.
func notTooMany(ranks int, where string) error {
	if ranks > maxRanks {
		return fmt.Errorf("%w: %s has %d ranks, want at most %d", ErrDiscovery, where, ranks, maxRanks)
	}
	return nil
}

// sorted orders ranks and refuses what no engine has.
func sorted(ranks []RankAddresses, where string) ([]RankAddresses, error) {
	slices.SortFunc(ranks, func(a, b RankAddresses) int { return a.Rank - b.Rank })
	for i, r := range ranks {
		if r.Rank < 0 || (i > 0 && r.Rank == ranks[i-1].Rank) {
			return nil, fmt.Errorf("%w: %s has rank %d, want each once, 0 or more", ErrDiscovery, where, r.Rank)
		}
	}
	return ranks, nil
}
