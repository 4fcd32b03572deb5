package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/picker/openaireq"
)

// chatBody is a conversation of about that many tokens, at four and a half bytes each:
// prose in lines, so that there are escapes.
func chatBody(tokens int) []byte {
	line := strings.Repeat("some words of a prompt, ", 4) + `\n`
	var body strings.Builder
	body.WriteString(`{"model":"llama","temperature":0.7,"stream":true,"max_tokens":1000,"messages":[`)
	for i, size := 0, tokens*9/2; body.Len() < size; i++ {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"role":%q,"content":"%s"}`, []string{"user", "assistant"}[i%2], strings.Repeat(line, min(40, size/len(line)+1)))
	}
	body.WriteString(`]}`)
	return []byte(body.String())
}

// idBody is a completion of that many token ids.
func idBody(tokens int) []byte {
	body := []byte(`{"model":"llama","max_tokens":1000,"prompt":[`)
	for i, id := range harness.NewChain(1, tokens).Tokens {
		if i > 0 {
			body = append(body, ',')
		}
		body = strconv.AppendUint(body, uint64(id), 10)
	}
	return append(body, ']', '}')
}

// BenchmarkParse reads request bodies. impl=encodingjson is what a router does that
// decodes the fields it needs with the standard library.
func BenchmarkParse(b *testing.B) {
	parser, err := openaireq.NewParser(openaireq.Options{})
	harness.Must(b, err)
	for _, form := range []string{"chat", "ids"} {
		for _, tokens := range []int{1_000, 100_000} {
			body, kind := chatBody(tokens), openaireq.Chat
			if form == "ids" {
				body, kind = idBody(tokens), openaireq.Completion
			}
			run := func(impl string, parse func() error) {
				b.Run(fmt.Sprintf("impl=%s/form=%s/tokens=%d", impl, form, tokens), func(b *testing.B) {
					small(b)
					harness.Must(b, parse())
					b.ReportAllocs()
					b.SetBytes(int64(len(body)))
					for b.Loop() {
						if err := parse(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			var out openaireq.Body
			run("warmroute", func() error {
				if err := parser.Parse(kind, body, &out); err != nil || form == "chat" {
					return err
				}
				if out.Request.PromptTokens != tokens {
					return fmt.Errorf("%d tokens, want %d", out.Request.PromptTokens, tokens)
				}
				return nil
			})
			run("encodingjson", func() error {
				var fields struct {
					Model     string          `json:"model"`
					CacheSalt string          `json:"cache_salt"`
					MaxTokens int             `json:"max_tokens"`
					Messages  json.RawMessage `json:"messages"`
					Prompt    []uint32        `json:"prompt"`
				}
				return json.Unmarshal(body, &fields)
			})
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// BenchmarkTokenize is what a Client adds to a request besides the engine's time: with
// cached=true a hash of the prompt, with cached=false an exchange without a network.
func BenchmarkTokenize(b *testing.B) {
	const tokens = 100_000
	list := idBody(tokens)
	list = list[bytes.IndexByte(list, '[') : len(list)-1]
	answer := fmt.Appendf(nil, `{"count":%d,"max_model_len":131072,"tokens":%s,"token_strs":null}`, tokens, list)
	for _, cached := range []bool{true, false} {
		b.Run(fmt.Sprintf("tokens=%d/cached=%v", tokens, cached), func(b *testing.B) {
			small(b)
			parser, err := openaireq.NewParser(openaireq.Options{})
			harness.Must(b, err)
			var body openaireq.Body
			harness.Must(b, parser.Parse(openaireq.Chat, chatBody(tokens), &body))
			o := openaireq.ClientOptions{
				Endpoints: func(string) []string { return []string{"http://engine"} },
				Client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(answer))}, nil
				})},
			}
			if !cached {
				o.CacheBytes = -1
			}
			client, err := openaireq.NewClient(o)
			harness.Must(b, err)
			ask := func() {
				if got, err := client.Tokenize(context.Background(), &body); err != nil || len(got.IDs) != tokens {
					b.Fatal(len(got.IDs), err)
				}
			}
			ask()
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}
