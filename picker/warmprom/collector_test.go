package warmprom_test

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
	"github.com/warmroute/warmroute/picker/metrics"
	"github.com/warmroute/warmroute/picker/warmprom"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// router is a picker over two endpoints, one of which is followed.
func router(t testing.TB) (*warmprom.Collector, *picker.Picker, []scorer.Candidate, func() metrics.Sources) {
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	ledger, err := picker.NewLedger(picker.LedgerOptions{})
	require.NoError(t, err)
	scraper, err := enginemetrics.New(enginemetrics.Options{})
	require.NoError(t, err)
	engine, err := enginetest.New(enginetest.Options{})
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	a, err := ix.Join("a")
	require.NoError(t, err)
	b, err := ix.Join("b \"\\\n")
	require.NoError(t, err)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Index: ix, Endpoint: a, Model: "m", Source: engine.Subscribe(0)})
	require.NoError(t, err)
	var pk *picker.Picker
	sources := func() metrics.Sources {
		return metrics.Sources{
			Index: ix, Ledger: ledger, Scraper: scraper, Pickers: map[string]*picker.Picker{"main": pk},
			Endpoints: []metrics.Endpoint{{Handle: a, Streams: []metrics.Stream{{Subscriber: sub}}}, {Handle: b}},
			More:      []iter.Seq[metrics.Metric]{metrics.Of(httptransport.Stats{Requests: 7})},
		}
	}
	c, err := warmprom.New(warmprom.Options{Sources: sources})
	require.NoError(t, err)
	pk, err = picker.New(picker.Options{
		Index: ix, Ledger: ledger, Seed: 1, Observers: []picker.Observer{c.Observer("main")},
	})
	require.NoError(t, err)
	return c, pk, []scorer.Candidate{{Endpoint: a}, {Endpoint: b}}, sources
}

// What the collector gives a registry is what the table's own page says, and histograms.
func TestCollector(t *testing.T) {
	c, pk, candidates, sources := router(t)
	for i := range candidates { // whichever wins
		candidates[i].Cached = scorer.Holds(prefixindex.Held{GPU: 64})
	}
	d, err := pk.Pick(&picker.Call{Request: scorer.Request{PromptTokens: 128}, Candidates: candidates})
	require.NoError(t, err)
	d.FirstToken()
	d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(32)})

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	gathered := map[string]string{} // text by name
	for _, f := range families {
		var b bytes.Buffer
		_, err := expfmt.MetricFamilyToText(&b, f)
		require.NoError(t, err)
		gathered[f.GetName()] = b.String()
	}
	src := sources()
	var page bytes.Buffer
	require.NoError(t, metrics.Write(&page, src.All()))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(&page)
	require.NoError(t, err)
	for name, f := range parsed {
		i := slices.IndexFunc(families, func(g *dto.MetricFamily) bool { return g.GetName() == name })
		require.GreaterOrEqual(t, i, 0, name)
		require.Equal(t, f.GetType(), families[i].GetType())
		require.Equal(t, f.GetHelp(), families[i].GetHelp())
		require.Len(t, families[i].GetMetric(), len(f.GetMetric()))
	}
	require.Contains(t, gathered["warmroute_picker_picks_total"], `warmroute_picker_picks_total{picker="main"} 1`)
	require.Contains(t, gathered["warmroute_transport_requests_total"], " 7")
	require.Contains(t, gathered["warmroute_endpoint_view"], `{endpoint="a",rank="0",view="never"} 1`)
	for _, want := range []string{
		`warmroute_pick_seconds_count{picker="main",stage="decide"} 1`,
		`warmroute_first_token_seconds_count{picker="main"} 1`,
		`warmroute_request_seconds_count{picker="main",result="ok"} 1`,
		`warmroute_predicted_cached_ratio_sum{picker="main"} 0.5`,
		`warmroute_reported_cached_ratio_sum{picker="main"} 0.25`,
	} {
		require.Contains(t, strings.Join(slices.Collect(maps.Values(gathered)), ""), want)
	}
}

func TestOptions(t *testing.T) {
	_, err := warmprom.New(warmprom.Options{})
	require.ErrorIs(t, err, warmprom.ErrOptions)
	require.ErrorContains(t, err, "Sources is nil")
}

func TestNoAllocations(t *testing.T) {
	_, pk, candidates, _ := router(t)
	call := picker.Call{Request: scorer.Request{PromptTokens: 128}, Candidates: candidates}
	require.Zero(t, testing.AllocsPerRun(200, func() {
		d, _ := pk.Pick(&call)
		d.FirstToken()
		d.Done(picker.Outcome{Result: picker.OK, CachedTokens: scorer.Known(0)})
	}))
}
