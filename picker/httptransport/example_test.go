package httptransport_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// A reverse proxy before two engines, one of which cannot be reached.
func Example() {
	engine, err := enginetest.New(enginetest.Options{Model: "llama"})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()

	ix, err := prefixindex.New(prefixindex.Options{})
	if err != nil {
		panic(err)
	}
	pk, err := picker.New(picker.Options{Index: ix})
	if err != nil {
		panic(err)
	}
	var backends []httptransport.Backend
	for _, base := range []string{"http://127.0.0.1:1", server.URL} {
		u, err := url.Parse(base)
		if err != nil {
			panic(err)
		}
		endpoint, err := ix.Join(u.Host)
		if err != nil {
			panic(err)
		}
		backends = append(backends, httptransport.Backend{URL: u, Candidate: scorer.Candidate{Endpoint: endpoint}})
	}
	transport, err := httptransport.New(httptransport.Options{
		Picker: pk,
		Backends: func(_ *http.Request, _ *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
			return append(list, backends...)
		},
	})
	if err != nil {
		panic(err)
	}
	defer transport.CloseIdleConnections()
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetXForwarded() },
		Transport:    transport,
		ErrorHandler: httptransport.ErrorHandler,
	})
	defer proxy.Close()

	res, err := http.Post(proxy.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"model":"llama","prompt":[1,2,3],"max_tokens":2}`))
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Println(res.StatusCode, len(body) > 0, err)
	// Output:
	// 200 true <nil>
}
