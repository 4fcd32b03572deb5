package httptransport_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/httptransport"
)

// replies answers requests with one reply, in memory.
type replies struct {
	header http.Header
	body   func() io.Reader
}

func (a replies) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: a.header, Body: io.NopCloser(a.body()), Request: r}, nil
}

// outcome sends a request whose reply is a, and returns what was reported of it, and
// whether a first token was. all reads the reply to its end.
func outcome(t *testing.T, path string, a replies, all bool) (picker.Outcome, bool) {
	t.Helper()
	f := newFleet(t, []string{"http://engine.example.com"},
		func(o *httptransport.Options, _ *picker.Options) { o.Base = a })
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"model":"m"}`))
	res, err := f.RoundTrip(r)
	require.NoError(t, err)
	if all {
		_, _ = io.Copy(io.Discard, res.Body)
	} else {
		want, err := io.ReadAll(a.body())
		require.NoError(t, err)
		_, err = io.ReadFull(res.Body, make([]byte, len(want)))
		require.NoError(t, err)
	}
	require.NoError(t, res.Body.Close())
	require.NoError(t, res.Body.Close())
	f.results(t, 1)
	return f.ended[0].Outcome, f.ledger.Stats().FirstTokens == 1
}

var (
	plain  = http.Header{"Content-Type": {"application/json"}}
	stream = http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
)

func TestUsage(t *testing.T) {
	const chat, responses = "/v1/chat/completions", "/v1/responses"
	for _, test := range []struct {
		name, path string
		header     http.Header
		body       string
		cached     float64 // below zero: not known
		first      bool
	}{
		{"chat", chat, plain, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":40,"total_tokens":42,"completion_tokens":2,"prompt_tokens_details":{"audio_tokens":3,"cached_tokens":32}}}`, 32, false},
		{"zero", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":0}}}`, 0, false},
		{"indented", chat, plain, "{\n \"usage\": {\n  \"prompt_tokens_details\" : {\n   \"cached_tokens\" :\t32\n  }\n }\n}\n", 32, false},
		{"more after it", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":32},"completion_tokens_details":{"cached_tokens":7}},"prompt_logprobs":[[{"cached_tokens":5}]]}`, 32, false},
		{"no details", chat, plain, `{"usage":{"prompt_tokens":40,"prompt_tokens_details":null}}`, -1, false},
		{"null", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}`, -1, false},
		{"negative", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":-3}}}`, -1, false},
		{"a fraction", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":3.5}}}`, -1, false},
		{"huge", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":99999999999999999999999}}}`, -1, false},
		{"a string", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":"32"}}}`, -1, false},
		{"said in the text", chat, plain, `{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":9}}"}}],"usage":{"prompt_tokens":4}}`, -1, false},
		{"elsewhere", chat, plain, `{"x":{"usage":{"prompt_tokens_details":{"cached_tokens":9}}},"prompt_tokens_details":{"cached_tokens":8}}`, -1, false},
		{"a backslash at the end", chat, plain, `{"a":"\\","usage":{"prompt_tokens_details":{"cached_tokens":32}}}`, 32, false},
		{"response", responses, plain, `{"output":[],"usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":16}}}`, 16, false},
		{"not JSON", chat, plain, `<html>"usage":}}]]{{{{{{{`, -1, false},
		{"cut", chat, plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":3`, -1, false},

		{"stream", chat, stream, ": hello\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":48}}}\n\ndata: [DONE]\n\n", 48, true},
		{"stream with carriage returns", chat, stream, "data:{\"choices\":[]}\r\n\r\ndata:{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":48}}}\r\n\r\n", 48, true},
		{"stream with usage in each chunk", chat, stream, "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\ndata: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":48}}}\n\n", 48, true},
		{"stream without usage", chat, stream, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", -1, true},
		{"stream with a broken chunk", chat, stream, "data: {\"a\":\"{{{\n\ndata: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":48}}}\n\n", 48, true},
		{"stream of comments", chat, stream, ": ping\n\n: data: {}\n\n", -1, false},
		{"stream of nothing", chat, stream, "data: [DONE]\n\n", -1, false},
		{"response stream", responses, stream, "event: response.created\ndata: {\"response\":{\"usage\":null}}\n\nevent: response.in_progress\r\ndata: {}\r\n\r\nevent: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text\":\"}\"}]}],\"usage\":{\"input_tokens_details\":{\"cached_tokens\":64}}}}\n\n", 64, true},
		{"response stream that has not begun", responses, stream, "event: response.created\r\ndata: {}\r\n\r\nevent: response.in_progress\ndata: {}\n\n", -1, false},

		{"compressed", chat, http.Header{"Content-Encoding": {"gzip"}}, `{"usage":{"prompt_tokens_details":{"cached_tokens":32}}}`, -1, false},
		{"of no inference", "/v1/embeddings", plain, `{"usage":{"prompt_tokens_details":{"cached_tokens":32}}}`, -1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, cut := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "eof": iotest.DataErrReader,
			} {
				body := func() io.Reader { return cut(strings.NewReader(test.body)) }
				o, first := outcome(t, test.path, replies{test.header, body}, true)
				cached, known := o.CachedTokens.Get()
				if test.cached < 0 {
					require.False(t, known, name)
				} else {
					require.True(t, known, name)
					require.InDelta(t, test.cached, cached, 0, name)
				}
				require.Equal(t, test.first, first, name)
				require.Equal(t, picker.OK, o.Result, name)
			}
		})
	}
}

// A client that has read the answer may close the body before it has seen its end. One
// that closes earlier has gone.
func TestClosedBeforeTheEnd(t *testing.T) {
	for _, test := range []struct {
		header http.Header
		body   string
		want   picker.Result
	}{
		{plain, `{"a":{}}`, picker.OK},
		{plain, `{"a":{}`, picker.Canceled},
		{stream, "data: {}\n\ndata: [DONE]\n\n", picker.OK},
		{stream, "data: {}\n\n", picker.Canceled},
		{stream, "event: response.completed\ndata: {}\n\n", picker.OK},
	} {
		body := func() io.Reader { return strings.NewReader(test.body) }
		o, _ := outcome(t, "/v1/responses", replies{test.header, body}, false)
		require.Equal(t, test.want, o.Result, test.body)
	}
}

// A reply that breaks off is the engine's failure.
func TestReplyBreaksOff(t *testing.T) {
	body := func() io.Reader {
		return io.MultiReader(strings.NewReader("data: {}\n\n"), failing{io.ErrUnexpectedEOF})
	}
	o, first := outcome(t, "/v1/completions", replies{stream, body}, true)
	require.Equal(t, picker.Failed, o.Result)
	require.True(t, first)
}

// Any JSON around it, and any cut, leaves the number what it is.
func TestUsageInAnyJSON(t *testing.T) {
	texts := []string{"usage", "cached_tokens", "prompt_tokens_details", "response", `\`, `"`, "}", "{", "\n", "é"}
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			most := 5
			if depth == 0 {
				most = 3
			}
			switch rapid.IntRange(0, most).Draw(t, "kind") {
			case 0:
				return rapid.SampledFrom(texts).Draw(t, "text")
			case 1:
				return rapid.Int().Draw(t, "number")
			case 2:
				return nil
			case 3:
				return rapid.Bool().Draw(t, "bool")
			case 4:
				return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
			default:
				return rapid.MapOfN(rapid.SampledFrom(texts), value(depth-1), 0, 3).Draw(t, "object")
			}
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		root := rapid.MapOfN(rapid.StringN(1, 3, 3), value(4), 0, 5).Draw(rt, "root")
		details := map[string]any{"cached_tokens": rapid.IntRange(0, 1e9).Draw(rt, "cached"), "z": value(2).Draw(rt, "beside")}
		root["usage"] = map[string]any{"prompt_tokens": 7, "prompt_tokens_details": details}
		text, err := json.Marshal(root)
		require.NoError(rt, err)
		body := func() io.Reader { return iotest.HalfReader(strings.NewReader(string(text))) }
		header := plain
		if rapid.Bool().Draw(rt, "stream") {
			header = stream
			text = []byte(fmt.Sprintf("data: %s\n\n", text))
		}
		o, _ := outcome(t, "/v1/completions", replies{header, body}, true)
		cached, known := o.CachedTokens.Get()
		require.True(rt, known, "%s", text)
		require.InDelta(rt, details["cached_tokens"], cached, 0, "%s", text)
	})
}
