package enginemetrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

func ExampleScraper() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 3.0
vllm:num_requests_running{engine="1",model_name="llama"} 2.0
vllm:num_requests_waiting{engine="0",model_name="llama"} 0.0
vllm:num_requests_waiting{engine="1",model_name="llama"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="llama"} 0.75
`)
	}))
	defer engine.Close()

	scraper, err := enginemetrics.New(enginemetrics.Options{Interval: 50 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- scraper.Run(ctx) }()

	target, err := scraper.Add(enginemetrics.TargetOptions{URL: engine.URL})
	if err != nil {
		panic(err)
	}
	for target.Report() == nil {
		time.Sleep(time.Millisecond)
	}
	candidate := scorer.Candidate{Signals: target.Signals()}
	fmt.Println(candidate.Signals.Waiting.Get())
	fmt.Println(candidate.Signals.Running.Get())
	fmt.Println(candidate.Signals.CacheUse.Get())

	stop()
	if err := <-stopped; err != nil {
		panic(err)
	}
	// Output:
	// 4 true
	// 5 true
	// 0.75 true
}

func ExampleScanner() {
	page := []byte(`sglang:num_queue_reqs{dp_rank="0"} 2.0
sglang:num_running_reqs{dp_rank="0"} 7.0
sglang:token_usage{dp_rank="0"} 0.5
sglang:cache_config_info{dp_rank="0",page_size="64",num_pages="1000"} 1.0
`)
	var scanner enginemetrics.Scanner
	var report enginemetrics.Report
	if err := scanner.Scan(page, &report); err != nil {
		panic(err)
	}
	fmt.Println(report.Engine, "blocks:", report.Blocks, "tokens in each:", report.BlockTokens)
	// Output:
	// sglang blocks: 1000 tokens in each: 64
}
