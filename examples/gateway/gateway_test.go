package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine is an engine behind sockets that can die and come back.
type fakeEngine struct {
	*enginetest.Engine
	events *enginetest.Publisher
	server *http.Server
	host   string
}

func newEngine(t *testing.T, o enginetest.Options) *fakeEngine {
	if o.Model == "" {
		o.Model = "demo"
	}
	if o.PrefillTokensPerSecond == 0 {
		o.PrefillTokensPerSecond, o.DecodeStep = 100_000, time.Millisecond
	}
	engine, err := enginetest.New(o)
	require.NoError(t, err)
	events, err := engine.Publish(enginetest.PublishOptions{ReplayAddress: "tcp://127.0.0.1:0"})
	require.NoError(t, err)
	e := &fakeEngine{Engine: engine, events: events, host: "127.0.0.1:0"}
	e.serve(t, engine)
	t.Cleanup(func() {
		events.Close()
		engine.Close()
		e.server.Close()
	})
	return e
}

func (e *fakeEngine) serve(t *testing.T, h http.Handler) {
	l, err := net.Listen("tcp", e.host)
	require.NoError(t, err)
	e.host = l.Addr().String()
	e.server = &http.Server{Handler: h}
	go e.server.Serve(l)
}

func (e *fakeEngine) spec() spec {
	return spec{
		URL:    "http://" + e.host,
		Events: []stream{{Address: e.events.Address(), Replay: e.events.ReplayAddress()}},
	}
}

// running is a gateway that serves.
type running struct {
	*gateway
	t         *testing.T
	address   string
	terminate context.CancelFunc // SIGTERM
	served    chan error
}

// start starts a gateway with flags, over engines, and waits until all of them are up.
func start(t *testing.T, engines []*fakeEngine, args ...string) *running {
	c, _, err := parseFlags(append([]string{"-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-drain-delay", "0"}, args...))
	require.NoError(t, err)
	c.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, e := range engines {
		c.engines = append(c.engines, e.spec())
	}
	g, err := newGateway(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{gateway: g, address: g.listeners[0].Addr().String(), t: t, terminate: cancel, served: make(chan error, 1)}
	go func() { r.served <- g.serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-r.served
		http.DefaultClient.CloseIdleConnections()
	})
	r.wait(len(engines))
	return r
}

func (r *running) wait(up int) {
	require.Eventually(r.t, func() bool { return r.fleet.up() == up }, 20*time.Second, 5*time.Millisecond)
}

// answer is what a client gets.
type answer struct {
	status int
	engine string
	body   string
	prompt int
	cached int
}

func (r *running) post(path, body string) answer {
	resp, err := http.Post("http://"+r.address+path, "application/json", strings.NewReader(body))
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	a := answer{status: resp.StatusCode, engine: resp.Header.Get("X-Warmroute-Engine"), body: string(text)}
	var out struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	_ = json.Unmarshal(text, &out)
	a.prompt, a.cached = out.Usage.Prompt, out.Usage.Details.Cached
	return a
}

func (r *running) get(listener int, path string) (int, string) {
	resp, err := http.Get("http://" + r.listeners[listener].Addr().String() + path)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(text)
}

// settle waits until the gateway knows what the engines have published.
func (r *running) settle(engines ...*fakeEngine) {
	require.Eventually(r.t, func() bool {
		for i, e := range engines {
			l := (*r.fleet.engines.Load())[i].live.Load()
			if l == nil || l.subs[0].Stats().Batches < uint64(len(e.Published(0))) {
				return false
			}
		}
		return true
	}, 20*time.Second, time.Millisecond)
}

func chat(question string) string {
	return fmt.Sprintf(`{"model": "demo", "max_tokens": 4, "messages": [
		{"role": "system", "content": %q}, {"role": "user", "content": %q}]}`, strings.Repeat("You know every book. ", 100), question)
}

// What cannot be started says why, and leaves nothing behind.
func TestBadStarts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for _, c := range []struct{ args, err string }{
		{"-listen " + l.Addr().String(), "address already in use"},
		{"-listen 127.0.0.1:0 -admin nowhere", "nowhere"},
		{"-max-index 5", "MaxBytes is 5"},
		{"-max-body 0", "-max-body is 0; it must be"},
		{"-timeout -1s", "-timeout is -1s; it must be"},
		{"-endpoint 10.0.0.7:8000", `url is "10.0.0.7:8000"`},
		{"-endpoint http://a -endpoints b", "both -endpoints and -endpoint"},
		{"-endpoints /no/such/file -listen 127.0.0.1:0 -admin 127.0.0.1:0", "no such file"},
		{"endpoint", `what is "endpoint"`},
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(c.args)), c.err, c.args)
	}
}

// What the demo prints is a request that works, and that finds its prompt cached the
// second time.
func TestDemo(t *testing.T) {
	specs, stop, err := startDemo()
	require.NoError(t, err)
	defer stop()
	r := start(t, nil)
	r.fleet.set(t.Context(), specs)
	r.wait(3)
	curl := regexp.MustCompile(`(?s)curl -si http://(\S+?)(/\S+) .*? -d '(.*?)'\n`).FindStringSubmatch(demoText(r.listeners[0].Addr(), r.listeners[1].Addr()))
	require.NotNil(t, curl)
	require.Equal(t, r.address, curl[1])
	first := r.post(curl[2], curl[3])
	require.Equal(t, http.StatusOK, first.status, first.body)
	require.Zero(t, first.cached)
	time.Sleep(50 * time.Millisecond) // the person at the terminal
	second := r.post(curl[2], curl[3])
	require.Equal(t, first.engine, second.engine)
	require.Greater(t, second.cached, second.prompt/2)

	status, _ := r.get(0, "/readyz")
	require.Equal(t, http.StatusOK, status)
	_, page := r.get(1, "/metrics")
	require.Contains(t, page, "\nwarmroute_picker_picks_total{picker=\"main\"} 2\n")
	require.Contains(t, page, "\n# TYPE gateway_engine_up gauge\n")
	require.Contains(t, page, fmt.Sprintf("gateway_engine_up{endpoint=%q} 1\n", specs[2].URL))
}

// Each metric that OPERATING.md speaks of is on the page.
func TestOperatingNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.json")
	engine := newEngine(t, enginetest.Options{})
	text, err := json.Marshal(map[string]any{"endpoints": []spec{engine.spec()}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	r := start(t, nil, "-endpoints", path)
	r.wait(1)
	_, page := r.get(1, "/metrics")
	doc, err := os.ReadFile("OPERATING.md")
	require.NoError(t, err)
	names := regexp.MustCompile(`\b(warmroute|gateway)_\w+`).FindAllString(string(doc), -1)
	require.Greater(t, len(names), 30)
	for _, name := range names {
		require.Regexp(t, "(?m)^"+name+"[ {]", page)
	}
}

// A request under way when SIGTERM comes gets its whole answer; probes fail at once.
func TestDrain(t *testing.T) {
	engine := newEngine(t, enginetest.Options{PrefillTokensPerSecond: 1e6, DecodeStep: 20 * time.Millisecond})
	r := start(t, []*fakeEngine{engine}, "-drain-delay", "1s")
	body := strings.NewReader(`{"model": "demo", "prompt": "hello", "max_tokens": 50, "stream": true}`)
	resp, err := http.Post("http://"+r.address+"/v1/completions", "application/json", body)
	require.NoError(t, err)
	defer resp.Body.Close()
	r.terminate()
	require.Eventually(t, r.draining.Load, time.Second, time.Millisecond)
	status, why := r.get(0, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "draining\n", why)
	status, _ = r.get(0, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, http.StatusOK, r.post("/v1/completions", `{"model": "demo", "prompt": "a", "max_tokens": 1}`).status,
		"until balancers have noticed")
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(text, []byte("data: [DONE]\n\n")))
	require.NoError(t, <-r.served)
	r.served <- nil
	_, err = http.Get("http://" + r.address + "/readyz")
	require.Error(t, err)
	require.Zero(t, r.ledger.Stats().Open)
}

// A request that outlives -drain-timeout is cut off, and said to be.
func TestDrainTimeout(t *testing.T) {
	engine := newEngine(t, enginetest.Options{PrefillTokensPerSecond: 1e6, DecodeStep: time.Second})
	r := start(t, []*fakeEngine{engine}, "-drain-timeout", "50ms")
	body := strings.NewReader(`{"model": "demo", "prompt": "hello", "max_tokens": 50, "stream": true}`)
	resp, err := http.Post("http://"+r.address+"/v1/completions", "application/json", body)
	require.NoError(t, err)
	defer resp.Body.Close()
	r.terminate()
	err = <-r.served
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "1 requests were cut off")
	r.served <- nil
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
}

func TestLimits(t *testing.T) {
	engine := newEngine(t, enginetest.Options{PrefillTokensPerSecond: 1e6, DecodeStep: 10 * time.Millisecond})
	r := start(t, []*fakeEngine{engine}, "-max-body", "10000", "-max-header", "8192", "-max-in-flight", "1",
		"-body-timeout", "200ms", "-timeout", "3s")

	a := r.post("/v1/completions", `{"model": "demo", "prompt": "`+strings.Repeat("a", 10_000)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status, a.body)

	req, err := http.NewRequest(http.MethodGet, "http://"+r.address+"/v1/models", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("X-Long", strings.Repeat("a", 20_000))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)

	require.Equal(t, http.StatusNotFound, r.post("/reset_prefix_cache", "").status, "not the clients' business")

	slow, w := io.Pipe()
	go func() {
		for err := error(nil); err == nil; time.Sleep(20 * time.Millisecond) {
			_, err = w.Write([]byte("a"))
		}
	}()
	resp, err = http.Post("http://"+r.address+"/v1/completions", "application/json", slow)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
	slow.Close()

	// One stream longer than -body-timeout, and a second request beside it.
	first, err := http.Post("http://"+r.address+"/v1/completions", "application/json",
		strings.NewReader(`{"model": "demo", "prompt": "hello", "max_tokens": 80, "stream": true}`))
	require.NoError(t, err)
	defer first.Body.Close()
	a = r.post("/v1/completions", `{"model": "demo", "prompt": "b", "max_tokens": 1}`)
	require.Equal(t, http.StatusTooManyRequests, a.status, a.body)
	text, err := io.ReadAll(first.Body)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(text, []byte("data: [DONE]\n\n")))

	a = r.post("/v1/completions", `{"model": "demo", "prompt": "c", "max_tokens": 600}`)
	require.Equal(t, http.StatusGatewayTimeout, a.status, a.body)

	r.fleet.set(t.Context(), nil)
	a = r.post("/v1/completions", `{"model": "demo", "prompt": "d", "max_tokens": 1}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	status, why := r.get(0, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "no engine is up\n", why)
	require.Zero(t, r.ledger.Stats().Open)
}

// Models and adapters are asked of the engines: a request goes where its name is served,
// and a name that nobody serves is refused by an engine.
func TestModels(t *testing.T) {
	plain := newEngine(t, enginetest.Options{})
	adapted := newEngine(t, enginetest.Options{Adapters: []string{"sql"}})
	other := newEngine(t, enginetest.Options{Model: "other"})
	r := start(t, []*fakeEngine{plain, adapted, other})
	for i := range 10 {
		ask := func(model string) answer {
			return r.post("/v1/completions", fmt.Sprintf(`{"model": %q, "prompt": "question %d", "max_tokens": 1}`, model, i))
		}
		require.Equal(t, adapted.host, ask("sql").engine)
		require.Equal(t, other.host, ask("other").engine)
		require.NotEqual(t, other.host, ask("demo").engine)
		require.Equal(t, http.StatusNotFound, ask("nobody's").status)
	}
}

// The file adds an engine and removes the one that has a stream under way, which goes on
// to its end.
func TestEndpointsFileIsFollowed(t *testing.T) {
	a := newEngine(t, enginetest.Options{PrefillTokensPerSecond: 1e6, DecodeStep: 20 * time.Millisecond})
	b := newEngine(t, enginetest.Options{})
	path := filepath.Join(t.TempDir(), "endpoints.json")
	write := func(specs ...spec) {
		text, err := json.Marshal(map[string]any{"endpoints": specs})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	write(a.spec())
	r := start(t, nil, "-endpoints", path)
	r.wait(1)
	stream, err := http.Post("http://"+r.address+"/v1/completions", "application/json",
		strings.NewReader(`{"model": "demo", "prompt": "hello", "max_tokens": 250, "stream": true}`))
	require.NoError(t, err)
	defer stream.Body.Close()
	write(b.spec())
	require.Eventually(t, func() bool {
		return r.post("/v1/completions", `{"model": "demo", "prompt": "x", "max_tokens": 1}`).engine == b.host
	}, 20*time.Second, 20*time.Millisecond)
	moved := b.spec()
	moved.Events = nil
	write(moved)
	require.Eventually(t, func() bool { // joined anew, and without events, which it does not offer by itself
		l := (*r.fleet.engines.Load())[0].live.Load()
		return l != nil && l.up && len(l.subs) == 0
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.Eventually(t, func() bool { return r.followed.bad.Load() > 0 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, b.host, r.post("/v1/completions", `{"model": "demo", "prompt": "x", "max_tokens": 1}`).engine)
	text, err := io.ReadAll(stream.Body)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(text, []byte("data: [DONE]\n\n")))
}

// An engine dies under load and comes back with an empty cache. Only requests that were
// in flight on it fail, and none goes to it for what it held before.
func TestEngineDiesAndComesBack(t *testing.T) {
	a, b := newEngine(t, enginetest.Options{}), newEngine(t, enginetest.Options{})
	r := start(t, []*fakeEngine{a, b})
	first := r.post("/v1/chat/completions", chat("first"))
	require.Equal(t, http.StatusOK, first.status, first.body)
	victim, place := a, 0
	if first.engine == b.host {
		victim, place = b, 1
	}
	r.settle(a, b)
	require.Equal(t, victim.host, r.post("/v1/chat/completions", chat("second")).engine, "it is warm there")

	var died, failed atomic.Int64 // when; how many requests that had not begun before
	var stop atomic.Bool
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := 0; !stop.Load(); i++ {
				began := time.Now().UnixNano()
				resp, err := http.Post("http://"+r.address+"/v1/chat/completions", "application/json",
					strings.NewReader(chat(fmt.Sprint("client ", c, " question ", i))))
				ok := err == nil
				if ok {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					ok = err == nil && resp.StatusCode == http.StatusOK
				}
				if at := died.Load(); !ok && at > 0 && began > at {
					failed.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	victim.server.Close()
	time.Sleep(50 * time.Millisecond) // for idle connections to be seen closed
	died.Store(time.Now().UnixNano())
	require.NoError(t, victim.events.Restart(enginetest.RestartOptions{Down: 500 * time.Millisecond}))
	r.wait(1)
	l := (*r.fleet.engines.Load())[place].live.Load()
	before := r.ledger.Calibration(l.endpoint)
	victim.serve(t, victim.Engine)
	r.wait(2)
	time.Sleep(300 * time.Millisecond)
	stop.Store(true)
	clients.Wait()
	require.Zero(t, failed.Load(), "requests that began after it had died")

	r.settle(a, b)
	after := r.ledger.Calibration(l.endpoint)
	require.LessOrEqual(t, after.PredictedTokens-before.PredictedTokens, after.ReportedTokens-before.ReportedTokens,
		"nothing was expected of it that it did not have")
	require.Zero(t, r.ledger.Stats().Open)
}
