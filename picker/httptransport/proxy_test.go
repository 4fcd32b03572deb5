package httptransport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
)

// newClient returns a client without redirects of its own, that leaves no connection.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	base := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: base}
}

// request makes a request for a completion; the proxy's URL is a good one.
func request(ctx context.Context, proxy *httptest.Server, body string) *http.Request {
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, proxy.URL+"/v1/completions", strings.NewReader(body))
	return r
}

// Events reach the client one by one, as the engine writes them, and the first of them
// ends the prefill in the ledger.
func TestProxyStreams(t *testing.T) {
	next := make(chan string)
	engine := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for event := range next {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
			_ = http.NewResponseController(w).Flush()
		}
	})
	f := newFleet(t, []string{engine.URL})
	proxy := f.proxy(t)
	got := make(chan *http.Response)
	go func() {
		res, err := newClient(t).Do(request(t.Context(), proxy, completion))
		if err != nil {
			t.Error(err)
		}
		got <- res
	}()
	next <- "{}"
	res := <-got
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for _, event := range []string{"{}", `{"usage":{"prompt_tokens_details":{"cached_tokens":2}}}`, "[DONE]"} {
		if event != "{}" {
			next <- event
		}
		require.True(t, lines.Scan())
		require.Equal(t, "data: "+event, lines.Text())
		require.True(t, lines.Scan())
		require.Empty(t, lines.Text())
		requests, tokens := f.ledger.InFlight(f.backends[0].Candidate.Endpoint)
		require.Equal(t, 1, requests)
		require.Zero(t, tokens)
		require.EqualValues(t, 1, f.ledger.Stats().FirstTokens)
	}
	close(next)
	require.False(t, lines.Scan())
	require.Equal(t, []picker.Result{picker.OK}, f.results(t, 1))
	cached, _ := f.ended[0].Outcome.CachedTokens.Get()
	require.InDelta(t, 2, cached, 0)
	require.Positive(t, f.ended[0].FirstToken)
}

// Clients that leave, before the first token and in the middle of a stream: the engine is
// told at once, and the load is gone.
func TestProxyDisconnects(t *testing.T) {
	var working, begun atomic.Int64
	engine := backend(t, func(w http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		working.Add(1)
		defer working.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Begin") != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	f := newFleet(t, []string{engine.URL})
	proxy, client := f.proxy(t), newClient(t)
	const each = 20
	var clients sync.WaitGroup
	for range each {
		clients.Go(func() { // reads an event and leaves
			r := request(t.Context(), proxy, completion)
			r.Header.Set("X-Begin", "1")
			res, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = res.Body.Read(make([]byte, 100))
			_ = res.Body.Close()
		})
		clients.Go(func() { // has no patience
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := client.Do(request(ctx, proxy, completion))
			if err == nil {
				t.Error("a reply where there should be none")
			}
		})
	}
	clients.Wait()
	require.Eventually(t, func() bool { return working.Load() == 0 }, 5*time.Second, time.Millisecond)
	results := f.results(t, int(begun.Load())) // of the impatient, some may not have come that far
	require.GreaterOrEqual(t, len(results), each)
	for _, result := range results {
		require.Equal(t, picker.Canceled, result)
	}
	require.Zero(t, f.Stats().Retries)
}

// Of three backends one is dead and one never answers in time; what goes to the third is
// served whatever happens to the others.
func TestProxyDeadAndSlow(t *testing.T) {
	slow := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	live := backend(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	f := newFleet(t, []string{dead(t), slow.URL, live.URL})
	proxy, client := f.proxy(t), newClient(t)
	var served, late atomic.Int64
	var clients sync.WaitGroup
	for i := range 60 {
		clients.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			body := fmt.Sprintf(`{"model":"m","prompt":[%d],"max_tokens":4}`, i)
			res, err := client.Do(request(ctx, proxy, body))
			if err != nil {
				late.Add(1)
				return
			}
			defer res.Body.Close()
			answer, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK || string(answer) != body {
				t.Error(res.StatusCode, err, string(answer))
			}
			served.Add(1)
		})
	}
	clients.Wait()
	require.Positive(t, served.Load())
	require.Positive(t, f.Stats().Undialed)
	require.LessOrEqual(t, late.Load(), int64(45), "load keeps requests from the slow one")
	require.EqualValues(t, 60, served.Load()+late.Load())
}

// No backend that answers: an error in OpenAI's JSON.
func TestProxyErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		urls   []string
		of     func(*httptransport.Options)
		status int
	}{
		{"dead", []string{dead(t)}, func(*httptransport.Options) {}, 502},
		{"late", []string{backend(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}).URL}, func(o *httptransport.Options) {
			o.Base = &http.Transport{ResponseHeaderTimeout: 50 * time.Millisecond}
		}, 504},
		{"none", nil, func(*httptransport.Options) {}, 503},
		{"oversized", []string{dead(t)}, func(o *httptransport.Options) {
			o.Parser, _ = openaireq.NewParser(openaireq.Options{MaxBytes: 1 << 20})
		}, 413},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, test.urls, func(o *httptransport.Options, _ *picker.Options) { test.of(o) })
			body := completion
			if test.status == 413 {
				body = `{"prompt":"` + strings.Repeat("x", 2<<20) + `"}`
			}
			for _, length := range []int64{int64(len(body)), -1} { // -1: chunked
				r := request(t.Context(), f.proxy(t), body)
				r.ContentLength = length
				res, err := newClient(t).Do(r)
				require.NoError(t, err)
				answer, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				require.Equal(t, test.status, res.StatusCode)
				require.Contains(t, string(answer), `{"error":{"message":"`)
				require.NotContains(t, string(answer), "127.0.0.1", "the fleet is not told to clients")
			}
		})
	}
}

// Upgrades, as of the realtime API, pass both ways, and are in flight until they close.
func TestProxyUpgrades(t *testing.T) {
	engine := backend(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
			r.Header.Get("Upgrade"))
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw) // an echo, to the client's end
	})
	f := newFleet(t, []string{dead(t), engine.URL}, prefer)
	proxy := f.proxy(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", proxy.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	for range 3 {
		_, err = io.WriteString(conn, "frame\n")
		require.NoError(t, err)
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "frame\n", line)
	}
	requests, _ := f.ledger.InFlight(f.backends[1].Candidate.Endpoint)
	require.Equal(t, 1, requests)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "one direction ends, then the other")
	require.Equal(t, []picker.Result{picker.Failed, picker.OK}, f.results(t, 2))
	require.EqualValues(t, 1, f.Stats().Upgrades)
}

// Informational replies come before the reply.
func TestProxyInformational(t *testing.T) {
	engine := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Hint", "1")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "fine")
	})
	f := newFleet(t, []string{engine.URL})
	var hints []int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			hints = append(hints, code)
			return nil
		},
	})
	r := request(ctx, f.proxy(t), completion)
	r.Header.Set("Expect", "100-continue")
	res, err := newClient(t).Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "fine", string(answer))
	require.Equal(t, []int{http.StatusContinue, http.StatusEarlyHints}, hints)
}

// Many clients at once, streaming and not, some of which leave, before engines of which
// one dies under them: all that ends well is whole, and every pick is released.
func TestProxyThousand(t *testing.T) {
	var urls []string
	var servers []*httptest.Server
	for range 3 {
		engine, err := enginetest.New(enginetest.Options{
			Model: "m", PrefillTokensPerSecond: 1e7, DecodeStep: time.Millisecond,
		})
		require.NoError(t, err)
		t.Cleanup(engine.Close)
		servers = append(servers, backend(t, engine.ServeHTTP))
		urls = append(urls, servers[len(servers)-1].URL)
	}
	f := newFleet(t, urls, func(o *httptransport.Options, po *picker.Options) {
		o.Index, o.Expect = po.Index, time.Second
	})
	proxy, client := f.proxy(t), newClient(t)
	var whole, broken, left atomic.Int64
	var clients sync.WaitGroup
	for i := range 1000 {
		clients.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body := fmt.Sprintf(`{"model":"m","prompt":[%s%d],"max_tokens":10,"stream":%t}`,
				strings.Repeat("5,", i%200), i, i%2 == 0)
			res, err := client.Do(request(ctx, proxy, body))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if i%10 == 0 {
				left.Add(1)
				return
			}
			answer, err := io.ReadAll(res.Body)
			switch {
			case res.StatusCode == http.StatusBadGateway || err != nil:
				broken.Add(1) // was on the engine that died
			case res.StatusCode != http.StatusOK, i%2 == 0 && !strings.HasSuffix(string(answer), "data: [DONE]\n\n"):
				t.Error(res.StatusCode, string(answer))
			default:
				whole.Add(1)
			}
		})
		if i == 500 {
			clients.Go(func() {
				_ = servers[0].Listener.Close()
				servers[0].CloseClientConnections()
			})
		}
	}
	clients.Wait()
	t.Logf("%d whole, %d broken, %d left; %+v", whole.Load(), broken.Load(), left.Load(), f.Stats())
	require.EqualValues(t, 1000, whole.Load()+broken.Load()+left.Load())
	require.Greater(t, whole.Load(), int64(500))
	f.results(t, f.picks)
}

// While a reply streams, which may take minutes, the request's bytes are not kept.
func TestBytesAreLetGo(t *testing.T) {
	done := make(chan struct{})
	engine := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush()
		<-done
	})
	f := newFleet(t, []string{engine.URL})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const streams, size = 32, 1 << 20
	var open []*http.Response
	for range streams {
		body := io.MultiReader(strings.NewReader(`{"model":"`), io.LimitReader(xs{}, size), strings.NewReader(`"}`))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", body)
		res, err := f.RoundTrip(r)
		require.NoError(t, err)
		open = append(open, res)
	}
	grown := int64(heap()) - int64(before)
	close(done)
	for _, res := range open {
		_, _ = io.Copy(io.Discard, res.Body)
		require.NoError(t, res.Body.Close())
	}
	require.Less(t, grown, int64(streams*size/4))
}

type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
