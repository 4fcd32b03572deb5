package oracle_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// page is what Prometheus' own parser finds on a page.
type page map[string]*dto.MetricFamily

// number returns the value of a sample, and false if it is none.
func number(m *dto.Metric) (float64, bool) {
	var v float64
	switch {
	case m.GetGauge() != nil:
		v = m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		v = m.GetCounter().GetValue()
	default:
		v = m.GetUntyped().GetValue()
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// ranks returns the largest number of each rank in a family, among samples that have
// those labels, given as names and values in turn.
func (p page) ranks(family, rankLabel string, having ...string) map[string]float64 {
	out := map[string]float64{}
next:
	for _, m := range p[family].GetMetric() {
		for i := 0; i < len(having); i += 2 {
			if label(m, having[i]) != having[i+1] {
				continue next
			}
		}
		if v, ok := number(m); ok {
			rank := label(m, rankLabel)
			if old, seen := out[rank]; !seen || v > old {
				out[rank] = v
			}
		}
	}
	return out
}

// counts returns the numbers that a label has, by rank.
func (p page) counts(family, rankLabel, name string) map[string]float64 {
	out := map[string]float64{}
	for _, m := range p[family].GetMetric() {
		if n, err := strconv.ParseInt(label(m, name), 10, 64); err == nil && n > 0 {
			rank := label(m, rankLabel)
			out[rank] = max(out[rank], float64(n))
		}
	}
	return out
}

func sum(ranks map[string]float64) scorer.Value {
	if len(ranks) == 0 {
		return scorer.Value{}
	}
	total := 0.0
	for _, v := range ranks {
		total += v
	}
	return scorer.Known(total)
}

func largest(ranks map[string]float64) scorer.Value {
	if len(ranks) == 0 {
		return scorer.Value{}
	}
	most := math.Inf(-1)
	for _, v := range ranks {
		most = max(most, v)
	}
	return scorer.Known(most)
}

func count(v scorer.Value) int {
	if x, _ := v.Get(); x >= 1 && x <= 1<<40 {
		return int(x)
	}
	return 0
}

// report is a page in terms of the package under test, by the table in its comment.
func (p page) report(e enginemetrics.Engine) enginemetrics.Report {
	r := enginemetrics.Report{Engine: e}
	var waiting, running, use, size, blocks map[string]float64
	switch e {
	case enginemetrics.Unknown:
	case enginemetrics.VLLM:
		waiting = p.ranks("vllm:num_requests_waiting", "engine")
		running = p.ranks("vllm:num_requests_running", "engine")
		use = p.ranks("vllm:kv_cache_usage_perc", "engine")
		if len(p["vllm:kv_cache_usage_perc"].GetMetric()) == 0 {
			use = p.ranks("vllm:gpu_cache_usage_perc", "engine")
		}
		size = p.counts("vllm:cache_config_info", "engine", "block_size")
		blocks = p.counts("vllm:cache_config_info", "engine", "num_gpu_blocks")
		asleep := map[string]bool{}
		for _, m := range p["vllm:engine_sleep_state"].GetMetric() {
			if v, ok := number(m); ok && v > 0 && label(m, "sleep_state") != "awake" {
				asleep[label(m, "engine")] = true
			}
		}
		r.Asleep = len(asleep)
	case enginemetrics.SGLang:
		waiting = p.ranks("sglang:num_queue_reqs", "dp_rank")
		running = p.ranks("sglang:num_running_reqs", "dp_rank")
		use = p.ranks("sglang:token_usage", "dp_rank")
		size = p.counts("sglang:cache_config_info", "dp_rank", "page_size")
		blocks = p.counts("sglang:cache_config_info", "dp_rank", "num_pages")
	case enginemetrics.TensorRT:
		waiting = p.ranks("trtllm_num_requests_waiting", "")
		running = p.ranks("trtllm_num_requests_running", "")
		use = p.ranks("trtllm_kv_cache_utilization", "")
		size = p.ranks("trtllm_kv_cache_tokens_per_block", "")
		blocks = p.ranks("trtllm_kv_cache_max_blocks", "")
	case enginemetrics.Triton:
		of := func(kind string) map[string]float64 {
			return p.ranks("nv_trt_llm_kv_cache_block_metrics", "model", "kv_cache_block_type", kind)
		}
		waiting = p.ranks("nv_trt_llm_request_metrics", "model", "request_type", "waiting")
		running = p.ranks("nv_trt_llm_request_metrics", "model", "request_type", "scheduled")
		use, size, blocks = of("fraction"), of("tokens_per"), of("max")
	}
	r.Signals.Waiting, r.Signals.Running, r.Signals.CacheUse = sum(waiting), sum(running), largest(use)
	r.BlockTokens, r.Blocks = count(largest(size)), count(sum(blocks))
	r.Ranks = max(len(waiting), len(running), len(use))
	for _, m := range p["process_start_time_seconds"].GetMetric() {
		if v, ok := number(m); ok {
			r.Started = max(r.Started, v)
		}
	}
	present := math.Inf(-1)
	for _, m := range p["vllm:lora_requests_info"].GetMetric() {
		if v, ok := number(m); ok && v >= present {
			present = v
			slots, _ := strconv.Atoi(label(m, "max_lora"))
			r.Adapters = enginemetrics.Adapters{
				Known: true, Slots: max(slots, 0),
				Running: adapterNames(label(m, "running_lora_adapters")), Waiting: adapterNames(label(m, "waiting_lora_adapters")),
			}
		}
	}
	return r
}

func adapterNames(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}

// foreign matches what our scanner does not read and says so, which is names in quotes;
// types under which the parser looks for parts of a family; and samples without a name,
// on which version 0.67.4 of the parser panics.
var foreign = regexp.MustCompile(`(?m)[{,][ \t]*"|"[ \t]*=|^[ \t]*\{|^[^{\n]*"|(histogram|summary)`)

// compareScan checks that our scanner says the same of a text as Prometheus' parser, if
// that one takes it; ours is the more lenient of the two.
func compareScan(t *testing.T, text []byte) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return
	}
	var scanner enginemetrics.Scanner
	var got enginemetrics.Report
	if err := scanner.Scan(text, &got); err != nil {
		require.ErrorIs(t, err, enginemetrics.ErrForeign)
		for name, family := range families {
			require.NotContains(t, []string{
				"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
				"sglang:num_queue_reqs", "sglang:num_running_reqs", "sglang:token_usage",
				"trtllm_num_requests_waiting", "trtllm_num_requests_running", "trtllm_kv_cache_utilization",
			}, name, "%v", family)
		}
		return
	}
	require.Zero(t, got.BadLines)
	if got.Clipped > 0 {
		return
	}
	want := page(families).report(got.Engine)
	requireSame(t, want.Signals.Waiting, got.Signals.Waiting)
	requireSame(t, want.Signals.Running, got.Signals.Running)
	requireSame(t, want.Signals.CacheUse, got.Signals.CacheUse)
	require.Equal(t, want.BlockTokens, got.BlockTokens)
	require.Equal(t, want.Blocks, got.Blocks)
	require.Equal(t, want.Ranks, got.Ranks)
	require.Equal(t, want.Asleep, got.Asleep)
	require.InDelta(t, want.Started, got.Started, 0)
	require.Equal(t, want.Adapters.Known, got.Adapters.Known)
	require.Equal(t, want.Adapters.Slots, got.Adapters.Slots)
	require.ElementsMatch(t, want.Adapters.Running, got.Adapters.Running)
	require.ElementsMatch(t, want.Adapters.Waiting, got.Adapters.Waiting)
}

// requireSame allows for sums in another order.
func requireSame(t *testing.T, want, got scorer.Value) {
	t.Helper()
	w, wantKnown := want.Get()
	g, gotKnown := got.Get()
	require.Equal(t, wantKnown, gotKnown)
	require.InDelta(t, w, g, 1e-9*math.Abs(w))
}

func capturedPages(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../scorer/enginemetrics/testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	pages := map[string][]byte{}
	for _, file := range files {
		pages[file], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	return pages
}

func TestScannerAgainstExpfmt(t *testing.T) {
	for file, text := range capturedPages(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
			require.NoError(t, err)
			require.NotEmpty(t, families)
			compareScan(t, text)
		})
	}
}

func FuzzScannerAgainstExpfmt(f *testing.F) {
	for _, text := range capturedPages(f) {
		f.Add(text)
	}
	for _, line := range []string{
		"vllm:num_requests_waiting{engine=\"0\",a=\"\\\\\\\"\\n\"} 1e3 17\nvllm:num_requests_waiting{engine=\"1\"} -.5",
		"vllm:num_requests_waiting{engine=\"0\",} NaN\nvllm:num_requests_running{} +Inf",
		"sglang:cache_config_info{dp_rank=\"1\",page_size=\"64\",num_pages=\"None\"} 1\nsglang:token_usage{dp_rank=\"1\"} 0.5",
		"vllm:engine_sleep_state{engine=\"0\",sleep_state=\"awake\"} 0\nvllm:engine_sleep_state{engine=\"0\",sleep_state=\"discard_all\"} 1\nvllm:num_requests_running 1",
		"vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a,b\",waiting_lora_adapters=\"\"} 1.7e9\nvllm:num_requests_running 1",
		" \tvllm:num_requests_running\t{ engine = \"0\" , } \t 1",
	} {
		f.Add([]byte(line + "\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) == 0 || text[len(text)-1] != '\n' || foreign.Match(text) {
			return
		}
		compareScan(t, text)
	})
}
