package enginemetrics

// Engine is a server whose names of metrics are known.
type Engine uint8

// The servers.
const (
	Unknown Engine = iota
	VLLM
	SGLang
	TensorRT // trtllm-serve
	Triton   // with its TensorRT-LLM backend
)

const engines = Triton + 1

// String returns the server's name.
func (e Engine) String() string {
	switch e {
	case VLLM:
		return "vllm"
	case SGLang:
		return "sglang"
	case TensorRT:
		return "trtllm-serve"
	case Triton:
		return "triton-tensorrt-llm"
	default:
		return "unknown"
	}
}

// quantity is what a family, or one label of it, says.
type quantity uint8

const (
	waiting quantity = iota
	running
	cacheUse
	oldCacheUse
	blockTokens
	blocks
	asleep
	quantities

	ofLabels  // which quantity depends on the labels
	adapters  // labels of the largest sample
	startTime // of the process
)

// wanted of every server are the quantities before this one.
const wanted = oldCacheUse

// A family is a wanted name.
type family struct {
	engine   Engine
	quantity quantity
}

// longestName is that of the longest wanted name: longer ones need not be compared.
const longestName = len("nv_trt_llm_kv_cache_block_metrics")

// find returns the family of a name; ok is false for one that nobody wants.
func find(name []byte) (f family, ok bool) {
	switch string(name) { // compiled to comparisons, without a copy
	case "vllm:num_requests_waiting":
		return family{VLLM, waiting}, true
	case "vllm:num_requests_running":
		return family{VLLM, running}, true
	case "vllm:kv_cache_usage_perc":
		return family{VLLM, cacheUse}, true
	case "vllm:gpu_cache_usage_perc":
		return family{VLLM, oldCacheUse}, true
	case "vllm:cache_config_info":
		return family{VLLM, ofLabels}, true
	case "vllm:engine_sleep_state":
		return family{VLLM, asleep}, true
	case "vllm:lora_requests_info":
		return family{VLLM, adapters}, true
	case "sglang:num_queue_reqs":
		return family{SGLang, waiting}, true
	case "sglang:num_running_reqs":
		return family{SGLang, running}, true
	case "sglang:token_usage":
		return family{SGLang, cacheUse}, true
	case "sglang:cache_config_info":
		return family{SGLang, ofLabels}, true
	case "trtllm_num_requests_waiting":
		return family{TensorRT, waiting}, true
	case "trtllm_num_requests_running":
		return family{TensorRT, running}, true
	case "trtllm_kv_cache_utilization":
		return family{TensorRT, cacheUse}, true
	case "trtllm_kv_cache_tokens_per_block":
		return family{TensorRT, blockTokens}, true
	case "trtllm_kv_cache_max_blocks":
		return family{TensorRT, blocks}, true
	case "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics":
		return family{Triton, ofLabels}, true
	case "process_start_time_seconds":
		return family{Unknown, startTime}, true
	}
	return family{}, false
}

// rankLabel is the label that tells the ranks of one page apart; empty: there is one.
func (e Engine) rankLabel() string {
	switch e {
	case VLLM:
		return "engine"
	case SGLang:
		return "dp_rank"
	case Triton:
		return "model"
	default:
		return ""
	}
}

// tritonQuantity is what a sample of Triton's families says, by the label that
// distinguishes them.
func tritonQuantity(labels labels) (quantity, bool) {
	if kind, ok := labels.get("request_type"); ok {
		switch string(kind) {
		case "waiting":
			return waiting, true
		case "scheduled":
			return running, true
		}
		return 0, false
	}
	kind, _ := labels.get("kv_cache_block_type")
	switch string(kind) {
	case "fraction":
		return cacheUse, true
	case "tokens_per":
		return blockTokens, true
	case "max":
		return blocks, true
	}
	return 0, false
}
