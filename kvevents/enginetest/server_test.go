package enginetest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

func serve(t *testing.T, o enginetest.Options) (*enginetest.Engine, *httptest.Server) {
	if o.PrefillTokensPerSecond == 0 {
		o.PrefillTokensPerSecond = 1e6
	}
	if o.DecodeStep == 0 {
		o.DecodeStep = time.Millisecond
	}
	e := newEngine(t, o)
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return e, s
}

// post sends body and returns the status and the decoded answer.
func post(t *testing.T, url, body string) (int, map[string]any) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var v map[string]any
	if len(data) > 0 {
		require.NoError(t, json.Unmarshal(data, &v), string(data))
	}
	return resp.StatusCode, v
}

// get walks v by keys and indices.
func get(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			require.Greater(t, len(v.([]any)), p)
			v = v.([]any)[p]
		}
	}
	return v
}

func TestCompletionPromptForms(t *testing.T) {
	e, s := serve(t, enginetest.Options{})
	text := strings.Repeat("word ", 20)
	ids, err := json.Marshal(enginetest.Tokenize(text))
	require.NoError(t, err)
	n := len(enginetest.Tokenize(text))
	for i, prompt := range []string{fmt.Sprintf("%q", text), string(ids), fmt.Sprintf("[%q]", text), fmt.Sprintf("[%s]", ids)} {
		status, v := post(t, s.URL+"/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":3,"temperature":0.5}`, prompt))
		require.Equal(t, 200, status)
		require.Equal(t, "text_completion", v["object"])
		require.Equal(t, "test-model", v["model"])
		require.Equal(t, "length", get(t, v, "choices", 0, "finish_reason"))
		require.EqualValues(t, n, get(t, v, "usage", "prompt_tokens"))
		require.EqualValues(t, 3, get(t, v, "usage", "completion_tokens"))
		require.EqualValues(t, n+3, get(t, v, "usage", "total_tokens"))
		cached := 0
		if i > 0 {
			cached = (n - 1) / 16 * 16
		}
		require.EqualValues(t, cached, get(t, v, "usage", "prompt_tokens_details", "cached_tokens"))
		require.Len(t, enginetest.Tokenize(get(t, v, "choices", 0, "text").(string)), 3)
	}
	require.EqualValues(t, 4, e.Stats().Finished)
}

func TestBadRequests(t *testing.T) {
	_, s := serve(t, enginetest.Options{MaxModelTokens: 64})
	tests := []struct {
		path, body string
		status     int
	}{
		{"/v1/completions", `{`, 400},
		{"/v1/completions", `{}`, 400},
		{"/v1/completions", `{"prompt":null}`, 400},
		{"/v1/completions", `{"prompt":""}`, 400},
		{"/v1/completions", `{"prompt":7}`, 400},
		{"/v1/completions", `{"prompt":[]}`, 400},
		{"/v1/completions", `{"prompt":[[]]}`, 400},
		{"/v1/completions", `{"prompt":["a","b"]}`, 400},
		{"/v1/completions", `{"prompt":[[1],[2]]}`, 400},
		{"/v1/completions", `{"prompt":[1,-2]}`, 400},
		{"/v1/completions", `{"prompt":[1.5]}`, 400},
		{"/v1/completions", `{"prompt":[1,"a"]}`, 400},
		{"/v1/completions", `{"prompt":"a","max_tokens":0}`, 400},
		{"/v1/completions", `{"prompt":"a","max_tokens":100}`, 400},
		{"/v1/completions", `{"prompt":"a","n":2}`, 400},
		{"/v1/completions", `{"prompt":"a","stream_options":{"include_usage":true}}`, 400},
		{"/v1/completions", `{"prompt":"a","model":"other"}`, 404},
		{"/v1/completions", `{"prompt":"a","model":"other","stream":true}`, 404},
		{"/v1/chat/completions", `{"messages":[]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"content":"a"}]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":7}]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400},
		{"/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"a"}]}`, 404},
		{"/tokenize", `{}`, 400},
		{"/tokenize", `{"prompt":"a","model":"other"}`, 404},
		{"/tokenize", `{"messages":[{"role":"user","content":"a"}],"continue_final_message":true}`, 400},
		{"/detokenize", `{"tokens":[-1]}`, 400},
		{"/detokenize", `{"tokens":[0]}`, 400},
	}
	for _, tt := range tests {
		status, v := post(t, s.URL+tt.path, tt.body)
		require.Equal(t, tt.status, status, tt.body)
		require.EqualValues(t, tt.status, get(t, v, "error", "code"))
		require.NotEmpty(t, get(t, v, "error", "message"))
		require.NotEmpty(t, get(t, v, "error", "type"))
	}
	resp, err := http.Get(s.URL + "/v1/completions")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 405, resp.StatusCode)
}

// events posts a streaming request and returns the data of its events.
func events(t *testing.T, url, body string) []string {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Content-Type"), "text/event-stream")
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var out []string
	for event := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n\n"), "\n\n") {
		require.True(t, strings.HasPrefix(event, "data: "), event)
		out = append(out, strings.TrimPrefix(event, "data: "))
	}
	return out
}

func TestStreams(t *testing.T) {
	_, s := serve(t, enginetest.Options{})
	for _, chat := range []bool{false, true} {
		path, input := "/v1/completions", `"prompt":"once upon a time"`
		if chat {
			path, input = "/v1/chat/completions", `"messages":[{"role":"user","content":[{"type":"text","text":"once"}]}]`
		}
		_, plain := post(t, s.URL+path, fmt.Sprintf(`{%s,"max_tokens":4}`, input))
		got := events(t, s.URL+path, fmt.Sprintf(`{%s,"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`, input))
		require.Equal(t, "[DONE]", got[len(got)-1])
		var text strings.Builder
		var reasons []any
		for _, data := range got[:len(got)-2] {
			var v any
			require.NoError(t, json.Unmarshal([]byte(data), &v))
			require.Nil(t, get(t, v, "usage"))
			reasons = append(reasons, get(t, v, "choices", 0, "finish_reason"))
			if chat {
				require.Equal(t, "chat.completion.chunk", get(t, v, "object"))
				text.WriteString(get(t, v, "choices", 0, "delta", "content").(string))
			} else {
				require.Equal(t, "text_completion", get(t, v, "object"))
				text.WriteString(get(t, v, "choices", 0, "text").(string))
			}
		}
		if chat {
			require.Equal(t, []any{nil, nil, nil, nil, "length"}, reasons) // the role first
			require.Equal(t, "chat.completion", plain["object"])
			require.Equal(t, get(t, plain, "choices", 0, "message", "content"), text.String())
			require.Equal(t, "assistant", get(t, plain, "choices", 0, "message", "role"))
		} else {
			require.Equal(t, []any{nil, nil, nil, "length"}, reasons)
			require.Equal(t, get(t, plain, "choices", 0, "text"), text.String())
		}
		var last any
		require.NoError(t, json.Unmarshal([]byte(got[len(got)-2]), &last))
		require.Empty(t, get(t, last, "choices"))
		require.NotNil(t, get(t, last, "choices"))
		require.EqualValues(t, 4, get(t, last, "usage", "completion_tokens"))

		got = events(t, s.URL+path, fmt.Sprintf(`{%s,"max_tokens":2,"stream":true}`, input))
		require.NotContains(t, strings.Join(got, ""), "usage")
	}
}

// An agent's conversation over HTTP: each turn finds the whole turn before it,
// reply included, in the cache; /tokenize says how long it is.
func TestChatGrowsItsPrefix(t *testing.T) {
	e, s := serve(t, enginetest.Options{})
	messages := []map[string]string{{"role": "system", "content": strings.Repeat("rules ", 30)}}
	previous := 0
	for turn := range 5 {
		messages = append(messages, map[string]string{"role": "user", "content": fmt.Sprintf("question %d", turn)})
		body, err := json.Marshal(map[string]any{"messages": messages, "max_tokens": 40})
		require.NoError(t, err)
		_, tok := post(t, s.URL+"/tokenize", string(body))
		_, v := post(t, s.URL+"/v1/chat/completions", string(body))
		require.Equal(t, tok["count"], get(t, v, "usage", "prompt_tokens"))
		cached := int(get(t, v, "usage", "prompt_tokens_details", "cached_tokens").(float64))
		require.Equal(t, previous/16*16, cached)
		reply := get(t, v, "choices", 0, "message", "content").(string)
		require.Len(t, enginetest.Tokenize(reply), 40)
		messages = append(messages, map[string]string{"role": "assistant", "content": reply})
		previous = int(get(t, v, "usage", "total_tokens").(float64)) - 1 // the last token is not computed
	}
	require.EqualValues(t, 5, e.Stats().Finished)
}

func TestScopesOverHTTP(t *testing.T) {
	_, s := serve(t, enginetest.Options{Adapters: []string{"lora"}})
	cached := func(extra string) int {
		status, v := post(t, s.URL+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":1%s}`, strings.Repeat("abc", 40), extra))
		require.Equal(t, 200, status)
		return int(get(t, v, "usage", "prompt_tokens_details", "cached_tokens").(float64))
	}
	for _, extra := range []string{"", `,"model":"lora"`, `,"cache_salt":"s"`, `,"cache_salt":"lora"`} {
		require.Zero(t, cached(extra))
		require.Equal(t, 32, cached(extra))
	}
	require.Equal(t, 32, cached(`,"model":"test-model"`))

	status, _ := post(t, s.URL+"/reset_prefix_cache", "")
	require.Equal(t, 200, status)
	require.Zero(t, cached(""))
}

func TestTokenizeEndpoints(t *testing.T) {
	_, s := serve(t, enginetest.Options{})
	tokens := func(body string) []uint32 {
		status, v := post(t, s.URL+"/tokenize", body)
		require.Equal(t, 200, status)
		require.EqualValues(t, 131072, v["max_model_len"])
		var ids []uint32
		for _, id := range v["tokens"].([]any) {
			ids = append(ids, uint32(id.(float64)))
		}
		require.EqualValues(t, len(ids), v["count"])
		return ids
	}
	chat := []enginetest.Message{{Role: "user", Content: "hi there"}}
	whole, closed := enginetest.TokenizeChat(chat, true), enginetest.TokenizeChat(chat, false)
	const m = `"messages":[{"role":"user","content":"hi there"}]`
	require.Equal(t, enginetest.Tokenize("hi there"), tokens(`{"prompt":"hi there","add_special_tokens":true}`))
	require.Empty(t, tokens(`{"prompt":""}`))
	require.Equal(t, whole, tokens(`{`+m+`}`))
	require.Equal(t, closed, tokens(`{`+m+`,"add_generation_prompt":false}`))
	require.Equal(t, closed[:len(closed)-2], tokens(`{`+m+`,"add_generation_prompt":false,"continue_final_message":true}`))

	_, v := post(t, s.URL+"/tokenize", `{"prompt":"hi there","return_token_strs":true}`)
	require.Equal(t, []any{"hi", " th", "ere"}, v["token_strs"])
	ids, err := json.Marshal(whole)
	require.NoError(t, err)
	_, v = post(t, s.URL+"/detokenize", fmt.Sprintf(`{"tokens":%s}`, ids))
	require.Equal(t, "<|im_start|>user\nhi there<|im_end|>\n<|im_start|>assistant\n", v["prompt"])
}

func TestModelsAndHealth(t *testing.T) {
	e, s := serve(t, enginetest.Options{Model: "base", Adapters: []string{"lora"}})
	resp, err := http.Get(s.URL + "/v1/models")
	require.NoError(t, err)
	defer resp.Body.Close()
	var v any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&v))
	require.Equal(t, "base", get(t, v, "data", 0, "id"))
	require.Nil(t, get(t, v, "data", 0, "parent"))
	require.Equal(t, "lora", get(t, v, "data", 1, "id"))
	require.Equal(t, "base", get(t, v, "data", 1, "parent"))

	health := func() int {
		resp, err := http.Get(s.URL + "/health")
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, 200, health())
	e.Close()
	require.Equal(t, 503, health())
}

func metrics(t *testing.T, url string) map[string]string {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	samples := make(map[string]string)
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		if line := sc.Text(); !strings.HasPrefix(line, "#") {
			i := strings.LastIndexByte(line, ' ')
			samples[line[:i]] = line[i+1:]
		}
	}
	return samples
}

func TestMetrics(t *testing.T) {
	e, s := serve(t, enginetest.Options{
		Model: "m\"\\\nx", Rank: 3, Blocks: 100, Adapters: []string{"a", "b"}, PrefillTokensPerSecond: 200,
	})
	const l = `{engine="3",model_name="m\"\\\nx"`
	m := metrics(t, s.URL)
	require.Equal(t, "0", m["vllm:num_requests_running"+l+"}"])
	for name := range m {
		require.NotContains(t, name, "lora", "absent until an adapter is used")
	}
	started := m["process_start_time_seconds"]
	require.NotEmpty(t, started)

	generate(t, e, seq(0, 65), 2)
	generate(t, e, seq(0, 65), 3)
	// Held in its prefill (5 s), with one behind it.
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 2)
	for i, model := range []string{"b", "a"} {
		go func() {
			_, err := e.Generate(ctx, enginetest.Request{Model: model, Prompt: seq(0, 1000), MaxTokens: 500})
			cancelled <- err
		}()
		require.Eventually(t, func() bool { s := e.Stats(); return s.Running+s.Waiting == i+1 }, 5*time.Second, time.Millisecond)
	}
	m = metrics(t, s.URL)
	status, _ := post(t, s.URL+"/reset_prefix_cache", "")
	require.Equal(t, 409, status, "refused while a request is running")
	cancel()
	require.ErrorIs(t, <-cancelled, context.Canceled)
	require.ErrorIs(t, <-cancelled, context.Canceled)
	for name, want := range map[string]string{
		"vllm:num_requests_running" + l + "}":                         "1",
		"vllm:num_requests_waiting" + l + "}":                         "1",
		"vllm:kv_cache_usage_perc" + l + "}":                          "0.63",
		"vllm:prefix_cache_queries_total" + l + "}":                   "1130",
		"vllm:prefix_cache_hits_total" + l + "}":                      "64",
		"vllm:prompt_tokens_total" + l + "}":                          "130",
		"vllm:generation_tokens_total" + l + "}":                      "5",
		"vllm:num_preemptions_total" + l + "}":                        "0",
		"vllm:engine_sleep_state" + l + `,sleep_state="awake"}`:       "1",
		"vllm:engine_sleep_state" + l + `,sleep_state="discard_all"}`: "0",
		"vllm:cache_config_info" + l + `,block_size="16",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="100",sliding_window="None"}`: "1",
	} {
		require.Equal(t, want, m[name], name)
	}
	now := m["vllm:lora_requests_info"+l+`,max_lora="2",running_lora_adapters="b",waiting_lora_adapters="a"}`]
	before := m["vllm:lora_requests_info"+l+`,max_lora="2",running_lora_adapters="b",waiting_lora_adapters=""}`]
	require.NotEmpty(t, now)
	require.NotEmpty(t, before)
	require.Greater(t, now, before, "the largest is the present")

	require.NoError(t, e.Restart())
	m = metrics(t, s.URL)
	require.Equal(t, "0", m["vllm:prompt_tokens_total"+l+"}"])
	require.NotEqual(t, started, m["process_start_time_seconds"])
	require.NotContains(t, fmt.Sprint(m), "lora")
}

// The combinations of adapters seen are kept, as vLLM does, but not without end.
func TestAdapterSeriesAreBounded(t *testing.T) {
	o := enginetest.Options{}
	for i := range 100 {
		o.Adapters = append(o.Adapters, fmt.Sprint("adapter", i))
	}
	e, s := serve(t, o)
	for _, name := range o.Adapters {
		_, err := e.Generate(t.Context(), enginetest.Request{Model: name, Prompt: seq(0, 1), MaxTokens: 1})
		require.NoError(t, err)
	}
	n := 0
	for name := range metrics(t, s.URL) {
		if strings.HasPrefix(name, "vllm:lora_requests_info") {
			n++
		}
	}
	require.Equal(t, 64, n)
}

// Restart breaks the connections of requests under way, plain or streaming,
// and the server goes on.
func TestRestartBreaksConnections(t *testing.T) {
	e, s := serve(t, enginetest.Options{DecodeStep: 20 * time.Millisecond})
	resp, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a b","max_tokens":10000,"stream":true}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	first := make([]byte, 6)
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)

	plain := make(chan error)
	go func() {
		resp, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a b","max_tokens":10000}`))
		if err == nil {
			resp.Body.Close()
		}
		plain <- err
	}()
	require.Eventually(t, func() bool { return e.Stats().Running == 2 }, 5*time.Second, time.Millisecond)
	require.NoError(t, e.Restart())
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Error(t, <-plain)

	status, _ := post(t, s.URL+"/v1/completions", `{"prompt":"a b","max_tokens":1}`)
	require.Equal(t, 200, status)
}

// A recorder has no connection to break.
func TestRestartWithoutConnection(t *testing.T) {
	e := newEngine(t, enginetest.Options{})
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt":"a b","max_tokens":10000}`)))
	}()
	require.Eventually(t, func() bool { return e.Stats().Running == 1 }, 5*time.Second, time.Millisecond)
	require.NoError(t, e.Restart())
	<-done
	require.Equal(t, 503, rec.Code)
}

// A client that goes away frees its blocks.
func TestClientDisconnects(t *testing.T) {
	e, s := serve(t, enginetest.Options{DecodeStep: 20 * time.Millisecond})
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		body := fmt.Sprintf(`{"prompt":"a b","max_tokens":10000,"stream":%v}`, stream)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		require.Eventually(t, func() bool { return e.Stats().GeneratedTokens > 0 && e.Stats().Running == 1 }, 5*time.Second, time.Millisecond)
		cancel()
		<-done
		require.Eventually(t, func() bool { return e.Stats().Running == 0 }, 5*time.Second, time.Millisecond)
	}
	s2 := e.Stats()
	require.EqualValues(t, 2, s2.Aborted)
	require.Equal(t, 16384, s2.FreeBlocks)
}

func TestConcurrentHTTP(t *testing.T) {
	e, s := serve(t, enginetest.Options{Blocks: 512, MaxModelTokens: 1024})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"prompt":%q,"max_tokens":5,"stream":%v}`, strings.Repeat(fmt.Sprint(" group", i%7), 50), i%2 == 0)
			resp, err := client.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || i%2 == 0 && !bytes.HasSuffix(data, []byte("data: [DONE]\n\n")) {
				t.Errorf("status %d, error %v, body ends %q", resp.StatusCode, err, data[max(0, len(data)-40):])
			}
		})
	}
	wg.Wait()
	st := e.Stats()
	require.EqualValues(t, 200, st.Finished)
	require.EqualValues(t, 1000, st.GeneratedTokens)
	require.Positive(t, st.CachedTokens)
}
