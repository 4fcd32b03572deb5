package dashboards_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
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

// names are all that a router has, the gateway's own among them.
func names(t *testing.T) map[string]bool {
	index, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	known := scorer.Known(1)
	src := metrics.Sources{Index: index, Endpoints: []metrics.Endpoint{{}}}
	all := slices.Collect(src.All())
	all = slices.AppendSeq(all, metrics.Of(kvevents.SubscriberStats{}))
	all = slices.AppendSeq(all, metrics.Of(zmtp.SourceStats{}))
	all = slices.AppendSeq(all, metrics.Of(picker.Stats{}))
	all = slices.AppendSeq(all, metrics.Of(picker.LedgerStats{}))
	all = slices.AppendSeq(all, metrics.Of(picker.Calibration{PrefillRate: known}))
	all = slices.AppendSeq(all, metrics.Of(enginemetrics.Stats{}))
	all = slices.AppendSeq(all, metrics.Of(openaireq.ClientStats{}))
	all = slices.AppendSeq(all, metrics.Of(httptransport.Stats{}))
	all = slices.AppendSeq(all, metrics.Of(metrics.EndpointStats{Waiting: known, Running: known, CacheUse: known}))
	have := map[string]bool{}
	for _, m := range all {
		have[m.Name] = true
	}
	source, err := os.ReadFile("../admin.go")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`"(gateway_\w+)"`).FindAllSubmatch(source, -1) {
		have[string(m[1])] = true
	}
	return have
}

// check parses an expression and looks for the metrics that it names.
func check(t *testing.T, have map[string]bool, expr string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	require.NoError(t, err, expr)
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			require.True(t, have[s.Name], "there is no metric %s, in %s", s.Name, expr)
		}
		return nil
	})
}

func rules(t *testing.T) map[string]rulefmt.Rule {
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(text, false)
	require.Empty(t, errs)
	list := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			require.NotContains(t, list, r.Alert)
			require.NotEmpty(t, r.Annotations["action"], r.Alert)
			list[r.Alert] = r
		}
	}
	return list
}

func TestAlerts(t *testing.T) {
	have := names(t)
	for _, r := range rules(t) {
		check(t, have, r.Expr)
	}
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	have := names(t)
	seen := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", "a", "$endpoint", "b").Replace(target.Expr)
			check(t, have, expr)
			seen++
		}
	}
	require.Greater(t, seen, 10)
}

// Each silent failure raises its alert, and a router at work raises none.
func TestAlertsFire(t *testing.T) {
	// What a healthy router with one engine says in half an hour, a sample each minute.
	healthy := map[string]string{
		`warmroute_endpoint_view{endpoint="a",rank="0",view="live"}`:             `1+0x30`,
		`warmroute_endpoint_view{endpoint="a",rank="0",view="gap"}`:              `0+0x30`,
		`warmroute_subscriber_last_frame_seconds{endpoint="a",rank="0"}`:         `0+60x30`,
		`warmroute_subscriber_lag_seconds{endpoint="a",rank="0"}`:                `0.01+0x30`,
		`warmroute_subscriber_unreadable_total{endpoint="a",rank="0"}`:           `0+0x30`,
		`warmroute_subscriber_applier_malformed_total{endpoint="a",rank="0"}`:    `0+0x30`,
		`warmroute_subscriber_applier_unknown_total{endpoint="a",rank="0"}`:      `0+0x30`,
		`warmroute_subscriber_applier_skipped_tier_total{endpoint="a",rank="0"}`: `0+0x30`,
		`warmroute_source_state{endpoint="a",rank="0",state="connected"}`:        `1+0x30`,
		`warmroute_source_topic_changes_total{endpoint="a",rank="0"}`:            `0+0x30`,
		`warmroute_endpoint_in_flight{endpoint="a"}`:                             `3+0x30`,
		`warmroute_endpoint_signals_at_seconds{endpoint="a"}`:                    `0+60x30`,
		`warmroute_calibration_reported_tokens_total{endpoint="a"}`:              `0+950x30`,
		`warmroute_calibration_predicted_tokens_total{endpoint="a"}`:             `0+1000x30`,
		`warmroute_ledger_unreported_total`:                                      `0+10x30`,
		`warmroute_ledger_reported_total`:                                        `0+100x30`,
		`warmroute_ledger_open`:                                                  `3+0x30`,
		`warmroute_ledger_released_total`:                                        `0+100x30`,
		`warmroute_transport_untokenized_total`:                                  `0+1x30`,
		`warmroute_transport_requests_total`:                                     `0+100x30`,
		`warmroute_scraper_missing_total`:                                        `0+0x30`,
		`warmroute_scraper_foreign_total`:                                        `0+0x30`,
		`warmroute_scraper_unread`:                                               `0+0x30`,
		`warmroute_picker_no_candidates_total{picker="main"}`:                    `0+0x30`,
		`warmroute_picker_overloaded_total{picker="main"}`:                       `0+0x30`,
		`warmroute_picker_picks_total{picker="main"}`:                            `0+100x30`,
		`warmroute_index_evicted_total`:                                          `0+0x30`,
		`warmroute_index_stored_total`:                                           `0+500x30`,
		`gateway_engine_up{endpoint="a"}`:                                        `1+0x30`,
		`gateway_endpoints_file_refused_total`:                                   `0+0x30`,
	}
	for alert, changed := range map[string]map[string]string{
		"":                              {},
		"WarmrouteEventsLost":           {`warmroute_endpoint_view{endpoint="a",rank="0",view="gap"}`: `1+0x30`},
		"WarmrouteResyncing":            {`warmroute_endpoint_view{endpoint="a",rank="0",view="resyncing"}`: `1+0x30`},
		"WarmrouteEventsStopped":        {`warmroute_subscriber_last_frame_seconds{endpoint="a",rank="0"}`: `60+0x30`},
		"WarmrouteEventSocketDown":      {`warmroute_source_state{endpoint="a",rank="0",state="connected"}`: `0+0x30`},
		"WarmrouteEventsLate":           {`warmroute_subscriber_lag_seconds{endpoint="a",rank="0"}`: `0+1x30`},
		"WarmrouteEventsNotUnderstood":  {`warmroute_subscriber_applier_skipped_tier_total{endpoint="a",rank="0"}`: `0+1x30`},
		"WarmrouteTwoPublishers":        {`warmroute_source_topic_changes_total{endpoint="a",rank="0"}`: `0+5x30`},
		"WarmroutePredictionsWrong":     {`warmroute_calibration_reported_tokens_total{endpoint="a"}`: `0+500x30`},
		"WarmroutePredictionsUnchecked": {`warmroute_ledger_reported_total`: `0+0x30`},
		"WarmroutePromptsUnknown":       {`warmroute_transport_untokenized_total`: `0+20x30`},
		"WarmrouteSignalsStale":         {`warmroute_endpoint_signals_at_seconds{endpoint="a"}`: `600+0x30`},
		"WarmrouteSignalsNeverRead":     {`warmroute_scraper_unread`: `1+0x30`},
		"WarmrouteSignalsMissing":       {`warmroute_scraper_missing_total`: `0+60x30`},
		"WarmrouteRefuses":              {`warmroute_picker_no_candidates_total{picker="main"}`: `0+5x30`},
		"WarmrouteReservationsLeak":     {`warmroute_ledger_open`: `90+1x30`, `warmroute_ledger_released_total`: `0+0x30`},
		"WarmrouteIndexFull":            {`warmroute_index_evicted_total`: `0+100x30`},
		"WarmrouteEngineDown":           {`gateway_engine_up{endpoint="a"}`: `0+0x30`},
		"WarmrouteEndpointsFileRefused": {`gateway_endpoints_file_refused_total`: `0+1x30`},
	} {
		t.Run(alert, func(t *testing.T) {
			var load strings.Builder
			load.WriteString("load 1m\n")
			for series, values := range healthy {
				if v, is := changed[series]; is {
					values = v
				}
				load.WriteString("  " + series + " " + values + "\n")
			}
			for series, values := range changed {
				if _, is := healthy[series]; !is {
					load.WriteString("  " + series + " " + values + "\n")
				}
			}
			data := promqltest.LoadedStorage(t, load.String())
			defer data.Close()
			engine := promqltest.NewTestEngine(t, false, 0, 10_000)
			for name, r := range rules(t) {
				require.Equal(t, name == alert, fires(t, engine, data, r.Expr), name)
			}
		})
	}
}

// fires evaluates a rule after half an hour.
func fires(t *testing.T, engine *promql.Engine, data storage.Queryable, expr string) bool {
	query, err := engine.NewInstantQuery(t.Context(), data, nil, expr, time.Unix(1800, 0))
	require.NoError(t, err)
	defer query.Close()
	result := query.Exec(t.Context())
	require.NoError(t, result.Err)
	vector, err := result.Vector()
	require.NoError(t, err)
	return len(vector) > 0
}
