package picker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/scorer"
)

// Names are what a declared policy may call by a name that the host gave. A kind of the
// host's hides one of the library's that has its name.
type Names struct {
	Labels  map[string]uint64        // label bits
	Scorers map[string]scorer.Scorer // as kinds of scorers
	Filters map[string]Filter        // as kinds of filters and caps
}

// ParseOptions reads a policy written in JSON:
//
//	{
//	  "scorers": [
//	    {"kind": "prefix", "weight": 2, "floor": 2048},
//	    {"kind": "queue", "weight": 5, "norm": "to-least", "half": 8},
//	    {"kind": "signal", "name": "running", "weight": 1, "field": "running", "best": 0, "worst": 100}
//	  ],
//	  "filters": [{"kind": "label", "all": ["decode"], "none": ["drained"]}],
//	  "caps": [{"kind": "max-in-flight", "max": 64}, {"kind": "max-signal", "field": "waiting", "max": 20}],
//	  "select": {"band": 0.01, "home_band": 0.02, "bound": 1.25, "bound_floor": 8},
//	  "stale_after": "5s",
//	  "min_prompt_tokens": 512
//	}
//
// Each part may be left out, and is as in [Options] then. A scorer has a kind, a weight,
// and a name, which is its kind if it has none; its other fields are those of the type,
// in small letters with underscores. Kinds of scorers are prefix, queue, memory,
// load-requests, load-tokens, cost, session, adapter, signal; of filters and caps label,
// max-in-flight, max-signal, affinity-gate; and those in names. Fields of signals are
// waiting, running, cache-use, own-0 to own-3. Durations are strings such as "5s".
//
// The form is strict: what is unknown, given twice, of another type, or out of range is
// refused. The error is ErrPolicy, and says where by line, column and path, or by the field
// of Options where it takes several to be wrong, as with weights that sum to 0. What it
// returns passes New; Index, Ledger, Observers, Seed and Clock are left to the host.
func ParseOptions(text []byte, names Names) (Options, error) {
	root, err := parseTree(text)
	if err != nil {
		return Options{}, err
	}
	d := declaration{names: names}
	o := d.options(root)
	if d.err != nil {
		return Options{}, d.err
	}
	if _, err := newPolicy(&o); err != nil {
		return Options{}, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	return o, nil
}

// declaration is the reading of one policy; it keeps the first error.
type declaration struct {
	names Names
	err   error
}

func (d *declaration) options(root *node) (o Options) {
	r := d.object(root)
	for _, n := range r.list("scorers") {
		o.Scorers = append(o.Scorers, d.scorer(n))
	}
	if n := r.get("scorers"); n != nil && o.Scorers == nil {
		r.failf(n, "is empty; leave it out for the default scorers")
	}
	for _, n := range r.list("filters") {
		o.Filters = append(o.Filters, d.filter(n))
	}
	for _, n := range r.list("caps") {
		o.Caps = append(o.Caps, d.filter(n))
	}
	if n := r.get("select"); n != nil {
		s := d.object(n)
		s.float("band", &o.Select.Band)
		s.float("home_band", &o.Select.HomeBand)
		s.float("temperature", &o.Select.Temperature)
		s.float("max_ratio", &o.Select.MaxRatio)
		s.float("bound", &o.Select.Bound)
		s.int("bound_floor", &o.Select.BoundFloor)
		s.end()
		s.check(o.Select.validate())
	}
	r.duration("stale_after", &o.StaleAfter)
	r.int("min_prompt_tokens", &o.MinPromptTokens)
	r.end()
	return o
}

func (d *declaration) scorer(n *node) (w Weighted) {
	r := d.object(n)
	kind := r.kind()
	w.Name = kind
	r.text("name", &w.Name)
	if r.get("weight") == nil {
		r.failf(n, "has no weight")
	}
	if r.float("weight", &w.Weight); w.Weight < 0 {
		r.failf(r.n.fields["weight"], "is %v; it must not be negative", w.Weight)
	}
	if own, given := d.names.Scorers[kind]; given {
		w.Scorer = own
	} else {
		w.Scorer = r.scorer(kind)
	}
	r.end()
	r.validate(w.Scorer)
	return w
}

// scorer reads the fields of one of the library's scorers.
func (r *reader) scorer(kind string) scorer.Scorer {
	switch kind {
	case "prefix":
		var s scorer.Prefix
		r.float("cpu_weight", &s.CPUWeight)
		r.float("disk_weight", &s.DiskWeight)
		r.float("gap_weight", &s.GapWeight)
		r.float("stale_weight", &s.StaleWeight)
		r.int("floor", &s.Floor)
		r.norm(&s.Norm)
		return s
	case "queue":
		var s scorer.Queue
		r.norm(&s.Norm)
		r.float("half", &s.Half)
		return s
	case "memory":
		return scorer.Memory{}
	case "load-requests":
		var s scorer.LoadRequests
		r.norm(&s.Norm)
		r.float("half", &s.Half)
		return s
	case "load-tokens":
		var s scorer.LoadTokens
		r.norm(&s.Norm)
		r.float("half", &s.Half)
		return s
	case "cost":
		var s scorer.Cost
		r.duration("horizon", &s.Horizon)
		r.duration("per_waiting", &s.PerWaiting)
		r.float("prefill_rate", &s.PrefillRate)
		return s
	case "session":
		return scorer.Session{}
	case "adapter":
		return scorer.Adapter{}
	case "signal":
		var s scorer.Signal
		r.field(&s.Field)
		r.float("best", &s.Best)
		r.float("worst", &s.Worst)
		return s
	}
	r.unknownKind(kind, "prefix, queue, memory, load-requests, load-tokens, cost, session, adapter, signal",
		slices.Sorted(maps.Keys(r.d.names.Scorers)))
	return nil
}

func (d *declaration) filter(n *node) (f Named) {
	r := d.object(n)
	kind := r.kind()
	f.Name = kind
	r.text("name", &f.Name)
	if own, given := d.names.Filters[kind]; given {
		f.Filter = own
	} else {
		f.Filter = r.filter(kind)
	}
	r.end()
	r.validate(f.Filter)
	return f
}

// filter reads the fields of one of the library's filters and caps.
func (r *reader) filter(kind string) Filter {
	switch kind {
	case "label":
		var l Label
		r.labels("all", &l.All)
		r.labels("any", &l.Any)
		r.labels("none", &l.None)
		return l
	case "max-in-flight":
		var limit int
		r.int("max", &limit)
		return MaxInFlight(limit)
	case "max-signal":
		var m MaxSignal
		r.field(&m.Field)
		r.float("max", &m.Max)
		return m
	case "affinity-gate":
		var g AffinityGate
		r.float("share", &g.Share)
		r.int("max_tokens", &g.MaxTokens)
		r.int("max_requests", &g.MaxRequests)
		return g
	}
	r.unknownKind(kind, "label, max-in-flight, max-signal, affinity-gate",
		slices.Sorted(maps.Keys(r.d.names.Filters)))
	return nil
}

func (r *reader) validate(part any) {
	if isNil(part) {
		r.failf(r.n, "is nil")
		return
	}
	if v, ok := part.(scorer.Validator); ok {
		r.check(v.Validate())
	}
}

func (r *reader) kind() (kind string) {
	if r.text("kind", &kind); kind == "" {
		r.failf(r.n, "has no kind")
	}
	return kind
}

func (r *reader) unknownKind(kind, own string, hosts []string) {
	r.failf(r.n.fields["kind"], "is %q; known are %s", kind, strings.Join(append([]string{own}, hosts...), ", "))
}

func (r *reader) norm(to *scorer.Norm) {
	choose(r, "norm", to, []string{"absolute", "relative", "to-least"})
}

func (r *reader) field(to *scorer.Field) {
	choose(r, "field", to, []string{"waiting", "running", "cache-use", "own-0", "own-1", "own-2", "own-3"})
	if r.n.fields["field"] == nil {
		r.failf(r.n, "has no field")
	}
}

func (r *reader) labels(key string, to *uint64) {
	for _, n := range r.list(key) {
		bits, known := r.d.names.Labels[n.text]
		if n.kind != jsonString || !known {
			r.failf(n, "is %q; known labels are %s", n.text,
				strings.Join(slices.Sorted(maps.Keys(r.d.names.Labels)), ", "))
		}
		*to |= bits
	}
}
