package openaireq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
)

func hasher(t testing.TB, blockTokens int) prefixindex.Hasher {
	t.Helper()
	h, err := prefixindex.NewHasher(blockTokens, 1)
	require.NoError(t, err)
	return h
}

func TestPromptOfIDsAsksNobody(t *testing.T) {
	b, err := parse(t, openaireq.Completion, `{"model":"sql-v2","prompt":[1,2,3,4,5]}`)
	require.NoError(t, err)
	var p, want prefixindex.Prompt
	tokens, err := b.Prompt(t.Context(), nil, &p)
	require.NoError(t, err)
	require.Equal(t, openaireq.Tokens{IDs: []uint32{1, 2, 3, 4, 5}}, tokens)
	want.Reset(prefixindex.Scope{Model: "llama", Adapter: "sql-v2"}, []uint32{1, 2, 3, 4, 5})
	h := hasher(t, 4)
	require.Equal(t, h.Hashes(&want), h.Hashes(&p))
}

func TestPromptOfATokenizer(t *testing.T) {
	b, err := parse(t, openaireq.Chat, `{"model":"llama","messages":[{"role":"user","content":"a"}]}`)
	require.NoError(t, err)
	extras := []prefixindex.Extra{{At: 1, ID: "image"}}
	tokenizer := openaireq.TokenizerFunc(func(_ context.Context, b *openaireq.Body) (openaireq.Tokens, error) {
		require.JSONEq(t, `[{"role":"user","content":"a"}]`, string(b.Raw("messages")))
		return openaireq.Tokens{IDs: []uint32{1, 2, 3, 4}, Extras: extras}, nil
	})
	var p, want prefixindex.Prompt
	_, err = b.Prompt(t.Context(), tokenizer, &p)
	require.NoError(t, err)
	want.Reset(b.Scope, []uint32{1, 2, 3, 4}, extras...)
	h := hasher(t, 4)
	require.Equal(t, h.Hashes(&want), h.Hashes(&p))

	failing := openaireq.TokenizerFunc(func(context.Context, *openaireq.Body) (openaireq.Tokens, error) {
		return openaireq.Tokens{IDs: []uint32{1}}, errors.ErrUnsupported
	})
	tokens, err := b.Prompt(t.Context(), failing, &p)
	require.ErrorIs(t, err, openaireq.ErrUntokenized)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Nil(t, tokens.IDs)
	require.Zero(t, p.Tokens(), "nothing of the prompt before is left")
	_, err = b.Prompt(t.Context(), nil, &p)
	require.ErrorIs(t, err, openaireq.ErrUnsupported)
}

// Where a prompt is not all in the body, or is several, there is none.
func TestPromptsThatCannotBeKnown(t *testing.T) {
	never := openaireq.TokenizerFunc(func(context.Context, *openaireq.Body) (openaireq.Tokens, error) {
		t.Error("asked")
		return openaireq.Tokens{}, nil
	})
	for body, kind := range map[string]openaireq.Kind{
		`{}`:                            openaireq.Chat,
		`{"messages":"a","prompt":"b"}`: openaireq.Chat,
		`{"messages":[],"truncate_prompt_tokens":5}`:  openaireq.Chat,
		`{"prompt":["a","b"]}`:                        openaireq.Completion,
		`{"prompt":[[1],[2]]}`:                        openaireq.Completion,
		`{"prompt":[]}`:                               openaireq.Completion,
		`{"prompt":[[]]}`:                             openaireq.Completion,
		`{"prompt":7}`:                                openaireq.Completion,
		`{"prompt":null}`:                             openaireq.Completion,
		`{"prompt":[1],"prompt_embeds":"xx"}`:         openaireq.Completion,
		`{"prompt":[1,2],"truncate_prompt_tokens":1}`: openaireq.Completion,
		`{"input":"a","previous_response_id":"r"}`:    openaireq.Responses,
		`{"input":"a","conversation":{"id":"c"}}`:     openaireq.Responses,
		`{"input":"a","prompt":{"id":"p"}}`:           openaireq.Responses,
		`{"prompt":"a"}`:                              openaireq.None,
		`{"prompt":"a","truncate_prompt_tokens":null,"prompt":["a","b"] }`: openaireq.Completion,
	} {
		b, err := parse(t, kind, body)
		require.NoError(t, err)
		p := new(prefixindex.Prompt)
		for _, err := range []error{promptOnly(t, b, never, p), b.PromptBytes(p)} {
			require.ErrorIs(t, err, openaireq.ErrUntokenized, body)
			require.ErrorIs(t, err, openaireq.ErrUnsupported)
			require.Zero(t, p.Tokens())
		}
	}
}

func promptOnly(t *testing.T, b *openaireq.Body, tokenizer openaireq.Tokenizer, p *prefixindex.Prompt) error {
	_, err := b.Prompt(t.Context(), tokenizer, p)
	return err
}

func TestPromptBytes(t *testing.T) {
	h := hasher(t, 4)
	hashes := func(kind openaireq.Kind, body string) []prefixindex.BlockHash {
		b, err := parse(t, kind, body)
		require.NoError(t, err)
		var p prefixindex.Prompt
		require.NoError(t, b.PromptBytes(&p))
		return h.Hashes(&p)
	}
	common := func(a, b []prefixindex.BlockHash) (n int) {
		for n < len(a) && n < len(b) && a[n] == b[n] {
			n++
		}
		return n
	}
	const turn1 = `{"role":"user","content":"a question of some length"}`
	const turn2 = turn1 + `,{"role":"assistant","content":"an answer"},{"role":"user","content":"more"}`
	chat := func(messages, rest string) []prefixindex.BlockHash {
		return hashes(openaireq.Chat, `{"messages":[`+messages+`]`+rest+`}`)
	}
	first := chat(turn1, "")
	require.Len(t, first, len("["+turn1)/16)
	require.Equal(t, len(first), common(first, chat(turn2, `,"temperature":0.5,"add_generation_prompt":true`)))
	for _, rest := range []string{
		`,"tools":[{"type":"function"}]`, `,"chat_template_kwargs":{"thinking":true}`, `,"cache_salt":"s"`, `,"model":"chat"`,
		`,"reasoning_effort":"low"`, `,"documents":[]`,
	} {
		require.Zero(t, common(first, chat(turn2, rest)), rest)
		a, b := chat(turn1, rest), chat(turn2, rest)
		require.GreaterOrEqual(t, common(a, b), len(a)-1, rest)
		require.NotEmpty(t, a)
	}
	require.NotZero(t, common(
		hashes(openaireq.Responses, `{"input":"a long enough input","instructions":"be brief, and nothing else"}`),
		hashes(openaireq.Responses, `{"input":"a long enough input","instructions":"be brief, and nothing more"}`)))
	require.Equal(t, 1, common(
		hashes(openaireq.Completion, `{"prompt":"0123456789abcdef"}`),
		hashes(openaireq.Completion, `{"prompt":["0123456789abcdef and more"]}`)))
}
