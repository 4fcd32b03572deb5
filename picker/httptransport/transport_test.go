package httptransport_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
)

func TestRetries(t *testing.T) {
	closes := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	ok := says(200, "fine")
	for _, test := range []struct {
		name     string
		backends []http.HandlerFunc // nil: dead; each is better than the next
		attempts int
		status   int // 0: an error
		want     []picker.Result
	}{
		{"none is needed", []http.HandlerFunc{ok, ok}, 0, 200, []picker.Result{picker.OK}},
		{"dead", []http.HandlerFunc{nil, nil, ok}, 0, 200, []picker.Result{picker.Failed, picker.Failed, picker.OK}},
		{"busy", []http.HandlerFunc{says(429, "no"), says(503, "no"), ok}, 0, 200, []picker.Result{picker.Refused, picker.Refused, picker.OK}},
		{"all busy", []http.HandlerFunc{says(429, "no"), says(503, "no")}, 0, 503, []picker.Result{picker.Refused, picker.Refused}},
		{"all dead", []http.HandlerFunc{nil, nil}, 0, 0, []picker.Result{picker.Failed, picker.Failed}},
		{"attempts used up", []http.HandlerFunc{nil, says(503, "no"), ok}, 2, 503, []picker.Result{picker.Failed, picker.Refused}},
		{"not of what was computed", []http.HandlerFunc{says(500, "no"), ok}, 0, 500, []picker.Result{picker.Failed}},
		{"not of a wrong request", []http.HandlerFunc{says(400, "no"), ok}, 0, 400, []picker.Result{picker.Unsaid}},
		{"not of what broke an engine", []http.HandlerFunc{closes, ok}, 0, 0, []picker.Result{picker.Failed}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var urls []string
			for _, h := range test.backends {
				if h == nil {
					urls = append(urls, dead(t))
					continue
				}
				urls = append(urls, backend(t, func(w http.ResponseWriter, r *http.Request) {
					if body, _ := io.ReadAll(r.Body); string(body) != completion {
						t.Errorf("body: %s", body)
					}
					h(w, r)
				}).URL)
			}
			f := newFleet(t, urls, prefer, func(o *httptransport.Options, _ *picker.Options) { o.Attempts = test.attempts })
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(completion))
			res, err := f.RoundTrip(r)
			if test.status == 0 {
				require.Error(t, err)
				require.Contains(t, err.Error(), f.backends[len(test.want)-1].URL.Host)
			} else {
				require.NoError(t, err)
				require.Equal(t, test.status, res.StatusCode)
				answer, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.NotEmpty(t, answer)
				require.NoError(t, res.Body.Close())
			}
			require.Equal(t, test.want, f.results(t, len(test.want)))
			require.EqualValues(t, len(test.want)-1, f.Stats().Retries)
		})
	}
}

// A retry is a pick without those tried before, and what was tried is in flight no more.
func TestRetryHook(t *testing.T) {
	var asked []string
	flaky := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Host)
		w.WriteHeader(http.StatusInternalServerError)
	}
	a, b := backend(t, flaky), backend(t, flaky)
	f := newFleet(t, []string{a.URL, b.URL}, prefer, func(o *httptransport.Options, _ *picker.Options) {
		o.Retry = func(res *http.Response, _ error) bool {
			return res != nil && res.StatusCode == http.StatusInternalServerError
		}
	})
	res, _ := post(t, f, "http://x", completion)
	require.Equal(t, 500, res.StatusCode)
	require.Equal(t, []string{f.backends[0].URL.Host, f.backends[1].URL.Host}, asked)
}

// A dead backend has nothing in flight; it must not look best again and again.
func TestUndialedBackendRests(t *testing.T) {
	live := backend(t, says(200, "fine"))
	f := newFleet(t, []string{dead(t), live.URL}, prefer,
		func(o *httptransport.Options, _ *picker.Options) { o.Rest = 200 * time.Millisecond })
	for range 5 {
		post(t, f, "http://x", completion)
	}
	require.EqualValues(t, 1, f.Stats().Undialed)
	time.Sleep(210 * time.Millisecond)
	post(t, f, "http://x", completion)
	require.EqualValues(t, 2, f.Stats().Undialed, "it is tried again after its rest")

	// If nothing else is left, resting ones are tried.
	f.backends = f.backends[:1]
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(completion))
	_, err := f.RoundTrip(r)
	require.Error(t, err)
	require.EqualValues(t, 3, f.Stats().Undialed)
}

func TestRefusals(t *testing.T) {
	live := backend(t, says(200, "fine"))
	none := func(o *httptransport.Options, _ *picker.Options) {
		o.Backends = func(_ *http.Request, _ *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
			return list
		}
	}
	capped := func(_ *httptransport.Options, o *picker.Options) {
		o.Caps = []picker.Named{{Name: "cap", Filter: picker.MaxInFlight(1)}}
	}
	small := func(o *httptransport.Options, _ *picker.Options) {
		var err error
		o.Parser, err = openaireq.NewParser(openaireq.Options{MaxBytes: 10})
		require.NoError(t, err)
	}
	for _, test := range []struct {
		name       string
		of         func(*httptransport.Options, *picker.Options)
		status     int
		retryAfter string
	}{
		{"no candidates", none, 503, "1"},
		{"overloaded", capped, 429, "1"},
		{"too large", small, 413, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, []string{live.URL}, test.of)
			before := 0
			if test.status == 429 { // a reply that is not read yet is in flight
				res, err := f.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil))
				require.NoError(t, err)
				defer res.Body.Close()
				before = 1
			}
			res, body := post(t, f, "http://x", completion)
			require.Equal(t, test.status, res.StatusCode)
			require.Equal(t, test.retryAfter, res.Header.Get("Retry-After"))
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			require.EqualValues(t, len(body), res.ContentLength)
			var answer struct {
				Error struct{ Message, Type, Code string }
			}
			require.NoError(t, json.Unmarshal([]byte(body), &answer))
			require.NotEmpty(t, answer.Error.Message)
			require.NotEmpty(t, answer.Error.Type)
			require.Equal(t, before, f.picks)
		})
	}
}

// What a backend gets is what the caller sent.
func TestForwardsUnchanged(t *testing.T) {
	var got *http.Request
	var gotBody []byte
	engine := backend(t, func(w http.ResponseWriter, r *http.Request) {
		gotBody, _ = io.ReadAll(r.Body)
		got = r
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "answer")
		w.Header().Set("X-Sum", "7")
	})
	f := newFleet(t, []string{engine.URL + "/base%2Fpath/"},
		func(o *httptransport.Options, _ *picker.Options) { o.Header = "X-Served" })
	do := func(r *http.Request) *http.Response {
		before := *r
		res, err := f.RoundTrip(r)
		require.NoError(t, err)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if r.Method != http.MethodHead {
			require.Equal(t, "answer", string(answer))
		}
		require.Equal(t, f.backends[0].URL.Host, res.Header.Get("X-Served"))
		require.Equal(t, before.URL, r.URL, "the caller's request is not changed")
		require.Equal(t, before.Host, r.Host)
		return res
	}

	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://client.example.com/v1/completions%3A?a=1",
		struct{ io.Reader }{strings.NewReader(completion)})
	r.Header.Set("Expect", "100-continue")
	r.Header.Set("Authorization", "Bearer key")
	r.Trailer = http.Header{"X-Digest": {"abc"}}
	res := do(r)
	require.True(t, bytes.Equal([]byte(completion), gotBody), "%s", gotBody)
	require.Equal(t, "/base%2Fpath/v1/completions%3A?a=1", got.RequestURI)
	require.Equal(t, f.backends[0].URL.Host, got.Host)
	require.Equal(t, "Bearer key", got.Header.Get("Authorization"))
	require.Empty(t, got.Header.Get("Expect"))
	require.Equal(t, "100-continue", r.Header.Get("Expect"))
	require.Equal(t, "abc", got.Trailer.Get("X-Digest"))
	require.Equal(t, "7", res.Trailer.Get("X-Sum"))

	do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil))
	require.Empty(t, gotBody)
	do(httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/v1/models", nil))
	require.Equal(t, http.MethodHead, got.Method)

	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(completion))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	want := zipped.Bytes()
	r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", bytes.NewReader(want))
	r.Header.Set("Content-Encoding", "gzip")
	do(r)
	require.Equal(t, want, gotBody)
	require.EqualValues(t, 1, f.Stats().Unparsed)
	require.Equal(t, []picker.Result{picker.OK, picker.OK, picker.OK, picker.OK}, f.results(t, 4))
}

// A body that breaks off is an error, nothing is picked, and the body is closed.
func TestBodyBreaksOff(t *testing.T) {
	f := newFleet(t, []string{dead(t)})
	broken := errors.New("broken")
	body := &closeNoting{Reader: io.MultiReader(strings.NewReader(`{"mod`), failing{broken})}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", body)
	_, err := f.RoundTrip(r)
	require.ErrorIs(t, err, broken)
	require.True(t, body.closed)
	require.EqualValues(t, 1, f.Stats().Unread)
	require.Zero(t, f.picks)
}

type closeNoting struct {
	io.Reader
	closed bool
}

func (c *closeNoting) Close() error { c.closed = true; return nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestCanceledWhileTheEngineWorks(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	slow := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	f := newFleet(t, []string{slow.URL, slow.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", strings.NewReader(completion))
	_, err := f.RoundTrip(r)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []picker.Result{picker.Canceled}, f.results(t, 1))
	require.Zero(t, f.Stats().Retries)
}

// The index learns where prompts went, and the next pick knows it.
func TestRecords(t *testing.T) {
	urls := []string{backend(t, says(200, "{}")).URL, backend(t, says(200, "{}")).URL}
	ids := `{"model":"m","prompt":[` + strings.Repeat("7,", 63) + `7]}`
	text := `{"model":"m","prompt":"` + strings.Repeat("a text of some length, ", 50) + `"}`
	for _, test := range []struct {
		name, prompt string
		of           func(*httptransport.Options)
		cached       float64
	}{
		{"nothing", ids, func(*httptransport.Options) {}, 0},
		{"insert", ids, func(o *httptransport.Options) { o.Insert = true }, 48},
		{"expect", ids, func(o *httptransport.Options) { o.Expect = time.Minute }, 48},
		{"bytes", text, func(o *httptransport.Options) { o.Insert, o.Bytes = true, true }, 272},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, urls, func(o *httptransport.Options, po *picker.Options) {
				test.of(o)
				o.Index = po.Index
			})
			for range 3 {
				post(t, f, "http://x", test.prompt)
			}
			f.results(t, 3)
			first, last := f.ended[0].Decision, f.ended[2].Decision
			cached, _ := last.CachedTokens.Get()
			require.InDelta(t, test.cached, cached, 0)
			if cached > 0 {
				require.Equal(t, first.Endpoint, last.Endpoint)
			}

			f.index.Leave(f.backends[0].Candidate.Endpoint)
			f.index.Leave(f.backends[1].Candidate.Endpoint)
			require.Zero(t, f.Stats().Unrecorded)
			post(t, f, "http://x", test.prompt)
			require.Equal(t, test.cached > 0, f.Stats().Unrecorded == 1)
		})
	}
}

func TestOptions(t *testing.T) {
	pk, err := picker.New(picker.Options{})
	require.NoError(t, err)
	good := httptransport.Options{Picker: pk, Backends: func(_ *http.Request, _ *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
		return list
	}}
	for want, change := range map[string]func(*httptransport.Options){
		"Picker":    func(o *httptransport.Options) { o.Picker = nil },
		"Backends":  func(o *httptransport.Options) { o.Backends = nil },
		"Tokenizer": func(o *httptransport.Options) { o.Tokenizer, o.Bytes = openaireq.TokenizerFunc(nil), true },
		"Expect is": func(o *httptransport.Options) { o.Expect = -1 },
		"Insert":    func(o *httptransport.Options) { o.Insert, o.Expect = true, 1 },
		"Index":     func(o *httptransport.Options) { o.Insert = true },
		"Attempts":  func(o *httptransport.Options) { o.Attempts = 17 },
	} {
		o := good
		change(&o)
		_, err := httptransport.New(o)
		require.ErrorIs(t, err, httptransport.ErrOptions)
		require.Contains(t, err.Error(), want)
	}
}

// A backend without a URL is an error, not a panic.
// contexts is an observer that keeps the contexts of picks.
type contexts []context.Context

func (c *contexts) OnPick(e picker.PickEvent) { *c = append(*c, e.Call.Context) }

// Spans of picks belong within those of their requests.
func TestObserversHaveTheContext(t *testing.T) {
	var seen contexts
	f := newFleet(t, []string{backend(t, says(200, "fine")).URL}, func(_ *httptransport.Options, o *picker.Options) {
		o.Observers = append(o.Observers, &seen)
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(completion))
	res, err := f.RoundTrip(r)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, contexts{r.Context()}, seen)
}

func TestBadBackend(t *testing.T) {
	f := newFleet(t, nil)
	f.backends = []httptransport.Backend{{}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil)
	_, err := f.RoundTrip(r)
	require.ErrorIs(t, err, httptransport.ErrBackend)
}
