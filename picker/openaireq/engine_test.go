package openaireq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
)

// Conversations of several turns, in chats and completions, of adapters and salts: what
// the index says that an engine has of a prompt is what the engine then finds.
func TestMatchIsWhatTheEngineFinds(t *testing.T) {
	engine, err := enginetest.New(enginetest.Options{
		Model: "llama", Adapters: []string{"sql-v2"}, PrefillTokensPerSecond: 1e9, DecodeStep: time.Microsecond,
	})
	require.NoError(t, err)
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	ep, err := ix.Join(server.URL)
	require.NoError(t, err)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: ep, Model: "llama", Source: engine.Subscribe(0),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sub.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()
	client := newClient(t, openaireq.ClientOptions{Endpoints: func(string) []string { return []string{server.URL} }})
	defer client.Close()

	parser := newParser(t, openaireq.Options{Resolve: resolve})
	var b openaireq.Body
	var p prefixindex.Prompt
	var m prefixindex.Match
	// serve routes and serves one request; it returns the reply and how much was cached.
	serve := func(path string, request map[string]any) (reply string, cached int) {
		t.Helper()
		body, err := json.Marshal(request)
		require.NoError(t, err)
		r, err := http.NewRequest(http.MethodPost, server.URL+path, strings.NewReader(string(body)))
		require.NoError(t, err)
		require.NoError(t, parser.Read(r, &b))
		_, err = b.Prompt(t.Context(), client, &p)
		require.NoError(t, err)
		batches := uint64(len(engine.Published(0)))
		require.Eventually(t, func() bool { return sub.Stats().Batches == batches }, 5*time.Second, time.Millisecond)
		ix.Match(&p, &m)
		predicted := min(m.Of(ep).GPU, (p.Tokens()-1)/16*16)

		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		var out struct {
			Choices []struct {
				Text    string `json:"text"`
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
			Usage struct {
				PromptTokens int `json:"prompt_tokens"`
				Details      struct {
					CachedTokens int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
		require.Equal(t, out.Usage.PromptTokens, p.Tokens())
		require.Equal(t, out.Usage.Details.CachedTokens, predicted)
		return out.Choices[0].Text + out.Choices[0].Message.Content, predicted
	}

	long := strings.Repeat("some words of context ", 20)
	for _, of := range []struct{ model, salt string }{{"llama", ""}, {"sql-v2", ""}, {"llama", "tenant"}, {"sql-v2", "tenant"}} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			messages := []map[string]any{{"role": "system", "content": long}}
			text := long + "and then"
			before := [2]int{}
			for turn := range 4 {
				request := map[string]any{"model": of.model, "max_tokens": 40}
				if of.salt != "" {
					request["cache_salt"] = of.salt
				}
				messages = append(messages, map[string]any{"role": "user", "content": []map[string]any{
					{"type": "text", "text": fmt.Sprint("question ", turn)},
				}})
				request["messages"] = messages
				reply, cached := serve("/v1/chat/completions", request)
				messages = append(messages, map[string]any{"role": "assistant", "content": reply})
				require.Equal(t, turn > 0, cached > before[0], "turn %d: %d", turn, cached)
				before[0] = cached

				delete(request, "messages")
				request["prompt"] = text
				reply, cached = serve("/v1/completions", request)
				text += reply + " more"
				require.Equal(t, turn > 0, cached > before[1], "turn %d: %d", turn, cached)
				before[1] = cached

				request["prompt"] = enginetest.Tokenize(text)
				serve("/v1/completions", request)
			}
		})
	}
	require.Zero(t, client.Stats().Failed)
}

// An image that a render server names is the one that events name: prompts with another
// image part from it where it begins.
func TestImagesAreThoseOfEvents(t *testing.T) {
	engine, err := enginetest.New(enginetest.Options{Model: "llama", PrefillTokensPerSecond: 1e9, DecodeStep: time.Microsecond})
	require.NoError(t, err)
	defer engine.Close()
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	ep, err := ix.Join("engine")
	require.NoError(t, err)
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: ep, Model: "llama", Source: engine.Subscribe(0),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sub.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()

	tokens := make([]uint32, 100)
	_, err = engine.Generate(t.Context(), enginetest.Request{
		Prompt: tokens, MaxTokens: 1, Items: []enginetest.Item{{ID: "cat", Offset: 40, Length: 30}},
	})
	require.NoError(t, err)
	batches := uint64(len(engine.Published(0)))
	require.Eventually(t, func() bool { return sub.Stats().Batches == batches }, 5*time.Second, time.Millisecond)

	ids, err := json.Marshal(tokens)
	require.NoError(t, err)
	for image, want := range map[string]int{"cat": 96, "dog": 32} {
		client := newClient(t, openaireq.ClientOptions{Render: true, Client: &http.Client{
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return answer(200, fmt.Sprintf(`{"token_ids":%s,"features":{"mm_hashes":{"image":[%q]},`+
					`"mm_placeholders":{"image":[{"offset":40,"length":30}]}}}`, ids, image))
			}),
		}})
		b, err := parse(t, openaireq.Chat, `{"model":"llama","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`)
		require.NoError(t, err)
		var p prefixindex.Prompt
		var m prefixindex.Match
		_, err = b.Prompt(t.Context(), client, &p)
		require.NoError(t, err)
		ix.Match(&p, &m)
		require.Equal(t, want, m.Of(ep).GPU, image)
	}
}
