package openaireq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
)

// roundTripper is a transport without sockets, which a bubble's clock would not see.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func newClient(t testing.TB, o openaireq.ClientOptions) *openaireq.Client {
	t.Helper()
	if o.Endpoints == nil {
		o.Endpoints = func(string) []string { return []string{"http://a", "http://b/"} }
	}
	c, err := openaireq.NewClient(o)
	require.NoError(t, err)
	return c
}

// asking returns a client of a transport that answers each question with three tokens,
// and a list of the questions.
func asking(t testing.TB, o openaireq.ClientOptions) (*openaireq.Client, *[]string) {
	var mu sync.Mutex
	var asked []string
	o.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		mu.Lock()
		asked = append(asked, r.URL.String()+" "+string(body))
		mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/v1/completions/render") {
			return answer(200, `[{"token_ids":[1,2,3]}]`)
		}
		return answer(200, `{"count":3,"max_model_len":10,"tokens":[1,2,3],"token_strs":null}`)
	})}
	return newClient(t, o), &asked
}

func TestClientOptionsAreNamed(t *testing.T) {
	some := func(string) []string { return nil }
	for want, o := range map[string]openaireq.ClientOptions{
		"Endpoints is nil":         {},
		"Timeout is 1ns":           {Endpoints: some, Timeout: 1},
		"Cooldown is 2h0m0s":       {Endpoints: some, Cooldown: 2 * time.Hour},
		"MinBytes is -1, want 0 o": {Endpoints: some, MinBytes: -1},
	} {
		_, err := openaireq.NewClient(o)
		require.ErrorIs(t, err, openaireq.ErrOption)
		require.ErrorContains(t, err, want)
	}
}

func TestQuestions(t *testing.T) {
	const messages = `[ {"role":"user","content":[{"type":"text","text":"caf\u00e9"},"b"]} ]`
	for _, c := range []struct {
		name   string
		kind   openaireq.Kind
		body   string
		render bool
		want   string
	}{
		{"completion", openaireq.Completion, `{"model":"llama","prompt":"a\nb","max_tokens":3}`, false,
			`/tokenize {"model":"llama","prompt":"a\nb"}`},
		{"of a list", openaireq.Completion, `{"model":"llama","prompt":["a"],"add_special_tokens":false}`, false,
			`/tokenize {"model":"llama","prompt":"a","add_special_tokens":false}`},
		{"adapters share the tokenizer", openaireq.Completion, `{"model":"sql-v2","prompt":"a"}`, false,
			`/tokenize {"model":"llama","prompt":"a"}`},
		{"chat", openaireq.Chat, `{"model":"llama","messages":` + messages + `,"stream":true}`, false,
			`/tokenize {"model":"llama","messages":` + messages + `}`},
		{"chat with all", openaireq.Chat, `{"model":"llama","continue_final_message":true,"add_generation_prompt":false,
			"chat_template":"t","chat_template_kwargs":{"k": 1},"tools":[{"type":"function"}],"tool_choice":"auto",
			"mm_processor_kwargs":{},"media_io_kwargs":{},"add_special_tokens":true,"messages":[],"temperature":1}`, false,
			`/tokenize {"model":"llama","messages":[],"tools":[{"type":"function"}],"chat_template":"t","chat_template_kwargs":{"k": 1},` +
				`"add_special_tokens":true,"add_generation_prompt":false,"continue_final_message":true,"mm_processor_kwargs":{},"media_io_kwargs":{}}`},
		{"render chat", openaireq.Chat, `{ "messages":[{"content":[{"type":"image_url"}]}],"model" : "sql-v2", "documents":[]}`, true,
			`/v1/chat/completions/render { "messages":[{"content":[{"type":"image_url"}]}],"model" : "llama", "documents":[]}`},
		{"render completion", openaireq.Completion, `{"prompt":"a"}`, true, `/v1/completions/render {"prompt":"a"}`},
		{"render response", openaireq.Responses, `{"model":"llama","input":"a"}`, true, `/v1/responses/render {"model":"llama","input":"a"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, asked := asking(t, openaireq.ClientOptions{Render: c.render, Header: http.Header{"Authorization": {"Bearer k"}}})
			b, err := parse(t, c.kind, c.body)
			require.NoError(t, err)
			tokens, err := client.Tokenize(t.Context(), b)
			require.NoError(t, err)
			require.Equal(t, []uint32{1, 2, 3}, tokens.IDs)
			require.False(t, tokens.Cached)
			require.Equal(t, []string{"http://b" + c.want}, *asked)
			require.Equal(t, c.body, string(b.Bytes()))
		})
	}
}

func TestUnsupportedIsNotAsked(t *testing.T) {
	client, asked := asking(t, openaireq.ClientOptions{MinBytes: 10})
	bodies := map[string]openaireq.Kind{
		`{"input":"a long enough text"}`: openaireq.Responses,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`: openaireq.Chat,
		`{"messages":[{"role":"user","content":[{"image_url":{"url":"x"}}]}]}`:                    openaireq.Chat,
		`{"messages":[{"role":"user","c\u006fntent":[{"type":"input_audio"}]}]}`:                  openaireq.Chat,
		`{"messages":[{"role":"user","content":"text"}],"documents":[]}`:                          openaireq.Chat,
		`{"messages":[{"role":"user","content":"text"}],"reasoning_effort":"low"}`:                openaireq.Chat,
		`{"prompt":[1,2,3]}`: openaireq.Completion,
	}
	for body, kind := range bodies {
		b, err := parse(t, kind, body)
		require.NoError(t, err)
		_, err = client.Tokenize(t.Context(), b)
		require.ErrorIs(t, err, openaireq.ErrUnsupported, body)
	}
	b, err := parse(t, openaireq.Completion, `{"prompt":"short"}`)
	require.NoError(t, err)
	_, err = client.Tokenize(t.Context(), b)
	require.ErrorContains(t, err, "shorter than MinBytes")
	require.Empty(t, *asked)
	st := client.Stats()
	require.EqualValues(t, len(bodies), st.Unsupported)
	require.EqualValues(t, 1, st.Short)
	require.EqualValues(t, len(bodies)+1, st.Calls)
}

func TestCache(t *testing.T) {
	client, asked := asking(t, openaireq.ClientOptions{CacheBytes: 1000})
	tokenize := func(body string) openaireq.Tokens {
		b, err := parse(t, openaireq.Completion, body)
		require.NoError(t, err)
		tokens, err := client.Tokenize(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, []uint32{1, 2, 3}, tokens.IDs)
		return tokens
	}
	require.False(t, tokenize(`{"prompt":"a"}`).Cached)
	require.True(t, tokenize(`{"prompt":"a","max_tokens":7,"cache_salt":"s"}`).Cached, "the tokens do not depend on those")
	require.True(t, tokenize(`{"prompt":"a","model":"sql-v2"}`).Cached, "nor on the adapter")
	require.False(t, tokenize(`{"prompt":"a","model":"qwen"}`).Cached)
	require.False(t, tokenize(`{"prompt":"a","add_special_tokens":false}`).Cached)
	require.True(t, tokenize(`{"prompt":"a"}`).Cached)
	require.False(t, tokenize(`{"prompt":"b"}`).Cached)
	st := client.Stats()
	require.Equal(t, 3, st.Entries, "there is no room for a fourth")
	require.LessOrEqual(t, st.CacheBytes, 1000)
	require.EqualValues(t, 1, st.Evicted)
	require.EqualValues(t, 3, st.Hits)
	require.EqualValues(t, 4, st.Asked)
	require.Len(t, *asked, 4)
	require.True(t, tokenize(`{"prompt":"a"}`).Cached, "the least recently used went")
	require.False(t, tokenize(`{"prompt":"a","model":"qwen"}`).Cached)
	client.Purge()
	require.False(t, tokenize(`{"prompt":"a"}`).Cached)
	require.Equal(t, 1, client.Stats().Entries)

	client, asked = asking(t, openaireq.ClientOptions{CacheBytes: -1})
	for range 3 {
		require.False(t, tokenize(`{"prompt":"a"}`).Cached)
	}
	require.Len(t, *asked, 3)
	client.Purge()
	require.Zero(t, client.Stats().Entries)
}

// failing runs body in a bubble with a client whose endpoint a misbehaves.
func failing(t *testing.T, a roundTripper, o openaireq.ClientOptions, body func(t *testing.T, c *openaireq.Client, b *openaireq.Body, asked *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		o.CacheBytes = -1
		o.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Host)
			if r.URL.Host == "a" {
				return a(r)
			}
			time.Sleep(10 * time.Millisecond)
			return answer(200, `{"tokens":[1]}`)
		})}
		b, err := parse(t, openaireq.Completion, `{"prompt":"text"}`)
		require.NoError(t, err)
		body(t, newClient(t, o), b, &asked)
	})
}

func TestFailuresByReason(t *testing.T) {
	hang := func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }
	gives := func(status int, body string) roundTripper {
		return func(*http.Request) (*http.Response, error) { return answer(status, body) }
	}
	for name, c := range map[string]struct {
		a       roundTripper
		count   func(st openaireq.ClientStats) uint64
		another bool // the next one is asked at once
		cools   bool
		want    error
	}{
		"refuses":    {func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }, func(st openaireq.ClientStats) uint64 { return st.Transport }, true, true, nil},
		"hangs":      {hang, func(st openaireq.ClientStats) uint64 { return st.Timeouts }, false, true, context.DeadlineExceeded},
		"overloaded": {gives(503, ""), func(st openaireq.ClientStats) uint64 { return st.Status }, true, true, openaireq.ErrStatus},
		"bad":        {gives(400, "{}"), func(st openaireq.ClientStats) uint64 { return st.Status }, false, false, openaireq.ErrStatus},
		"fails":      {gives(500, ""), func(st openaireq.ClientStats) uint64 { return st.Status }, false, false, openaireq.ErrStatus},
		"no JSON":    {gives(200, "<html>"), func(st openaireq.ClientStats) uint64 { return st.BadAnswer }, false, false, openaireq.ErrAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			failing(t, c.a, openaireq.ClientOptions{}, func(t *testing.T, client *openaireq.Client, b *openaireq.Body, asked *[]string) {
				_, err := client.Tokenize(t.Context(), b) // of b
				require.NoError(t, err)
				tokens, err := client.Tokenize(t.Context(), b) // of a
				if c.another {
					require.NoError(t, err)
					require.Equal(t, []string{"b", "a", "b"}, *asked)
				} else {
					require.Error(t, err)
					require.Nil(t, tokens.IDs)
					if c.want != nil {
						require.ErrorIs(t, err, c.want)
					}
					require.EqualValues(t, 1, client.Stats().Failed)
				}
				require.EqualValues(t, 1, c.count(client.Stats()))
				*asked = nil
				for range 4 {
					_, _ = client.Tokenize(t.Context(), b)
				}
				require.Len(t, *asked, 4)
				require.Equal(t, c.cools, !slices.Contains(*asked, "a"))
				time.Sleep(time.Second)
				*asked = nil
				_, _ = client.Tokenize(t.Context(), b)
				_, _ = client.Tokenize(t.Context(), b)
				require.Contains(t, *asked, "a", "it is tried again")
			})
		})
	}
}

func TestTimesAreReported(t *testing.T) {
	failing(t, func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		openaireq.ClientOptions{Timeout: 300 * time.Millisecond}, func(t *testing.T, client *openaireq.Client, b *openaireq.Body, _ *[]string) {
			tokens, err := client.Tokenize(t.Context(), b)
			require.NoError(t, err)
			require.Equal(t, 10*time.Millisecond, tokens.Took)
			tokens, err = client.Tokenize(t.Context(), b)
			require.Error(t, err)
			require.Equal(t, 300*time.Millisecond, tokens.Took)
			st := client.Stats()
			require.Equal(t, 310*time.Millisecond, st.Spent)
			require.Equal(t, 300*time.Millisecond, st.Longest)
		})
}

// A client that goes away is nobody's failure.
func TestCancelled(t *testing.T) {
	failing(t, func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		openaireq.ClientOptions{Endpoints: func(string) []string { return []string{"http://a"} }},
		func(t *testing.T, client *openaireq.Client, b *openaireq.Body, asked *[]string) {
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				_, err := client.Tokenize(ctx, b)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			require.Len(t, *asked, 2, "it does not cool down")
			st := client.Stats()
			require.EqualValues(t, 2, st.Cancelled)
			require.Zero(t, st.Timeouts+st.Failed)
		})
}

func TestNoEndpoint(t *testing.T) {
	for _, endpoints := range [][]string{nil, {"http://a"}} {
		failing(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") },
			openaireq.ClientOptions{Endpoints: func(model string) []string { require.Equal(t, "llama", model); return endpoints }},
			func(t *testing.T, client *openaireq.Client, b *openaireq.Body, _ *[]string) {
				_, _ = client.Tokenize(t.Context(), b)
				_, err := client.Tokenize(t.Context(), b)
				require.ErrorIs(t, err, openaireq.ErrNoEndpoint)
				require.EqualValues(t, 2-len(endpoints), client.Stats().NoEndpoint)
			})
	}
}

func TestAnswers(t *testing.T) {
	const three = `"token_ids":[1,2,3]`
	features := func(f string) string { return `{` + three + `,"features":` + f + `}` }
	image := prefixindex.Extra{At: 1, Kind: prefixindex.ExtraMedia, ID: "h1"}
	for _, c := range []struct {
		answer string
		extras []prefixindex.Extra
		want   string // in the error
	}{
		{answer: `{"tokens":[1,2,3]}`},
		{answer: "{\"count\": 3 ,\n\"tokens\" : [ 1 , 2 , 3 ]}"},
		{answer: features("null")},
		{answer: features(`{}`)},
		{answer: features(`{"mm_hashes":{"image":["h1"]},"mm_placeholders":{"image":[{"offset":1,"length":2}]},"kwargs_data":{}}`), extras: []prefixindex.Extra{image}},
		{answer: features(`{"mm_hashes":{"image":["h1"],"audio":[]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}}`), extras: []prefixindex.Extra{image}},
		{answer: features(`{"mm_hashes":{"image":["h1","h2"]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}}`), want: "2 hashes for 1 places of image"},
		{answer: features(`{"mm_hashes":{},"mm_placeholders":{"image":[{"offset":1,"length":2}]}}`), want: "places of image without hashes"},
		{answer: features(`{"mm_hashes":{"image":["h1"]}}`), want: "1 hashes for 0 places"},
		{answer: features(`{"mm_hashes":{"image":[null]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}}`), want: `hash ""`},
		{answer: features(`{"mm_hashes":{"image":["h1"]},"mm_placeholders":{"image":[{"offset":2,"length":2}]}}`), want: "is at 2, 2 tokens long, of 3"},
		{answer: features(`{"mm_hashes":{"image":["h1"]},"mm_placeholders":{"image":[{"offset":-1,"length":2}]}}`), want: "is at -1"},
		{answer: features(`{"mm_hashes":{"image":["h1"]},"mm_placeholders":{"image":[{"offset":0,"length":0}]}}`), want: "0 tokens long"},
		{answer: features(`{"mm_hashes":7}`), want: "features"},
		{answer: `{"tokens":[]}`, want: "absent or empty"},
		{answer: `{}`, want: "absent or empty"},
		{answer: `{"tokens":null}`, want: "absent or empty"},
		{answer: `{"tokens":[1,-2]}`, want: "want a token id"},
		{answer: `{"tokens":[1,2`, want: "token id"},
		{answer: `{"tokens":[1,2,3],"count":4}`, want: "count is 4, of 3 tokens"},
		{answer: `[{"tokens":[1,2,3]}]`, want: "an object"},
		{answer: ``, want: "an object"},
	} {
		b, err := parse(t, openaireq.Chat, `{"messages":[{"role":"user","content":"a"}]}`)
		require.NoError(t, err)
		client := newClient(t, openaireq.ClientOptions{Render: true, Client: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, c.answer) }),
		}})
		tokens, err := client.Tokenize(t.Context(), b)
		if c.want != "" {
			require.ErrorIs(t, err, openaireq.ErrAnswer, c.answer)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, client.Stats().Entries)
			continue
		}
		require.NoError(t, err, c.answer)
		require.Equal(t, []uint32{1, 2, 3}, tokens.IDs)
		require.Equal(t, c.extras, tokens.Extras)
	}
	for answers, want := range map[string]string{
		`[{"token_ids":[1]},{"token_ids":[2]}]`: "several prompts",
		`[]`:                                    "absent or empty",
		`{"token_ids":[1]}`:                     "want a list",
	} {
		b, err := parse(t, openaireq.Completion, `{"prompt":"a"}`)
		require.NoError(t, err)
		client := newClient(t, openaireq.ClientOptions{Render: true, Client: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, answers) }),
		}})
		_, err = client.Tokenize(t.Context(), b)
		require.ErrorContains(t, err, want)
	}
}

// The tokens are those that the engine counts, of chats and completions of any text.
func TestTokensAreTheEngines(t *testing.T) {
	engine, err := enginetest.New(enginetest.Options{Model: "llama", Adapters: []string{"sql-v2"}, PrefillTokensPerSecond: 1e9})
	require.NoError(t, err)
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()
	client := newClient(t, openaireq.ClientOptions{Endpoints: func(string) []string { return []string{server.URL} }})
	defer client.Close()
	quoted := func(s string) string { q, _ := json.Marshal(s); return string(q) }
	for _, text := range []string{"a", "two words", "  white \n\n space\t", "日本語 \"quoted\" \\ \u0001", strings.Repeat("long ", 20_000)} {
		for path, body := range map[string]string{
			"/v1/completions":      fmt.Sprintf(`{"model":"sql-v2","prompt":%s,"max_tokens":1}`, quoted(text)),
			"/v1/chat/completions": fmt.Sprintf(`{"model":"llama","messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":%s}]}],"max_tokens":1}`, quoted(text)),
		} {
			b, err := parse(t, openaireq.KindOf(path), body)
			require.NoError(t, err)
			tokens, err := client.Tokenize(t.Context(), b)
			require.NoError(t, err)
			require.Positive(t, tokens.Took)
			resp, err := http.Post(server.URL+path, "application/json", strings.NewReader(body))
			require.NoError(t, err)
			var out struct {
				Usage struct {
					PromptTokens int `json:"prompt_tokens"`
				} `json:"usage"`
			}
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
			resp.Body.Close()
			require.Len(t, tokens.IDs, out.Usage.PromptTokens)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	var n atomic.Int64
	client := newClient(t, openaireq.ClientOptions{CacheBytes: 20_000, Client: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			if n.Add(1)%7 == 0 {
				return answer(503, "")
			}
			return answer(200, fmt.Sprintf(`{"tokens":[%d]}`, len(body)))
		}),
	}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			p, err := openaireq.NewParser(openaireq.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			var b openaireq.Body
			for i := range 200 {
				prompt := strings.Repeat("x", (g*31+i)%100)
				if err := p.Parse(openaireq.Completion, []byte(`{"prompt":"`+prompt+`"}`), &b); err != nil {
					t.Error(err)
				}
				tokens, err := client.Tokenize(t.Context(), &b)
				if err == nil && tokens.IDs[0] != uint32(len(`{"prompt":""}`)+len(prompt)) {
					t.Errorf("%v for %d bytes", tokens.IDs, len(prompt))
				}
			}
		})
	}
	wg.Wait()
	st := client.Stats()
	require.EqualValues(t, 1600, st.Calls)
	require.Positive(t, st.Hits)
	require.LessOrEqual(t, st.CacheBytes, 20_000)
}

// Whatever an engine answers, tokens are those that encoding/json finds, or none.
func FuzzAnswer(f *testing.F) {
	for _, a := range []string{
		`{"count":3,"max_model_len":10,"tokens":[1,2,3],"token_strs":null}`, `[{"token_ids":[1,4294967295]}]`,
		`{"token_ids":[1,2,3],"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":0,"length":2}]}}}`,
		`{"tokens":[1,-1]}`, `{"tokens":[12345678,123456789,1234567,01]}`,
	} {
		f.Add(a, false)
		f.Add(a, true)
	}
	p, err := openaireq.NewParser(openaireq.Options{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, a string, completion bool) {
		var b openaireq.Body
		body, kind := `{"messages":[]}`, openaireq.Chat
		if completion {
			body, kind = `{"prompt":""}`, openaireq.Completion
		}
		require.NoError(t, p.Parse(kind, []byte(body), &b))
		client := newClient(t, openaireq.ClientOptions{Render: true, Client: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, a) }),
		}})
		tokens, err := client.Tokenize(t.Context(), &b)
		if err != nil {
			require.ErrorIs(t, err, openaireq.ErrAnswer)
			require.Empty(t, tokens.IDs)
			return
		}
		require.NotEmpty(t, tokens.IDs)
		var one map[string]json.RawMessage
		if completion {
			var list []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(a), &list))
			require.Len(t, list, 1)
			one = list[0]
		} else {
			require.NoError(t, json.Unmarshal([]byte(a), &one))
		}
		if one["tokens"] == nil || one["token_ids"] == nil { // or the last of the two counts
			var want []uint32
			require.NoError(t, json.Unmarshal(append(one["tokens"], one["token_ids"]...), &want))
			require.Equal(t, want, tokens.IDs)
		}
		for _, x := range tokens.Extras {
			require.True(t, x.At >= 0 && x.At < len(tokens.IDs))
		}
	})
}
