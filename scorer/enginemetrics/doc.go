// Package enginemetrics reads what engines say about themselves on /metrics, and turns
// it into scorer.Signals.
//
//	scraper, err := enginemetrics.New(enginemetrics.Options{})
//	go scraper.Run(ctx)
//
//	target, err := scraper.Add(enginemetrics.TargetOptions{
//		URL:     "http://10.0.0.7:8000/metrics",
//		OnReset: func(enginemetrics.Reset) { _ = subscriber.Reset() },
//	})
//	...
//	candidate.Signals = target.Signals() // in each pick: one atomic load
//	...
//	target.Remove()
//
// # What is read
//
// A [Scanner] knows the names of four servers and takes what a page has, so that
// nothing need be configured. If a page has the names of several, the server with most
// of the three gauges counts.
//
//	              vLLM                      SGLang                    trtllm-serve
//	waiting       vllm:num_requests_waiting sglang:num_queue_reqs     trtllm_num_requests_waiting
//	running       vllm:num_requests_running sglang:num_running_reqs   trtllm_num_requests_running
//	cache use     vllm:kv_cache_usage_perc  sglang:token_usage        trtllm_kv_cache_utilization
//	block size *  vllm:cache_config_info    sglang:cache_config_info  trtllm_kv_cache_tokens_per_block
//	blocks *      vllm:cache_config_info    sglang:cache_config_info  trtllm_kv_cache_max_blocks
//
// Triton with TensorRT-LLM says the same by a label: waiting and scheduled of
// nv_trt_llm_request_metrics; fraction, tokens_per and max of
// nv_trt_llm_kv_cache_block_metrics.
//
// Of vLLM also vllm:gpu_cache_usage_perc (the older name, where the newer is absent),
// vllm:lora_requests_info, vllm:engine_sleep_state, and of any server
// process_start_time_seconds. The first three rows are wanted of every server, and
// their absence is counted; the rest is optional, also what is marked.
//
// One page may speak of several engines: vLLM's data-parallel ranks by the label
// engine, SGLang's by dp_rank, Triton's models by model. Requests and blocks are summed
// over them, and of cache use the largest counts, since that rank fills first. Several
// series of one rank are one thing said several times, by tensor-parallel workers or by
// priority beside the total: the largest counts. A value that is no number is unknown,
// and counted. Of the series of vllm:lora_requests_info the one with the largest value
// is the present; those of the past stay on the page.
//
// # Age
//
// Signals.At is when the scrape began, or, if samples bear timestamps, the oldest of
// those. A scrape that fails leaves the last good report in place, so that its age
// grows and the picker's rule for stale signals takes over. A target that was never
// read has unknown signals.
//
// # Loops
//
// Targets are read every Interval, give or take Jitter, by at most Concurrency workers
// at once, each within Timeout. A target that fails is asked less often, down to an
// eighth of the rate, so that hung ones do not take all the workers; the first success
// restores the rate.
//
// # Resets
//
// An engine that restarts comes back with an empty cache, and one that goes to sleep
// drops it; events may say neither. A later process_start_time_seconds than any seen at
// that target, or a rank that was not asleep before, calls TargetOptions.OnReset, which
// the host wires to Subscriber.Reset. An earlier start time is taken for another
// process behind the same address, not for a restart. A sleep that begins and ends
// between two scrapes is not seen.
//
// # The format
//
// The text format of Prometheus, version 0.0.4. Lines of other families are skipped
// unread; a line of a wanted family that is malformed is dropped and counted, the rest
// of the page is used. A page that does not end in a line feed was cut off, and is
// refused as a whole: half a number is a number too. Metric names in quotes (UTF-8
// names) are not read; none of the wanted ones needs them.
//
// # Cost and concurrency
//
// A Scanner belongs to one goroutine and allocates nothing once it has seen a page like
// the one before it: about 10 µs for a page of 55 kB. A Scraper's methods may be called
// from anywhere. It holds one page for each worker.
package enginemetrics
