package picker

import (
	"math"
	"slices"
	"strings"
	"time"
)

// reader reads the fields of one object, and remembers which it was asked for.
type reader struct {
	d     *declaration
	n     *node
	asked []string
}

func (d *declaration) object(n *node) *reader {
	r := &reader{d: d, n: n}
	if n.kind != jsonObject {
		r.failf(n, "is %s; it must be an object", n.kind)
	}
	return r
}

func (r *reader) failf(n *node, format string, args ...any) {
	if r.d.err == nil {
		r.d.err = n.errorf(format, args...)
	}
}

func (r *reader) get(key string) *node {
	r.asked = append(r.asked, key)
	return r.n.fields[key]
}

// end refuses fields that nobody asked for.
func (r *reader) end() {
	for _, key := range r.n.order {
		if !slices.Contains(r.asked, key) {
			slices.Sort(r.asked)
			r.failf(r.n.fields[key], "is not known here; known are %s", strings.Join(slices.Compact(r.asked), ", "))
		}
	}
}

func (r *reader) check(err error) {
	if err != nil {
		r.failf(r.n, "%w", err)
	}
}

func (r *reader) float(key string, to *float64) {
	if n := r.get(key); n != nil {
		if n.kind != jsonNumber {
			r.failf(n, "is %s; it must be a number", n.kind)
		}
		*to = n.number
	}
}

func (r *reader) int(key string, to *int) {
	var x float64
	r.float(key, &x)
	if x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
		r.failf(r.n.fields[key], "is %v; it must be a whole number of at most %d", x, math.MaxInt32)
		return
	}
	*to = int(x)
}

func (r *reader) text(key string, to *string) {
	if n := r.get(key); n != nil {
		if n.kind != jsonString {
			r.failf(n, "is %s; it must be a string", n.kind)
		}
		*to = n.text
	}
}

func (r *reader) list(key string) []*node {
	n := r.get(key)
	if n != nil && n.kind != jsonList {
		r.failf(n, "is %s; it must be a list", n.kind)
	}
	if n == nil {
		return nil
	}
	return n.items
}

func (r *reader) duration(key string, to *time.Duration) {
	var s string
	r.text(key, &s)
	if n := r.n.fields[key]; n != nil && n.kind == jsonString {
		d, err := time.ParseDuration(s)
		if err != nil {
			r.failf(n, "is %q; it must be a duration such as \"5s\"", s)
		}
		*to = d
	}
}

// choose reads a name that stands for its place in a list.
func choose[T ~uint8](r *reader, key string, to *T, names []string) {
	var s string
	r.text(key, &s)
	if n := r.n.fields[key]; n != nil {
		at := slices.Index(names, s)
		if at < 0 {
			r.failf(n, "is %q; known are %s", s, strings.Join(names, ", "))
		}
		*to = T(max(at, 0))
	}
}
