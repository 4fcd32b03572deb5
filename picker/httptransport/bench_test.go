package httptransport_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// BenchmarkRoundTrip is a prompt of 10,240 ids and a streamed reply of 200 events, in
// memory; impl=none is what the transport below takes of it.
func BenchmarkRoundTrip(b *testing.B) {
	body := `{"model":"m","prompt":[` + strings.Repeat("70123,", 10_239) + `7],"max_tokens":200,"stream":true}`
	event := `data: {"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":" word"}],"usage":null}` + "\n\n"
	events := strings.Repeat(event, 200) + "data: [DONE]\n\n"
	base := replies{stream, func() io.Reader { return strings.NewReader(events) }}
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(b, err)
	pk, err := picker.New(picker.Options{Index: ix})
	require.NoError(b, err)
	var backends []httptransport.Backend
	for i := range 64 {
		host := fmt.Sprintf("engine-%d:8000", i)
		endpoint, err := ix.Join(host)
		require.NoError(b, err)
		backends = append(backends, httptransport.Backend{
			URL: &url.URL{Scheme: "http", Host: host}, Candidate: scorer.Candidate{Endpoint: endpoint},
		})
	}
	transport, err := httptransport.New(httptransport.Options{
		Picker: pk, Base: base,
		Backends: func(_ *http.Request, _ *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
			return append(list, backends...)
		},
	})
	require.NoError(b, err)
	for _, impl := range []struct {
		name string
		rt   http.RoundTripper
	}{{"none", base}, {"warmroute", transport}} {
		b.Run("impl="+impl.name+"/endpoints=64/tokens=10240/events=200", func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, len(event)) // a read for each event
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/completions", strings.NewReader(body))
				res, err := impl.rt.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = res.Body.Read(buf)
				}
				_ = res.Body.Close()
			}
		})
	}
}
