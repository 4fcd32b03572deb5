package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/debugview"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
)

// gateway is the library put together, behind two HTTP servers.
type gateway struct {
	config
	index  *prefixindex.Index
	ledger *picker.Ledger
	picker *picker.Picker
	view   *debugview.View
	fleet  *fleet

	followed  *endpointsFile // nil: the engines are those of the flags
	transport *httptransport.Transport

	stop      context.CancelFunc // of fleet
	servers   []*http.Server     // the gateway's and the operators'
	listeners []net.Listener
	draining  atomic.Bool
}

// newGateway listens and begins to follow the engines; serve serves.
func newGateway(c config) (*gateway, error) {
	ctx, stop := context.WithCancel(context.Background())
	g := &gateway{config: c, stop: stop}
	if err := g.build(ctx); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// build fails half-way where an option is bad or an address is taken.
func (g *gateway) build(ctx context.Context) (err error) {
	if g.index, err = prefixindex.New(prefixindex.Options{MaxBytes: int64(g.maxIndex)}); err != nil {
		return err
	}
	if g.ledger, err = picker.NewLedger(picker.LedgerOptions{}); err != nil {
		return err
	}
	if g.view, err = debugview.New(debugview.Options{Sources: g.sources}); err != nil {
		return err
	}
	g.picker, err = picker.New(picker.Options{
		Index: g.index, Ledger: g.ledger, Observers: []picker.Observer{g.view.Observer("main")},
		Caps: []picker.Named{{Name: "max in flight", Filter: picker.MaxInFlight(g.maxInFlight)}},
	})
	if err != nil {
		return err
	}
	if g.fleet, err = newFleet(ctx, g.index, g.render, g.log); err != nil {
		return err
	}
	parser, err := openaireq.NewParser(openaireq.Options{Resolve: g.fleet.resolve, MaxBytes: int64(g.maxBody)})
	if err != nil {
		return err
	}
	g.transport, err = httptransport.New(httptransport.Options{
		Picker: g.picker, Parser: parser, Tokenizer: g.fleet.tokens, Backends: g.fleet.backends, Header: g.header,
	})
	if err != nil {
		return err
	}

	if err := g.open(g.listen, g.handler()); err != nil {
		return err
	}
	if err := g.open(g.admin, g.adminHandler()); err != nil {
		return err
	}

	g.fleet.set(ctx, g.engines)
	if g.file != "" {
		g.followed = &endpointsFile{path: g.file, set: func(s []spec) { g.fleet.set(ctx, s) }, log: g.log}
		if err := g.followed.look(); err != nil {
			return err
		}
		g.fleet.running.Go(func() { g.followed.follow(ctx) })
	}
	return nil
}

// open listens, for what serve will serve.
func (g *gateway) open(address string, h http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	g.listeners = append(g.listeners, l)
	g.servers = append(g.servers, &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    g.maxHeader,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // of clients' connections
	})
	return nil
}

// handler is what clients see. Of the engines they see /v1/ and nothing else: the paths
// beside it reset caches, load adapters, and put engines to sleep.
func (g *gateway) handler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetXForwarded() },
		Transport:    g.transport,
		ErrorHandler: g.failed,
		BufferPool:   new(buffers),
		ErrorLog:     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // of replies that broke off
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), g.timeout)
		defer cancel()
		if conn := http.NewResponseController(w); r.ContentLength != 0 {
			_ = conn.SetReadDeadline(time.Now().Add(g.bodyTimeout)) // HTTP/1 can
			r.Body = &timedBody{r.Body, conn}
		}
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})
	g.health(mux)
	return mux
}

// timedBody lifts the deadline for a request's body at its end: a connection on which
// nothing may be read any more ends the request, whose reply may take long.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.conn.SetReadDeadline(time.Time{}) // it could be set before
	}
	return n, err
}

// failed answers a request that no engine did.
func (g *gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // that of the body; others are of a context
		http.Error(w, "the request's body did not arrive in time", http.StatusRequestTimeout)
		return
	case r.Context().Err() == nil || errors.Is(err, context.DeadlineExceeded): // else the client is gone
		g.log.Warn("request failed", "path", r.URL.Path, "err", err)
	}
	httptransport.ErrorHandler(w, r, err)
}

// buffers are what replies are copied with. Those of a stream are short.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[8 << 10]byte); ok {
		return buffer[:]
	}
	return make([]byte, 8<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[8 << 10]byte)(buffer)) }

// serve serves until ctx ends, and then drains: /readyz fails, so that whoever balances
// over gateways stops sending; after drainDelay nothing new is accepted; what is under
// way has drainTimeout to end.
func (g *gateway) serve(ctx context.Context) error {
	defer g.close()
	failed := make(chan error, len(g.servers))
	for i, s := range g.servers {
		go func() { failed <- s.Serve(g.listeners[i]) }()
	}
	g.log.Info("serving", "address", g.listeners[0].Addr(), "admin", g.listeners[1].Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	g.draining.Store(true)
	g.log.Info("draining", "requests", g.ledger.Stats().Open, "delay", g.drainDelay, "timeout", g.drainTimeout)
	g.servers[0].SetKeepAlivesEnabled(false)
	time.Sleep(g.drainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), g.drainTimeout)
	defer cancel()
	if err := g.servers[0].Shutdown(ctx); err != nil {
		return fmt.Errorf("%d requests were cut off after %v: %w", g.ledger.Stats().Open, g.drainTimeout, err)
	}
	return nil
}

// close ends everything at once.
func (g *gateway) close() {
	for i, s := range g.servers {
		s.Close()
		g.listeners[i].Close() // which s does not know if it did not serve
	}
	g.stop()
	if g.fleet != nil {
		g.fleet.running.Wait()
		g.fleet.client.CloseIdleConnections()
		g.fleet.tokens.Close()
	}
	if g.transport != nil {
		g.transport.CloseIdleConnections()
	}
}
