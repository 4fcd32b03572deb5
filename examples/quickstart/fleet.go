package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// network is how engines listen and clients reach them: TCP on loopback, or pipes in
// a test.
type network struct {
	listen func() (net.Listener, error)
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

func loopback() network {
	return network{
		listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		dial:   new(net.Dialer).DialContext,
	}
}

// fleet is a few fake engines, each behind an HTTP server of its own, and a client for
// them. Beside HTTP, only their event feeds leave it.
type fleet struct {
	engines []*enginetest.Engine
	names   []string // "A", "B", ...
	urls    []string
	servers []*http.Server
	client  *http.Client
}

func startFleet(n int, o enginetest.Options, nw network) (*fleet, error) {
	f := &fleet{client: &http.Client{Transport: &http.Transport{
		DialContext:         nw.dial,
		MaxIdleConnsPerHost: 64,
	}}}
	for i := range n {
		e, err := enginetest.New(o)
		if err != nil {
			f.close()
			return nil, err
		}
		f.engines = append(f.engines, e)
		l, err := nw.listen()
		if err != nil {
			f.close()
			return nil, err
		}
		srv := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
		go srv.Serve(l)
		f.servers = append(f.servers, srv)
		f.names = append(f.names, string(rune('A'+i)))
		f.urls = append(f.urls, "http://"+l.Addr().String())
	}
	return f, nil
}

func (f *fleet) close() {
	for _, e := range f.engines {
		e.Close()
	}
	for _, s := range f.servers {
		s.Close()
	}
	f.client.CloseIdleConnections()
}

// reply is what a client learns from one completion.
type reply struct {
	ttft   time.Duration
	prompt int // tokens, as the engine counted them
	cached int
	text   string
}

// complete sends a prompt of token ids to one engine and reads the stream to its end.
// first, if not nil, is called when the first token arrives.
func (f *fleet) complete(
	ctx context.Context, engine int, prompt []uint32, maxTokens int, first func(),
) (reply, error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "prompt": prompt, "max_tokens": maxTokens,
		"stream": true, "stream_options": map[string]any{"include_usage": true},
	})
	if err != nil {
		return reply{}, err
	}
	url := f.urls[engine] + "/v1/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := f.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		msg, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return reply{}, fmt.Errorf("engine %s: %s: %s", f.names[engine], resp.Status, msg)
	}

	var r reply
	var text strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Text string `json:"text"`
			} `json:"choices"`
			Usage *struct {
				PromptTokens int `json:"prompt_tokens"`
				Details      struct {
					CachedTokens int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return reply{}, err
		}
		if r.ttft == 0 && len(chunk.Choices) > 0 {
			r.ttft = time.Since(start)
			if first != nil {
				first()
			}
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Text)
		}
		if u := chunk.Usage; u != nil {
			r.prompt, r.cached = u.PromptTokens, u.Details.CachedTokens
		}
	}
	if err := lines.Err(); err != nil {
		return reply{}, err
	}
	if r.prompt == 0 {
		return reply{}, errors.New("the stream ended without usage")
	}
	r.text = text.String()
	return r, nil
}
