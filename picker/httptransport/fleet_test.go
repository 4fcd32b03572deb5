package httptransport_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a transport before some backends, and what it reported.
type fleet struct {
	*httptransport.Transport
	index    *prefixindex.Index
	ledger   *picker.Ledger
	backends []httptransport.Backend

	mu    sync.Mutex
	picks int
	ended []picker.DoneEvent
}

func (f *fleet) OnPick(e picker.PickEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Err == nil {
		f.picks++
	}
}

func (f *fleet) OnDone(e picker.DoneEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, e)
}

// newFleet makes a transport before backends of those URLs. When the test ends, every
// pick must have been released once. of may change the options and the picker's.
func newFleet(t *testing.T, urls []string, of ...func(*httptransport.Options, *picker.Options)) *fleet {
	t.Helper()
	f := new(fleet)
	var err error
	f.index, err = prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	f.ledger, err = picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	po := picker.Options{Index: f.index, Ledger: f.ledger, Seed: 1, Observers: []picker.Observer{f}}
	o := httptransport.Options{
		Backends: func(_ *http.Request, _ *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
			return append(list, f.backends...)
		},
	}
	for _, change := range of {
		change(&o, &po)
	}
	o.Picker, err = picker.New(po)
	require.NoError(t, err)
	f.Transport, err = httptransport.New(o)
	require.NoError(t, err)
	for _, s := range urls {
		u, err := url.Parse(s)
		require.NoError(t, err)
		endpoint, err := f.index.Join(u.Host)
		require.NoError(t, err)
		f.backends = append(f.backends, httptransport.Backend{URL: u, Candidate: scorer.Candidate{Endpoint: endpoint}})
	}
	t.Cleanup(func() {
		f.CloseIdleConnections()
		require.Eventually(t, func() bool { return f.ledger.Stats().Open == 0 }, 5*time.Second, time.Millisecond)
		st := f.ledger.Stats()
		require.Equal(t, st.Reserved, st.Released)
		require.EqualValues(t, f.picks, st.Released)
		require.Zero(t, st.DoubleRelease)
		for i := range f.backends {
			requests, tokens := f.ledger.InFlight(f.backends[i].Candidate.Endpoint)
			require.Zero(t, requests)
			require.Zero(t, tokens)
		}
	})
	return f
}

// prefer makes the first backend the best as long as it can win.
func prefer(_ *httptransport.Options, o *picker.Options) {
	o.Scorers = []picker.Weighted{{Name: "first", Weight: 1, Scorer: scorer.Func(func(_ *scorer.Input, out []float64) {
		for i := range out {
			out[i] = 1 / float64(i+1)
		}
	})}}
}

// results waits until n requests have ended, and returns how.
func (f *fleet) results(t *testing.T, n int) []picker.Result {
	t.Helper()
	var results []picker.Result
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		results = nil
		for i := range f.ended {
			results = append(results, f.ended[i].Outcome.Result)
		}
		return len(results) >= n
	}, 5*time.Second, time.Millisecond)
	return results
}

// proxy starts a reverse proxy with the transport.
func (f *fleet) proxy(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetXForwarded() },
		Transport:    f,
		ErrorHandler: httptransport.ErrorHandler,
	})
	t.Cleanup(server.Close)
	return server
}

// backend starts a server.
func backend(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// dead is the address of no server.
func dead(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}

// says answers every request with a status and a body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const completion = `{"model":"m","prompt":[1,2,3],"max_tokens":4}`

// post sends a completion, and returns the reply, read.
func post(t *testing.T, rt http.RoundTripper, base, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/completions", strings.NewReader(body))
	require.NoError(t, err)
	res, err := rt.RoundTrip(r)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(answer)
}
