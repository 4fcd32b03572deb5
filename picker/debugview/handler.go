package debugview

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"strconv"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/metrics"
)

//go:embed page.html decision.html page.css page.js
var files embed.FS

func (v *View) routes() (*http.ServeMux, error) {
	pages, err := template.New("").Funcs(functions()).ParseFS(files, "*.html")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		serve(w, pages, "page.html", v.state())
	})
	mux.HandleFunc("GET /decision", func(w http.ResponseWriter, r *http.Request) {
		if x := v.explanation(r); x != nil {
			serve(w, pages, "decision.html", x)
		} else {
			http.Error(w, gone, http.StatusNotFound)
		}
	})
	mux.HandleFunc("GET /state.json", func(w http.ResponseWriter, _ *http.Request) { serveJSON(w, v.state()) })
	mux.HandleFunc("GET /decision.json", func(w http.ResponseWriter, r *http.Request) {
		if d := v.decision(r); d != nil {
			serveJSON(w, &d.record)
		} else {
			http.Error(w, gone, http.StatusNotFound)
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		src := v.o.Sources()
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = metrics.Write(w, src.All()) // fails if the client is gone
	})
	static := http.FileServerFS(files)
	mux.Handle("GET /page.css", static)
	mux.Handle("GET /page.js", static)
	return mux, nil
}

const gone = "This decision is not kept any more, or never was."

// ServeHTTP serves the page and what belongs to it; see the package comment. What it
// serves may not be framed, and loads nothing from elsewhere.
func (v *View) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	v.mux.ServeHTTP(w, r)
}

// id is that of the decision asked for, or zero, which no decision has.
func id(r *http.Request) uint64 {
	n, _ := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	return n
}

// decision returns a copy of the one asked for, or nil.
func (v *View) decision(r *http.Request) *decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept := v.kept.get(id(r))
	if kept == nil {
		return nil
	}
	d := *kept
	d.record = picker.Record{}
	copyRecord(&d.record, &kept.record)
	return &d
}

func (v *View) explanation(r *http.Request) *explanation {
	d := v.decision(r)
	if d == nil {
		return nil
	}
	moved := ""
	if d.done && d.end.Endpoint != d.end.Decision.Endpoint {
		moved = "nobody known"
		if index := v.o.Sources().Index; index != nil && index.Name(d.end.Endpoint) != "" {
			moved = index.Name(d.end.Endpoint)
		}
	}
	return d.explain(moved)
}

// serve writes a page. It is complete before anything is sent.
func serve(w http.ResponseWriter, pages *template.Template, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w)
}

func serveJSON(w http.ResponseWriter, data any) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(data) // fails if the client is gone
}
