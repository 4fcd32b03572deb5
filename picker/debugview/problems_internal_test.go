package debugview

import (
	"slices"
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
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// Each counter of the table exists, and stands there once.
func TestFailuresExist(t *testing.T) {
	all := slices.Collect(metrics.Of(prefixindex.Stats{}))
	all = slices.AppendSeq(all, metrics.Of(kvevents.SubscriberStats{}))
	all = slices.AppendSeq(all, metrics.Of(kvevents.DemuxStats{}))
	all = slices.AppendSeq(all, metrics.Of(zmtp.SourceStats{}))
	all = slices.AppendSeq(all, metrics.Of(picker.Stats{}))
	all = slices.AppendSeq(all, metrics.Of(picker.LedgerStats{}))
	all = slices.AppendSeq(all, metrics.Of(enginemetrics.Stats{}))
	all = slices.AppendSeq(all, metrics.Of(openaireq.ClientStats{}))
	all = slices.AppendSeq(all, metrics.Of(httptransport.Stats{}))
	list, zero := failed(all)
	require.Empty(t, list)
	for _, a := range failures {
		require.Contains(t, zero, a.Metric)
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(zero))), len(failures))
}

func TestProblems(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	heard := kvevents.SubscriberStats{LastFrame: now.Add(-time.Minute)}
	gap := heard
	gap.Stream.Lost, gap.Stream.Gaps = 5, 1
	late := kvevents.SubscriberStats{LastFrame: now, Lag: 7 * time.Second}
	for name, c := range map[string]struct {
		e        endpoint
		severity severity
		what     string // "": nothing is wrong
	}{
		"live":           {e: endpoint{View: "live", Followed: true, Subscriber: heard}},
		"assumed":        {e: endpoint{View: "assumed"}},
		"nobody follows": {e: endpoint{View: "never"}, what: "Nobody follows its events"},
		"new":            {e: endpoint{View: "never", Followed: true}, what: "No event was heard of it yet"},
		"silent from the start": {
			e:        endpoint{View: "never", Followed: true, served: now},
			severity: failing, what: "No event was ever heard of it, though it has answered requests.",
		},
		"idle": {e: endpoint{View: "stale", Followed: true, Subscriber: heard, served: now.Add(-time.Minute)}, what: "No event for 60 s, and no request"},
		"stopped": {
			e:        endpoint{View: "stale", Followed: true, Subscriber: heard, served: now},
			severity: failing, what: "Its events have stopped: the last came 60 s ago",
		},
		"stopped, and nobody asked for a limit": {
			e:        endpoint{View: "live", Followed: true, Subscriber: heard, served: now},
			severity: warning, what: "No event for 60 s, though it has answered requests since.",
		},
		"gap":       {e: endpoint{View: "gap", Followed: true, Subscriber: gap}, severity: failing, what: "lost for good: 5 of them, in 1 gaps"},
		"resyncing": {e: endpoint{View: "resyncing", Followed: true, Subscriber: heard}, what: "being fetched again"},
		"late":      {e: endpoint{View: "live", Followed: true, Subscriber: late}, severity: warning, what: "7.0 s late"},
		"backlog":   {e: endpoint{View: "live", Followed: true, Subscriber: kvevents.SubscriberStats{LastFrame: now, Queued: 2_000}}, severity: warning, what: "2000 of its events wait"},
		"not connected": {
			e:        endpoint{View: "never", Followed: true, Source: &zmtp.SourceStats{Since: now.Add(-time.Minute)}, source: zmtp.ErrUnreachable},
			severity: failing, what: "Its event socket has not been connected for 60 s.",
		},
		"never scraped": {e: endpoint{View: "live", Scraped: true}, severity: failing, what: "Its metrics were never read."},
		"scraped long ago": {
			e:        endpoint{View: "live", Scraped: true, Stats: metrics.EndpointStats{SignalsAt: now.Add(-time.Hour)}},
			severity: failing, what: "Its metrics are 60 min old.",
		},
		"scrape fails": {
			e:        endpoint{View: "live", Scraped: true, ScrapeError: "x", Stats: metrics.EndpointStats{SignalsAt: now}},
			severity: failing, what: "Its metrics are 0 ms old.",
		},
		"doubt":       {e: endpoint{View: "live", Calibration: picker.Calibration{Doubt: 0.5}}, severity: warning, what: "50 % of a prediction is not believed"},
		"unreported":  {e: endpoint{View: "live", Calibration: picker.Calibration{Unreported: 20}}, what: "does not say how much"},
		"a few of it": {e: endpoint{View: "live", Calibration: picker.Calibration{Unreported: 19}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.e.now, c.e.Ranks = now, 1
			list := c.e.problems()
			if c.what == "" {
				require.Empty(t, list)
				return
			}
			require.Len(t, list, 1)
			require.Contains(t, list[0].What, c.what)
			require.Equal(t, c.severity, list[0].Severity)
			require.NotEmpty(t, list[0].Do)
		})
	}
}

func TestTiers(t *testing.T) {
	tiers := func(all, gpu, cpu int) string {
		e := endpoint{Subscriber: kvevents.SubscriberStats{Applier: kvevents.ApplierStats{Blocks: prefixindex.Stats{
			Holdings: all, HoldingsGPU: gpu, HoldingsCPU: cpu,
		}}}}
		return e.Tiers()
	}
	require.Empty(t, tiers(7, 7, 0))
	require.Equal(t, "1,000 gpu + 400 cpu =", tiers(1_400, 1_000, 400))
	require.Equal(t, "0 gpu + 5 farther =", tiers(5, 0, 0))
}

func TestMinus(t *testing.T) {
	for s, want := range map[string]string{
		"-0.000": "0.000", "0.000": "0.000", "-0.001": "−0.001", "+0.100": "+0.100", "-12": "−12", "0": "0",
	} {
		require.Equal(t, want, minus(s))
	}
}
