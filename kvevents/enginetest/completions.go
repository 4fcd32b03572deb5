package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// generationBody is what the two completion endpoints read. Sampling
// parameters and other unknown fields are accepted and change nothing.
type generationBody struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []chatMessage   `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	CacheSalt string `json:"cache_salt"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type usage struct {
	PromptTokens        int `json:"prompt_tokens"`
	TotalTokens         int `json:"total_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type choice struct {
	Index        int      `json:"index"`
	Text         *string  `json:"text,omitempty"`    // completions
	Message      *message `json:"message,omitempty"` // chat
	Delta        *message `json:"delta,omitempty"`   // chat, streaming
	Logprobs     any      `json:"logprobs"`
	FinishReason *string  `json:"finish_reason"`
	StopReason   any      `json:"stop_reason"`
}

type message struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type generationResponse struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

func (e *Engine) serveCompletion(w http.ResponseWriter, r *http.Request) {
	var body generationBody
	if err := decode(w, r, &body); err != nil {
		writeError(w, err)
		return
	}
	prompt, err := parsePrompt(body.Prompt)
	if err != nil {
		writeError(w, err)
		return
	}
	e.serveGeneration(w, r, &body, prompt, false)
}

func (e *Engine) serveChat(w http.ResponseWriter, r *http.Request) {
	var body generationBody
	if err := decode(w, r, &body); err != nil {
		writeError(w, err)
		return
	}
	messages, err := parseMessages(body.Messages)
	if err != nil {
		writeError(w, err)
		return
	}
	if body.MaxTokens == nil {
		body.MaxTokens = body.MaxCompletionTokens
	}
	e.serveGeneration(w, r, &body, TokenizeChat(messages, true), true)
}

// parsePrompt takes the four forms of a completion's prompt; lists of prompts
// must have exactly one.
func parsePrompt(raw json.RawMessage) ([]uint32, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return Tokenize(text), nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("%w: prompt must be a string, token ids, or a list of one of them", ErrRequest)
	}
	if first := list[0][0]; first == '"' || first == '[' {
		if len(list) > 1 {
			return nil, fmt.Errorf("%w: %d prompts in one request, want 1", ErrRequest, len(list))
		}
		if first == '"' {
			return parsePrompt(list[0])
		}
		raw = list[0]
	}
	var tokens []uint32
	if err := json.Unmarshal(raw, &tokens); err != nil {
		return nil, fmt.Errorf("%w: prompt: token ids must be integers from 0 to 4294967295: %w", ErrRequest, err)
	}
	return tokens, nil
}

// parseMessages takes contents that are strings, null or lists of text parts.
func parseMessages(in []chatMessage) ([]Message, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("%w: messages is empty", ErrRequest)
	}
	out := make([]Message, len(in))
	for i, m := range in {
		if m.Role == "" {
			return nil, fmt.Errorf("%w: messages[%d].role is empty", ErrRequest, i)
		}
		out[i].Role = m.Role
		if len(m.Content) == 0 || json.Unmarshal(m.Content, &out[i].Content) == nil {
			continue
		}
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return nil, fmt.Errorf("%w: messages[%d].content must be a string or a list of parts", ErrRequest, i)
		}
		for j, p := range parts {
			if p.Type != "text" {
				return nil, fmt.Errorf("%w: messages[%d].content[%d].type is %q, want text", ErrRequest, i, j, p.Type)
			}
			out[i].Content += p.Text
		}
	}
	return out, nil
}

// serveGeneration answers both completion endpoints, whose bodies differ in how
// they carry text.
func (e *Engine) serveGeneration(
	w http.ResponseWriter, r *http.Request, body *generationBody, prompt []uint32, chat bool,
) {
	q := Request{Model: body.Model, Prompt: prompt, MaxTokens: 16, Salt: body.CacheSalt}
	if body.MaxTokens != nil {
		q.MaxTokens = *body.MaxTokens
	}
	var err error
	switch {
	case body.N != nil && *body.N != 1:
		err = fmt.Errorf("%w: n is %d, want 1", ErrRequest, *body.N)
	case body.StreamOptions != nil && !body.Stream:
		err = fmt.Errorf("%w: stream_options without stream", ErrRequest)
	}
	if err != nil {
		writeError(w, err)
		return
	}

	byLength := "length" // how every reply ends
	res := e.response(body.Model, chat)
	var sse *sseWriter
	if body.Stream {
		sse = &sseWriter{w: w, rc: http.NewResponseController(w)}
		left := q.MaxTokens
		q.OnToken = func(token uint32) {
			if !sse.begun {
				sse.begin()
				if chat {
					sse.send(res.with(choice{Delta: &message{Role: "assistant", Content: new(string)}}))
				}
			}
			text, _ := Detokenize([]uint32{token}) // our own token
			c := choice{Text: &text}
			if chat {
				c = choice{Delta: &message{Content: &text}}
			}
			if left--; left == 0 {
				c.FinishReason = &byLength
			}
			sse.send(res.with(c))
		}
	}

	result, err := e.Generate(r.Context(), q)
	switch {
	case r.Context().Err() != nil:
		return // nobody listens
	case errors.Is(err, ErrRestarted), err != nil && sse != nil && sse.begun:
		breakConnection(w, sse)
		return
	case err != nil:
		writeError(w, err)
		return
	}

	var u usage
	u.PromptTokens = len(prompt)
	u.CompletionTokens = len(result.Tokens)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	u.PromptTokensDetails.CachedTokens = result.CachedTokens
	if sse != nil {
		if body.StreamOptions != nil && body.StreamOptions.IncludeUsage {
			last := res.with()
			last.Usage = &u
			sse.send(last)
		}
		sse.end()
		return
	}
	text, _ := Detokenize(result.Tokens)
	c := choice{Text: &text, FinishReason: &byLength}
	if chat {
		c = choice{Message: &message{Role: "assistant", Content: &text}, FinishReason: &byLength}
	}
	whole := res.with(c)
	whole.Object = strings.TrimSuffix(whole.Object, ".chunk")
	whole.Usage = &u
	writeJSON(w, http.StatusOK, whole)
}

// response is the part that every chunk of one response repeats.
func (e *Engine) response(model string, chat bool) *generationResponse {
	e.mu.Lock()
	e.served++
	id := e.served
	e.mu.Unlock()
	if model == "" {
		model = e.o.Model
	}
	res := &generationResponse{
		ID:      fmt.Sprintf("cmpl-%d", id),
		Object:  "text_completion",
		Created: e.o.Clock.Now().Unix(),
		Model:   model,
	}
	if chat {
		res.ID, res.Object = "chat"+res.ID, "chat.completion.chunk"
	}
	return res
}

func (g *generationResponse) with(choices ...choice) *generationResponse {
	c := *g
	c.Choices = append([]choice{}, choices...) // an empty list, not null
	return &c
}

// sseWriter writes server-sent events. Write errors are left to the request's
// context, which ends with the connection.
type sseWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func (s *sseWriter) begin() {
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s.w.Header().Set("Cache-Control", "no-cache")
}

func (s *sseWriter) send(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // only strings and numbers: cannot happen
	}
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", data)
	_ = s.rc.Flush()
}

func (s *sseWriter) end() {
	_, _ = fmt.Fprint(s.w, "data: [DONE]\n\n")
	_ = s.rc.Flush()
}

// breakConnection ends a response as a dying process does: the connection is
// cut. Where that cannot be done (HTTP/2, a recorder) a response not yet begun
// is a 503 and a stream just stops, without its [DONE].
func breakConnection(w http.ResponseWriter, sse *sseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	switch {
	case err == nil:
		_ = conn.Close()
	case sse == nil || !sse.begun:
		writeError(w, ErrRestarted)
	}
}
