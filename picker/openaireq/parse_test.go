package openaireq_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// resolve is a host's: two adapters of llama, and an alias.
func resolve(model string) (base, adapter string) {
	switch model {
	case "sql-v2", "chat":
		return "llama", model
	case "default", "":
		return "llama", ""
	}
	return model, ""
}

func newParser(t testing.TB, o openaireq.Options) *openaireq.Parser {
	t.Helper()
	p, err := openaireq.NewParser(o)
	require.NoError(t, err)
	return p
}

func parse(t testing.TB, kind openaireq.Kind, body string) (*openaireq.Body, error) {
	t.Helper()
	var b openaireq.Body
	err := newParser(t, openaireq.Options{Resolve: resolve, SessionField: "user"}).Parse(kind, []byte(body), &b)
	require.Equal(t, body, string(b.Bytes()))
	return &b, err
}

func TestParse(t *testing.T) {
	const chat, completion, responses = openaireq.Chat, openaireq.Completion, openaireq.Responses
	llama := scorer.Request{Model: "llama"}
	with := func(edit func(r *scorer.Request)) scorer.Request {
		r := llama
		edit(&r)
		return r
	}
	limit := func(n int) scorer.Request { return with(func(r *scorer.Request) { r.MaxTokens = n }) }
	ids := func(n int) scorer.Request { return with(func(r *scorer.Request) { r.PromptTokens = n }) }
	scope := prefixindex.Scope{Model: "llama"}
	for name, c := range map[string]struct {
		kind   openaireq.Kind
		body   string
		want   scorer.Request
		scope  prefixindex.Scope
		tokens []uint32
	}{
		"empty":                      {chat, `{}`, llama, scope, nil},
		"white space":                {chat, " {\r\n\t\"model\" : \"llama\" } \n", llama, scope, nil},
		"another model":              {chat, `{"model":"qwen"}`, scorer.Request{Model: "qwen"}, prefixindex.Scope{Model: "qwen"}, nil},
		"null model":                 {chat, `{"model":null}`, llama, scope, nil},
		"adapter":                    {chat, `{"model":"sql-v2"}`, scorer.Request{Model: "llama", Adapter: "sql-v2"}, prefixindex.Scope{Model: "llama", Adapter: "sql-v2"}, nil},
		"alias":                      {chat, `{"model":"default"}`, llama, scope, nil},
		"salt":                       {chat, `{"cache_salt":"t\u00e9nant\n"}`, llama, prefixindex.Scope{Model: "llama", Salt: "ténant\n"}, nil},
		"the last of two counts":     {chat, `{"cache_salt":"a","cache_salt":"b"}`, llama, prefixindex.Scope{Model: "llama", Salt: "b"}, nil},
		"null takes back":            {chat, `{"cache_salt":"a","cache_salt":null}`, llama, scope, nil},
		"a key spelled with escapes": {chat, `{"m\u006fdel":"chat"}`, scorer.Request{Model: "llama", Adapter: "chat"}, prefixindex.Scope{Model: "llama", Adapter: "chat"}, nil},
		"nested fields are others":   {chat, `{"metadata":{"model":"qwen","cache_salt":"a"}}`, llama, scope, nil},
		"session":                    {chat, `{"user":"ann"}`, with(func(r *scorer.Request) { r.Session = "ann" }), scope, nil},
		"max_tokens":                 {chat, `{"max_tokens":100}`, limit(100), scope, nil},
		"max_completion_tokens":      {chat, `{"max_completion_tokens":200,"max_tokens":100}`, limit(200), scope, nil},
		"null max_completion_tokens": {chat, `{"max_completion_tokens":null,"max_tokens":100}`, limit(100), scope, nil},
		"of completions":             {completion, `{"max_completion_tokens":200,"max_tokens":100}`, limit(100), scope, nil},
		"of responses":               {responses, `{"max_output_tokens":300,"max_tokens":100}`, limit(300), scope, nil},
		"a float that is whole":      {chat, `{"max_tokens":1e2}`, limit(100), scope, nil},
		"huge":                       {chat, `{"max_tokens":99999999999999999999}`, limit(math.MaxInt32), scope, nil},
		"ids":                        {completion, `{"prompt":[1, 2,4294967295 ,0]}`, ids(4), scope, []uint32{1, 2, 4294967295, 0}},
		"ids in a list":              {completion, `{"prompt":[ [1,2] ]}`, ids(2), scope, []uint32{1, 2}},
		"the last prompt counts":     {completion, `{"prompt":[1],"prompt":[2,3]}`, ids(2), scope, []uint32{2, 3}},
		"bad, then good":             {completion, `{"prompt":[-1],"prompt":[2,3]}`, ids(2), scope, []uint32{2, 3}},
		"ids elsewhere":              {chat, `{"prompt":[1]}`, llama, scope, nil},
		"unknown kind":               {openaireq.None, `{"prompt":[1],"max_tokens":3}`, limit(3), scope, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := parse(t, c.kind, c.body)
			require.NoError(t, err)
			require.Equal(t, c.want, b.Request)
			require.Equal(t, c.scope, b.Scope)
			require.True(t, slices.Equal(c.tokens, b.Tokens), "%v", b.Tokens)
		})
	}
}

func TestBadFieldsAreNamed(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":7}`:                           `model is 7, want a string`,
		`{"cache_salt":["a"]}`:                  `cache_salt is ["a"], want a string`,
		`{"prompt":[1,-2]}`:                     `prompt[1] is -2, want a token id, 0 to 4294967295`,
		`{"prompt":[4294967296]}`:               `prompt[0] is 4294967296`,
		`{"prompt":[1.0]}`:                      `prompt[0] is 1.0`,
		`{"prompt":[1e0]}`:                      `prompt[0] is 1e0`,
		`{"prompt":[1, "a"]}`:                   `prompt[1] is "a"`,
		`{"prompt":[null]}`:                     `prompt[0] is null`,
		`{"prompt":[[1],[-2]],"prompt":[[-7]]}`: `prompt[0][0] is -7`,
		`{"max_tokens":-1,"prompt":"a"}`:        `max_tokens is -1, want a number of tokens`,
		`{"max_tokens":1.5,"prompt":"a"}`:       `max_tokens is 1.5`,
		`{"max_tokens":"a","prompt":"a"}`:       `max_tokens is "a"`,
		`{"user":{},"prompt":"a"}`:              `user is {}, want a string`,
	} {
		b, err := parse(t, openaireq.Completion, body)
		require.ErrorIs(t, err, openaireq.ErrField, body)
		require.ErrorContains(t, err, want)
		var p prefixindex.Prompt
		err = b.PromptBytes(&p)
		if strings.Contains(body, `"a"}`) && !strings.Contains(body, "[1") {
			require.NoError(t, err, "the prompt does not depend on it")
			continue
		}
		require.ErrorIs(t, err, openaireq.ErrUntokenized)
		require.ErrorContains(t, err, want)
		require.Zero(t, p.Tokens())
	}
}

func TestSyntax(t *testing.T) {
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	for body, want := range map[string]string{
		"":                         "it ends where an object should be",
		"null":                     "want an object",
		"[]":                       "want an object",
		"{":                        "it ends where a key should be",
		`{"a"`:                     "a colon",
		`{"a":`:                    "a value",
		`{"a":1`:                   "a comma or the object's end",
		`{"a":1,}`:                 "want a key",
		`{"a":1}}`:                 "want nothing",
		"{}\x00":                   "want nothing",
		`{"a":01}`:                 "a comma or the object's end",
		`{"a":+1}`:                 "want a value",
		`{"a":1.}`:                 "want a digit",
		`{"a":1e}`:                 "want a digit",
		`{"a":tru}`:                "want true",
		`{"a":"b}`:                 "a quote",
		"{\"a\":\"b\nc\"}":         "at byte 7 is '\\n', want an escape",
		`{"a":"\x"}`:               "want an escape",
		`{"a":"\u12g4"}`:           "four hexadecimal digits",
		`{"a":"\`:                  "an escape",
		`{"a":[1 2]}`:              "a comma or the array's end",
		`{"a":` + deep + `}`:       "more than 1000 levels deep",
		`{"prompt":[1`:             "the array's end",
		`{"prompt":[01]}`:          "the array's end",
		`{"prompt":["a",]}`:        "want a value",
		`{"prompt":[1,]}`:          "want a value",
		`{"messages":[{"content"}`: "a colon",
	} {
		for _, kind := range []openaireq.Kind{openaireq.Completion, openaireq.Chat} {
			b, err := parse(t, kind, body)
			require.ErrorIs(t, err, openaireq.ErrSyntax, "%.40s", body)
			require.ErrorContains(t, err, want)
			require.Zero(t, b.Request)
			require.ErrorIs(t, b.PromptBytes(new(prefixindex.Prompt)), openaireq.ErrSyntax)
		}
	}
}

func TestOptionsAreNamed(t *testing.T) {
	_, err := openaireq.NewParser(openaireq.Options{MaxBytes: -1})
	require.ErrorIs(t, err, openaireq.ErrOption)
	require.ErrorContains(t, err, "MaxBytes is -1")
}

func TestKindOf(t *testing.T) {
	for path, want := range map[string]openaireq.Kind{
		"/v1/chat/completions":           openaireq.Chat,
		"/tenant/a/v1/chat/completions/": openaireq.Chat,
		"/v1/completions":                openaireq.Completion,
		"/v1/responses":                  openaireq.Responses,
		"/v1/responses/resp_1":           openaireq.None,
		"/v1/embeddings":                 openaireq.None,
		"/v1/chat/completions/render":    openaireq.None,
		"":                               openaireq.None,
	} {
		require.Equal(t, want, openaireq.KindOf(path), path)
	}
}

func TestRawAndText(t *testing.T) {
	b, err := parse(t, openaireq.Completion, `{"prompt":"caf\u00e9 \ud83d\ude00","tools": [1, 2] ,"other":3,"documents":null}`)
	require.NoError(t, err)
	text, ok := b.Text()
	require.True(t, ok)
	require.Equal(t, "café 😀", text)
	require.Equal(t, `[1, 2]`, string(b.Raw("tools")))
	for _, name := range []string{"other", "documents", "messages", ""} {
		require.Nil(t, b.Raw(name))
	}
	b, err = parse(t, openaireq.Completion, `{"prompt":["a","b"]}`)
	require.NoError(t, err)
	_, ok = b.Text()
	require.False(t, ok)
}

// What a Body held before shows nowhere.
func TestBodyIsReused(t *testing.T) {
	p := newParser(t, openaireq.Options{Resolve: resolve, SessionField: "user"})
	var reused openaireq.Body
	bodies := []string{
		`{"model":"sql-v2","cache_salt":"s","user":"ann","prompt":[1,2,3],"max_tokens":5,"tools":[1]}`,
		`{"prompt":"text"}`, `{"prompt":[-1]}`, `{"prompt":["a","b"]}`, `{`, `{"prompt":[7]}`, `{}`, `{"model":3}`, `{"prompt":"x"}`,
	}
	for i := range 3 * len(bodies) {
		body := bodies[i*5%len(bodies)]
		var fresh openaireq.Body
		want := p.Parse(openaireq.Completion, []byte(body), &fresh)
		require.Equal(t, want, p.Parse(openaireq.Completion, []byte(body), &reused))
		require.Equal(t, fresh.Request, reused.Request)
		require.Equal(t, fresh.Scope, reused.Scope)
		require.True(t, slices.Equal(fresh.Tokens, reused.Tokens))
		var a, b prefixindex.Prompt
		require.Equal(t, fresh.PromptBytes(&a), reused.PromptBytes(&b))
		require.Equal(t, a.Tokens(), b.Tokens())
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	p := newParser(t, openaireq.Options{Resolve: resolve, SessionField: "user"})
	var b openaireq.Body
	for kind, body := range map[openaireq.Kind]string{
		openaireq.Chat: `{"model":"sql-v2","user":"ann","cache_salt":"s","max_tokens":3,"messages":[{"role":"user","content":"a\nb"},` +
			`{"role":"user","content":[{"type":"text","text":"c"}]}]}`,
		openaireq.Completion: `{"model":"llama","prompt":[1,2,3,4,5,6,7,8]}`,
		openaireq.Responses:  `{"model":"llama","input":"text"}`,
	} {
		data := []byte(body)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if p.Parse(kind, data, &b) != nil {
				panic(kind)
			}
		}), kind)
	}
}

// A body that is all escapes costs no more than its bytes.
func TestEscapedKeysAreDecodedOnce(t *testing.T) {
	body := `{` + strings.Repeat(`"\u0061\u0062":1,`, 100_000) + `"model":"llama"}`
	allocs := testing.AllocsPerRun(1, func() { _, _ = parse(t, openaireq.Chat, body) })
	require.Less(t, allocs, 2e5)
}

// FuzzParse compares with encoding/json: what is JSON, and what the fields say.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		`{"model":"sql-v2","cache_salt":"s","user":"ann","prompt":[1,2,3],"max_tokens":5,"tools":[1]}`,
		`{"prompt":["a\u00e9\n","b"],"max_completion_tokens":1e3}`, `{"prompt":[[1,2],[3]]}`, `{"prompt":"text","prompt":null}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url"},{"text":"b"}]}]}`, `{"a":[{},[],1.5e-7,true,false,null,"\ud800"]}`,
		` { "input" : "x" , "m\u006fdel" : "chat" } `, `{"prompt":[4294967295,4294967296]}`,
	} {
		for kind := range uint8(4) {
			f.Add(kind, body)
		}
	}
	p, err := openaireq.NewParser(openaireq.Options{SessionField: "user"})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, kind uint8, body string) {
		k := openaireq.Kind(kind % 4)
		var b openaireq.Body
		got := p.Parse(k, []byte(body), &b)
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &fields) != nil || fields == nil {
			require.ErrorIs(t, got, openaireq.ErrSyntax)
			return
		}
		if strings.Count(body, "[")+strings.Count(body, "{") > 900 {
			return // may be too deep
		}
		require.NotErrorIs(t, got, openaireq.ErrSyntax)
		if !utf8.ValidString(body) {
			return // encoding/json replaces what is not
		}
		str := func(name string) string {
			var s string
			_ = json.Unmarshal(fields[name], &s)
			return s
		}
		require.Equal(t, str("model"), b.Scope.Model)
		require.Equal(t, str("cache_salt"), b.Scope.Salt)
		require.Equal(t, str("user"), b.Request.Session)
		for name := range fields {
			if raw := b.Raw(name); raw != nil {
				require.JSONEq(t, string(fields[name]), string(raw))
			}
		}
		if k != openaireq.Completion {
			require.Empty(t, b.Tokens)
			return
		}
		text, isText := b.Text()
		var want []uint32
		var lists [][]uint32
		var texts []string
		raw := fields["prompt"]
		switch {
		case len(raw) == 0 || string(raw) == "null":
			require.False(t, isText)
			require.Empty(t, b.Tokens)
		case got != nil:
		case json.Unmarshal(raw, &want) == nil && !strings.Contains(string(raw), "null"):
			require.True(t, slices.Equal(want, b.Tokens))
		case json.Unmarshal(raw, &lists) == nil && len(lists) == 1 && lists[0] != nil:
			require.True(t, slices.Equal(lists[0], b.Tokens))
		case raw[0] == '"':
			require.True(t, isText)
			require.Equal(t, str("prompt"), text)
		case json.Unmarshal(raw, &texts) == nil && len(texts) == 1:
			require.Equal(t, texts[0], text)
		}
	})
}

func BenchmarkParseSmall(b *testing.B) {
	p := newParser(b, openaireq.Options{})
	body := []byte(fmt.Sprintf(`{"model":"llama","messages":[{"role":"user","content":%q}],"temperature":0.5,"stream":true,"max_tokens":100}`,
		strings.Repeat("word ", 100)))
	var out openaireq.Body
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Parse(openaireq.Chat, body, &out); err != nil {
			b.Fatal(err)
		}
	}
}
