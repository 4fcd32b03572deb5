package metrics_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/metrics"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

var update = flag.Bool("update", false, "rewrite help.go from the comments of the Stats structs")

func ExampleOf() {
	pk, err := picker.New(picker.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	_, _ = pk.Pick(&picker.Call{})
	for m := range metrics.Of(pk.Stats(), metrics.Label{Name: "picker", Value: "chat"}) {
		if m.Value > 0 {
			fmt.Println("# HELP", m.Name, m.Help)
			fmt.Println(m)
		}
	}
	// Output:
	// # HELP warmroute_picker_no_candidates_total ErrNoCandidates
	// warmroute_picker_no_candidates_total{picker="chat"} 1
}

// find returns the metrics of one name.
func find(all []metrics.Metric, name string) (found []metrics.Metric) {
	for _, m := range all {
		if m.Name == name {
			found = append(found, m)
		}
	}
	return found
}

func TestOf(t *testing.T) {
	ledger := slices.Collect(metrics.Of(picker.LedgerStats{Open: 3, Reserved: 5, Results: [5]uint64{1, 2}, PredictedTokens: 700}))
	require.Equal(t, []metrics.Metric{{Name: "warmroute_ledger_open", Kind: metrics.Gauge, Value: 3,
		Help: "reservations not released; grows without end if Done is missing on some path"}}, find(ledger, "warmroute_ledger_open"))
	require.Equal(t, 5.0, find(ledger, "warmroute_ledger_reserved_total")[0].Value)
	tokens := find(ledger, "warmroute_ledger_predicted_tokens_total")[0]
	require.Equal(t, "tokens", tokens.Unit)
	require.Equal(t, metrics.Counter, tokens.Kind)
	results := find(ledger, "warmroute_ledger_results_total")
	require.Len(t, results, 5)
	require.Equal(t, []metrics.Label{{Name: "result", Value: "ok"}}, results[1].Labels)
	require.Equal(t, 2.0, results[1].Value)

	calibration := slices.Collect(metrics.Of(picker.Calibration{Doubt: 0.25}, metrics.Label{Name: "endpoint", Value: `a"b`}))
	require.Equal(t, `warmroute_calibration_doubt{endpoint="a\"b"} 0.25`, find(calibration, "warmroute_calibration_doubt")[0].String())
	require.Empty(t, find(calibration, "warmroute_calibration_prefill_rate"))
	calibration = slices.Collect(metrics.Of(picker.Calibration{PrefillRate: scorer.Known(8_000)}))
	require.Equal(t, 8_000.0, find(calibration, "warmroute_calibration_prefill_rate")[0].Value)

	at := time.Unix(1_000, 5e8)
	subscriber := slices.Collect(metrics.Of(kvevents.SubscriberStats{
		LastSeq: 7, LastFrame: at, Lag: 1_500 * time.Millisecond,
		Applier: kvevents.ApplierStats{Blocks: prefixindex.Stats{Stored: 9}},
	}))
	require.Equal(t, 1_000.5, find(subscriber, "warmroute_subscriber_last_frame_seconds")[0].Value)
	require.Equal(t, 1.5, find(subscriber, "warmroute_subscriber_lag_seconds")[0].Value)
	require.Equal(t, metrics.Gauge, find(subscriber, "warmroute_subscriber_last_seq")[0].Kind)
	require.Equal(t, 9.0, find(subscriber, "warmroute_subscriber_applier_blocks_stored_total")[0].Value)

	tokenizer := slices.Collect(metrics.Of(openaireq.ClientStats{Spent: 2 * time.Second, Longest: time.Second}))
	require.Equal(t, metrics.Counter, find(tokenizer, "warmroute_tokenizer_spent_seconds_total")[0].Kind)
	require.Equal(t, metrics.Gauge, find(tokenizer, "warmroute_tokenizer_longest_seconds")[0].Kind)

	silent := slices.Collect(metrics.Of(kvevents.SubscriberStats{}))
	require.Zero(t, find(silent, "warmroute_subscriber_last_frame_seconds")[0].Value)
}

// The text format knows three escapes; a tab as \t would be a parse error.
func TestLabelsAreEscapedAsTheTextFormatSays(t *testing.T) {
	m := metrics.Metric{Name: "x", Labels: []metrics.Label{{"a", "tab\t, quote\", back\\slash, line\n, é, \x01"}}, Value: 1e6}
	require.Equal(t, "x{a=\"tab\t, quote\\\", back\\\\slash, line\\n, é, \x01\"} 1e+06", m.String())
}

func TestOfStopsWhenAsked(t *testing.T) {
	n := 0
	for range metrics.Of(kvevents.SubscriberStats{}) {
		if n++; n == 3 {
			break
		}
	}
	require.Equal(t, 3, n)
}

// The text page has each family once, in one piece, under its help and type.
func TestWriteSources(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	ledger, err := picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	a, err := ix.Join("a")
	require.NoError(t, err)
	w, err := ix.Writer(a, 1)
	require.NoError(t, err)
	require.NoError(t, w.SetView(prefixindex.ViewGap))
	src := metrics.Sources{
		Index: ix, Ledger: ledger,
		Endpoints: []metrics.Endpoint{
			{Handle: a, Streams: []metrics.Stream{{Rank: 0}, {Rank: 1}}},
			{Name: "gone"},
		},
		More: []iter.Seq[metrics.Metric]{func(yield func(metrics.Metric) bool) {
			yield(metrics.Metric{Name: "own", Help: "back\\slash\nline", Value: 2})
		}},
	}
	var b strings.Builder
	require.NoError(t, metrics.Write(&b, src.All()))
	page := b.String()
	for _, want := range []string{
		"# TYPE warmroute_endpoint_in_flight gauge\nwarmroute_endpoint_in_flight{endpoint=\"a\"} 0\nwarmroute_endpoint_in_flight{endpoint=\"gone\"} 0\n",
		`warmroute_endpoint_view{endpoint="a",rank="0",view="never"} 1`, `warmroute_endpoint_view{endpoint="a",rank="1",view="gap"} 1`,
		`warmroute_endpoint_view{endpoint="a",rank="1",view="live"} 0`, `warmroute_endpoint_view{endpoint="gone",rank="0",view="never"} 1`,
		`warmroute_calibration_doubt{endpoint="a"} 0`, "# HELP own back\\\\slash\\nline\n# TYPE own counter\nown 2\n",
	} {
		require.Contains(t, page, want)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	require.Empty(t, slices.Collect(new(metrics.Sources).All()))
	for range src.All() {
		break
	}
	require.ErrorIs(t, metrics.Write(full{}, src.All()), io.ErrShortWrite)
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Names are those that a text exposition allows, each is used once, and no label is
// shared between metrics.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	label := []metrics.Label{{Name: "a", Value: "b"}}
	check := func(m metrics.Metric) {
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, m.Name)
		require.False(t, seen[m.String()], m.String())
		seen[m.String()] = true
		require.NotEmpty(t, m.Help)
		require.Equal(t, label[0], m.Labels[0])
	}
	for m := range metrics.Of(prefixindex.Stats{}, label...) {
		check(m)
	}
	require.True(t, seen[`warmroute_index_holdings_gpu{a="b"} 0`])
	for m := range metrics.Of(kvevents.SubscriberStats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(kvevents.DemuxStats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(picker.Stats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(picker.LedgerStats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(picker.Calibration{}, label...) {
		check(m)
	}
	for m := range metrics.Of(zmtp.SourceStats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(metrics.EndpointStats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(enginemetrics.Stats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(openaireq.ClientStats{}, label...) {
		check(m)
	}
	for m := range metrics.Of(httptransport.Stats{}, label...) {
		check(m)
	}
}

// Help is what the fields' comments say.
func TestHelpIsThatOfTheFields(t *testing.T) {
	comments := map[string]string{}
	for _, dir := range []string{
		"prefixindex", "kvevents", "kvevents/zmtp", "scorer/enginemetrics",
		"picker", "picker/httptransport", "picker/openaireq", "picker/metrics",
	} {
		files, err := os.ReadDir("../../" + dir)
		require.NoError(t, err)
		for _, f := range files {
			if name := f.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				read(t, path.Base(dir), "../../"+dir+"/"+name, comments)
			}
		}
	}
	var b strings.Builder
	b.WriteString("// Code generated by \"go test ./picker/metrics -run Help -update\"; DO NOT EDIT.\n\npackage metrics\n\n" +
		"// help is what the comments of the Stats structs say of their fields.\nvar help = map[string]string{\n")
	for _, key := range slices.Sorted(maps.Keys(comments)) {
		fmt.Fprintf(&b, "\t%q: %q,\n", key, comments[key])
	}
	b.WriteString("}\n")
	want, err := format.Source([]byte(b.String()))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("help.go", want, 0o644))
	}
	have, err := os.ReadFile("help.go")
	require.NoError(t, err)
	require.Equal(t, string(want), string(have), "a Stats struct has changed: go test ./picker/metrics -run Help -update")
}

// read collects the comments of the fields of Stats structs in one file.
func read(t *testing.T, pkg, file string, comments map[string]string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !strings.HasSuffix(spec.Name.Name, "Stats") && spec.Name.Name != "Calibration" {
			return true
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range fields.Fields.List {
			text := f.Comment.Text()
			if text == "" {
				text = f.Doc.Text()
			}
			for _, name := range f.Names {
				if text = strings.Join(strings.Fields(text), " "); text != "" {
					comments[pkg+"."+spec.Name.Name+"."+name.Name] = text
				}
			}
		}
		return true
	})
}
