package harness

import (
	"fmt"
	"strings"
)

// MetricsPage is a page in the shape of vLLM's, of about that many bytes: the gauges
// that routing reads among histograms that it does not.
func MetricsPage(bytes int) []byte {
	const model = `engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"`
	var page strings.Builder
	page.WriteString("# HELP process_start_time_seconds Start time of the process.\n" +
		"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.75930182034e+09\n")
	gauge := func(name, labels string, value any) {
		fmt.Fprintf(&page, "# HELP %s Help.\n# TYPE %s gauge\n%s{%s} %v\n", name, name, name, labels, value)
	}
	gauge("vllm:num_requests_running", model, "12.0")
	gauge("vllm:num_requests_waiting", model, "3.0")
	gauge("vllm:kv_cache_usage_perc", model, "0.4375390625")
	gauge("vllm:engine_sleep_state", model+`,sleep_state="awake"`, "1.0")
	gauge("vllm:cache_config_info", `block_size="16",cache_dtype="auto",enable_prefix_caching="True",`+model+
		`,num_gpu_blocks="27648",num_gpu_blocks_override="None",sliding_window="None"`, "1.0")
	gauge("vllm:lora_requests_info",
		`max_lora="4",running_lora_adapters="sql-v2,chat",waiting_lora_adapters="legal"`, "1.759303123456e+09")
	for i := 0; page.Len() < bytes; i++ {
		name := fmt.Sprintf("vllm:request_%s_time_%d_seconds", []string{
			"queue", "inference", "prefill", "decode", "first_token", "inter_token", "e2e",
		}[i%7], i)
		fmt.Fprintf(&page, "# HELP %s Histogram.\n# TYPE %s histogram\n", name, name)
		for le := range 20 {
			fmt.Fprintf(&page, "%s_bucket{le=\"%d.0\",%s} %d.0\n", name, 1<<le, model, 17*le)
		}
		fmt.Fprintf(&page, "%s_count{%s} 340.0\n%s_sum{%s} 91.25\n", name, model, name, model)
	}
	return []byte(page.String())
}
