package enginetest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// adapterSeries are the label combinations of vllm:lora_requests_info seen in
// this life with the Unix time each was last current: as in vLLM old ones stay,
// and the largest value is the present. At most maxAdapterSeries are kept.
type adapterSeries map[string]float64

const maxAdapterSeries = 64

// serveMetrics writes the Prometheus text of vLLM's names for what the engine
// has. Counters are of this life.
func (e *Engine) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	e.lock()
	s := e.present()
	pool := e.sched.pool
	capacity, free := pool.Blocks()
	running, waiting := e.sched.running(), len(e.sched.waiting)
	started := float64(e.started.UnixMilli()) / 1e3
	e.observeAdapters()
	adapted := maps.Clone(e.adapted)
	e.unlock()

	m := metricsText{labels: fmt.Sprintf("engine=\"%d\",model_name=%s", e.o.Rank, labelValue(e.o.Model))}
	m.gauge("vllm:num_requests_running", "Requests that prefill or decode.", float64(running))
	m.gauge("vllm:num_requests_waiting", "Requests that wait to be admitted.", float64(waiting))
	m.head("vllm:engine_sleep_state", "gauge", "1 for the state the engine is in.")
	m.sample("vllm:engine_sleep_state", `sleep_state="awake"`, 1)
	m.sample("vllm:engine_sleep_state", `sleep_state="weights_offloaded"`, 0)
	m.sample("vllm:engine_sleep_state", `sleep_state="discard_all"`, 0)
	m.gauge("vllm:kv_cache_usage_perc", "Share of the blocks in use, 0 to 1.", 1-float64(free)/float64(capacity))
	m.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the cache.", s.QueriedTokens)
	m.counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the cache.", s.CachedTokens)
	m.counter("vllm:num_preemptions_total", "Running requests that lost their blocks.", s.Preemptions)
	m.counter("vllm:prompt_tokens_total", "Tokens of prompts whose prefill is done.", s.PromptTokens)
	m.counter("vllm:generation_tokens_total", "Tokens generated.", s.GeneratedTokens)
	m.head("vllm:cache_config_info", "gauge", "The cache's configuration, in labels.")
	m.sample("vllm:cache_config_info", fmt.Sprintf(
		`block_size="%d",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="%d",sliding_window="None"`,
		e.o.BlockTokens, capacity), 1)
	if len(adapted) > 0 {
		m.head("vllm:lora_requests_info", "gauge", "Unix time at which these adapters had requests.")
		for _, labels := range slices.Sorted(maps.Keys(adapted)) {
			m.sample("vllm:lora_requests_info", labels, adapted[labels])
		}
	}
	m.head("process_start_time_seconds", "gauge", "Unix time at which this life began.")
	fmt.Fprintf(&m, "process_start_time_seconds %s\n", number(started))

	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.Bytes())
}

// observeAdapters records which adapters have requests now, from the first use
// of any on.
func (e *Engine) observeAdapters() {
	running, waiting := map[string]bool{}, map[string]bool{}
	e.sched.each(func(r *request, runs bool) {
		switch {
		case r.scope.Adapter == "":
		case runs:
			running[r.scope.Adapter] = true
		default:
			waiting[r.scope.Adapter] = true
		}
	})
	if e.adapted == nil && len(running)+len(waiting) == 0 {
		return
	}
	names := func(set map[string]bool) string {
		return labelValue(strings.Join(slices.Sorted(maps.Keys(set)), ","))
	}
	labels := fmt.Sprintf("max_lora=\"%d\",running_lora_adapters=%s,waiting_lora_adapters=%s",
		len(e.o.Adapters), names(running), names(waiting))
	if e.adapted == nil {
		e.adapted = make(adapterSeries)
	}
	e.adapted[labels] = float64(e.origin.Add(e.sched.now).UnixMicro()) / 1e6
	if len(e.adapted) > maxAdapterSeries {
		oldest := labels
		for l, at := range e.adapted {
			if at < e.adapted[oldest] {
				oldest = l
			}
		}
		delete(e.adapted, oldest)
	}
}

// metricsText builds the exposition format.
type metricsText struct {
	bytes.Buffer
	labels string // on every sample of the vllm families
}

func (m *metricsText) head(name, kind, help string) {
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (m *metricsText) sample(name, labels string, v float64) {
	fmt.Fprintf(m, "%s{%s,%s} %s\n", name, m.labels, labels, number(v))
}

func (m *metricsText) gauge(name, help string, v float64) {
	m.head(name, "gauge", help)
	fmt.Fprintf(m, "%s{%s} %s\n", name, m.labels, number(v))
}

func (m *metricsText) counter(name, help string, v uint64) {
	m.head(name, "counter", help)
	fmt.Fprintf(m, "%s{%s} %s\n", name, m.labels, number(float64(v)))
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// labelValue quotes s as a label value: only these three are escaped there.
func labelValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
