package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// TestLoad holds many streams open through the gateway, and as many beside them through a
// plain reverse proxy to the same engines, all in this process. What the gateway adds is
// the difference between their times to the first byte, in the same seconds on the same
// machine. Prompts are 2,000 token ids that one engine has cached; what tokenizing adds
// is measured apart, and depends on the engine.
//
// WARMROUTE_LOAD is the number of streams through each, for make load-gateway.
func TestLoad(t *testing.T) {
	streams, life, strict := 100, time.Second, false // life is that of a stream, on average
	if s := os.Getenv("WARMROUTE_LOAD"); s != "" {
		var err error
		streams, err = strconv.Atoi(s)
		require.NoError(t, err)
		life, strict = 15*time.Second, true
	} else if testing.Short() {
		t.Skip("takes some seconds")
	}

	engines := make([]*fakeEngine, 3)
	prompt := make([]uint32, 2000) // 14 kB of JSON
	for i := range prompt {
		prompt[i] = rand.Uint32N(100_000)
	}
	for i := range engines {
		engines[i] = newEngine(t, enginetest.Options{})
		engines[i].server.Handler = streaming(engines[i].Engine)
	}
	r := start(t, engines, "-max-in-flight", "100000")
	_, err := engines[0].Generate(t.Context(), enginetest.Request{Prompt: prompt, MaxTokens: 1})
	require.NoError(t, err)
	r.settle(engines...)
	plain := httptest.NewServer(plainProxy(engines))
	defer plain.Close()

	body, err := json.Marshal(map[string]any{"model": "demo", "prompt": prompt, "stream": true})
	require.NoError(t, err)
	arms := []*arm{{name: "plain", url: plain.URL}, {name: "gateway", url: "http://" + r.address}}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * streams}}
	goroutines, files := runtime.NumGoroutine(), openFiles()

	// Streams begin one after the other within a life, so that from then on some begin and
	// end all the time, and are looked at by the window in which they begin. They begin and
	// end in pairs, one through each, so that what else the machine does hits both alike.
	const windows = len(arm{}.first)
	var running sync.WaitGroup
	ready := time.Now().Add(life)
	window := 3 * life / time.Duration(windows)
	for range streams {
		running.Go(func() {
			time.Sleep(rand.N(life))
			for time.Now().Before(ready.Add(3 * life)) {
				query := fmt.Sprint("?life=", life/2+rand.N(life))
				since := time.Since(ready)
				first := rand.IntN(2)
				var pair sync.WaitGroup
				for i := range arms {
					a := arms[(first+i)%2]
					pair.Go(func() {
						time.Sleep(time.Duration(i) * 4 * time.Millisecond) // out of each other's way
						took, err := a.stream(client, query, body)
						if err != nil {
							t.Errorf("%s: %v", a.name, err)
							return
						}
						if since >= 0 {
							w := min(int(since/window), windows-1)
							a.mu.Lock()
							a.first[w] = append(a.first[w], took)
							a.mu.Unlock()
						}
					})
				}
				pair.Wait()
			}
		})
	}
	running.Wait()
	for _, a := range arms {
		require.GreaterOrEqual(t, a.most.Load(), int64(streams)*9/10, "streams at once")
	}
	require.Zero(t, r.ledger.Stats().Open)

	var added, added50 []time.Duration
	for w := range windows {
		p, g := arms[0].first[w], arms[1].first[w]
		if len(p) == 0 || len(g) == 0 {
			continue // the machine stood still
		}
		t.Logf("plain %4d streams, p50 %8v p99 %8v; gateway %4d streams, p50 %8v p99 %8v", len(p), quantile(p, 50),
			quantile(p, 99), len(g), quantile(g, 50), quantile(g, 99))
		added = append(added, quantile(g, 99)-quantile(p, 99))
		added50 = append(added50, quantile(g, 50)-quantile(p, 50))
	}
	require.NotEmpty(t, added)
	t.Logf("%d streams through each; added, median of %d windows: p50 %v, p99 %v", streams, len(added),
		quantile(added50, 50), quantile(added, 50))
	if strict {
		require.LessOrEqual(t, quantile(added, 50), 2*time.Millisecond)
	}

	for i := range 200 {
		r.post("/v1/chat/completions", chat(fmt.Sprint("question ", i)))
	}
	s := r.fleet.tokens.Stats()
	require.EqualValues(t, 200, s.Asked)
	t.Logf("tokenizing 200 chats of 2.3 kB, one at a time: %v each, at most %v", s.Spent/200, s.Longest)

	client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	r.transport.CloseIdleConnections()
	plain.CloseClientConnections()
	require.Eventually(t, func() bool {
		return runtime.NumGoroutine() <= goroutines+10 && openFiles() <= files+10 // idle ones of tokenizing
	}, 10*time.Second, 50*time.Millisecond, "goroutines or files are left: %d of %d, %d of %d",
		runtime.NumGoroutine(), goroutines, openFiles(), files)
}

// arm is one way to the engines.
type arm struct {
	name, url string
	now, most atomic.Int64 // streams open

	mu    sync.Mutex
	first [10][]time.Duration // to the first byte, by window
}

// stream reads one stream to its end.
func (a *arm) stream(client *http.Client, query string, body []byte) (first time.Duration, err error) {
	began := time.Now()
	resp, err := client.Post(a.url+"/v1/completions"+query, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 512)
	if _, err := lines.ReadByte(); err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %w", resp.Status, err)
	}
	first = time.Since(began)
	n := a.now.Add(1)
	defer a.now.Add(-1)
	for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); most = a.most.Load() {
	}
	var last []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return 0, err
		}
		if len(line) > 1 {
			last = line
		}
		if err == io.EOF {
			if string(last) != "data: [DONE]\n" {
				return 0, fmt.Errorf("the stream ends with %q", last)
			}
			return first, nil
		}
	}
}

// streaming answers completions at once, with a stream that says something every eighth of
// its life, which is in the query; the rest is e's.
func streaming(e *enginetest.Engine) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", e)
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		life, err := time.ParseDuration(r.URL.Query().Get("life"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		every := time.NewTicker(life / 8)
		defer every.Stop()
		for end := time.Now().Add(life); time.Now().Before(end); {
			fmt.Fprint(w, `data: {"choices":[{"text":" token"}]}`+"\n\n")
			_ = flush.Flush()
			select {
			case <-every.C:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	return mux
}

// plainProxy sends requests to one engine after the other. It has to say that bodies may
// be read beside the reply: a server closes one whose end was not seen when the reply
// begins, and the transport, which looks for the end, would then break off the reply.
func plainProxy(engines []*fakeEngine) http.Handler {
	var n atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: engines[n.Add(1)%uint64(len(engines))].host})
		},
		Transport:  &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: 4 * time.Second},
		BufferPool: new(buffers),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 can
		proxy.ServeHTTP(w, r)
	})
}

func quantile(d []time.Duration, percent int) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[(len(d)-1)*percent/100]
}

// openFiles is how many descriptors this process has; 0 where that cannot be told.
func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}
