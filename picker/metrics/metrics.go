package metrics

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// Kind says how a metric behaves.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota // only grows, from when what it describes was made
	Gauge               // goes up and down
)

// Label tells metrics of one name apart.
type Label struct{ Name, Value string }

// Metric is one number.
type Metric struct {
	Name   string // warmroute_picker_picks_total
	Help   string
	Unit   string // "seconds", "tokens", or "" for a plain count or share
	Kind   Kind
	Labels []Label // in order of names given, then those of the metric itself
	Value  float64
}

// Stats are the structs that are counted in.
type Stats interface {
	prefixindex.Stats | kvevents.SubscriberStats | kvevents.DemuxStats | zmtp.SourceStats |
		picker.Stats | picker.LedgerStats | picker.Calibration |
		enginemetrics.Stats | openaireq.ClientStats | httptransport.Stats | EndpointStats
}

// Of yields every number in s. labels, which say whose s it is, are put on each metric;
// they are not copied. Values that are not known, such as a rate that was not learned
// yet, are left out. The zero S yields every name that there can be, for descriptions
// made before anything was counted, except those.
//
// O(fields) with reflection, and it allocates: for pages and scrapes, not for picks. Safe
// for concurrent use.
func Of[S Stats](s S, labels ...Label) iter.Seq[Metric] {
	return func(yield func(Metric) bool) {
		w := walk{labels: labels, yield: yield}
		w.fields("warmroute_"+subject(s), reflect.ValueOf(s))
	}
}

// subject is the part of the name that says what is counted.
func subject(s any) string {
	switch s.(type) {
	case prefixindex.Stats:
		return "index"
	case kvevents.SubscriberStats:
		return "subscriber"
	case kvevents.DemuxStats:
		return "demux"
	case zmtp.SourceStats:
		return "source"
	case picker.LedgerStats:
		return "ledger"
	case picker.Calibration:
		return "calibration"
	case enginemetrics.Stats:
		return "scraper"
	case openaireq.ClientStats:
		return "tokenizer"
	case httptransport.Stats:
		return "transport"
	case EndpointStats:
		return "endpoint"
	default:
		return "picker"
	}
}

// walk goes through a struct of numbers.
type walk struct {
	labels  []Label
	yield   func(Metric) bool
	stopped bool
}

// fields yields the fields of the struct v. prefix is the name so far.
func (w *walk) fields(prefix string, v reflect.Value) {
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		m := Metric{
			Name:   prefix + "_" + snake(field.Name),
			Help:   help[v.Type().String()+"."+field.Name],
			Kind:   Gauge,
			Labels: w.labels,
		}
		if m.Help == "" {
			m.Help = strings.ReplaceAll(snake(field.Name), "_", " ")
		}
		switch {
		case strings.HasSuffix(field.Name, "Tokens"):
			m.Unit = "tokens"
		case strings.HasSuffix(field.Name, "Bytes"):
			m.Unit = "bytes"
		}
		switch x := f.Interface().(type) {
		case uint64:
			w.count(m, field.Name, x)
		case int:
			w.emit(m, float64(x))
		case int64:
			w.emit(m, float64(x))
		case float64:
			w.emit(m, x)
		case scorer.Value:
			if x, known := x.Get(); known {
				w.emit(m, x)
			}
		case time.Duration:
			m.Name, m.Unit = m.Name+"_seconds", "seconds"
			if field.Name == "Spent" { // all together; others are of now
				m.Name, m.Kind = m.Name+"_total", Counter
			}
			w.emit(m, x.Seconds())
		case time.Time:
			m.Name, m.Unit = m.Name+"_seconds", "seconds"
			m.Help += ", in seconds since 1970"
			if x.IsZero() {
				x = time.Unix(0, 0)
			}
			w.emit(m, float64(x.UnixNano())/1e9)
		case [5]uint64: // by picker.Result
			for result, n := range x {
				m.Labels = slices.Concat(w.labels, []Label{{"result", picker.Result(result).String()}})
				w.count(m, field.Name, n)
			}
		case zmtp.State:
			oneOf(w, m, "state", x, zmtp.Closed)
		case error, nil: // in words, and not a number
		default:
			w.fields(m.Name, f)
		}
	}
}

// oneOf emits a gauge for each of the states from 0 to last: 1 for the one that is, 0 for
// the others.
func oneOf[S interface {
	~uint8
	String() string
}](w *walk, m Metric, label string, is, last S) {
	m.Kind, m.Help = Gauge, "1 for the "+label+" that it has, 0 for the others: "+m.Help
	for s := S(0); s <= last; s++ {
		m.Labels = slices.Concat(w.labels, []Label{{label, s.String()}})
		value := 0.0
		if s == is {
			value = 1
		}
		w.emit(m, value)
	}
}

func (w *walk) count(m Metric, field string, n uint64) {
	if field != "LastSeq" { // the number of a frame is no count
		m.Name += "_total"
		m.Kind = Counter
	}
	w.emit(m, float64(n))
}

func (w *walk) emit(m Metric, value float64) {
	m.Value = value
	w.stopped = w.stopped || !w.yield(m)
	if w.stopped {
		w.yield = func(Metric) bool { return false }
	}
}

// snake writes LastSeq as last_seq, and HoldingsGPU as holdings_gpu.
func snake(name string) string {
	var b strings.Builder
	after := true // an upper letter: no word begins with the next
	for _, c := range name {
		upper := unicode.IsUpper(c)
		if upper && !after {
			b.WriteByte('_')
		}
		after = upper
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// String returns the metric as one line of the Prometheus text format.
func (m Metric) String() string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`) // and nothing else
	var b strings.Builder
	b.WriteString(m.Name)
	for i, l := range m.Labels {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, `%s="%s"`, l.Name, escape.Replace(l.Value))
	}
	if len(m.Labels) > 0 {
		b.WriteByte('}')
	}
	fmt.Fprintf(&b, " %v", m.Value)
	return b.String()
}
