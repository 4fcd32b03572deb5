package openaireq

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// question is what an engine is asked. Its parts, one after the other, are the request's
// body; they are those of the Body and short texts between.
type question struct {
	path   string
	prompt int // bytes of the part that is the prompt
	parts  [][]byte
	array  bool // the answer is a list of one
}

// promptFields are where bodies have their prompt.
//
//nolint:gochecknoglobals // a constant, which Go has no arrays of
var promptFields = [...]field{None: fieldNone, Chat: fieldMessages, Completion: fieldPrompt, Responses: fieldInput}

// What /tokenize takes besides the prompt, in either form. Others that a prompt depends
// on it does not take, so that its answer would be another prompt's.
//
//nolint:gochecknoglobals // constants, which Go has no slices of
var (
	chatPasses = []field{
		fieldTools, fieldChatTemplate, fieldChatTemplateKwargs, fieldAddSpecialTokens, fieldAddGenerationPrompt,
		fieldContinueFinalMessage, fieldMMProcessorKwargs, fieldMediaIOKwargs,
	}
	chatRefuses      = []field{fieldDocuments, fieldReasoningEffort}
	completionPasses = []field{fieldAddSpecialTokens}
)

// compose makes q the question for the tokens of b.
func (q *question) compose(b *Body, render bool) error {
	if err := b.whole(); err != nil {
		return err
	}
	q.prompt = len(b.get(promptFields[b.Kind]))
	if render {
		q.render(b)
		return nil
	}
	q.path = "/tokenize"
	q.open(b)
	switch {
	case b.Kind == Responses:
		return fmt.Errorf("%w: %s by /tokenize", ErrUnsupported, b.Kind)
	case b.Kind == Completion && b.form == formText:
		q.add(`"prompt":"`, b.text.raw, `"`)
		q.pass(b, completionPasses)
	case b.Kind == Completion:
		return fmt.Errorf("%w: ids are tokens already", ErrUnsupported)
	case b.media:
		return fmt.Errorf("%w: messages with more than text by /tokenize", ErrUnsupported)
	default:
		if err := b.refuse(chatRefuses...); err != nil {
			return err
		}
		q.add(`"messages":`, b.get(fieldMessages), "")
		q.pass(b, chatPasses)
	}
	q.add("}", nil, "")
	return nil
}

// open begins the body with the base model: adapters are asked for by another name, and
// may not be loaded where is asked.
func (q *question) open(b *Body) {
	if b.Scope.Model == "" {
		q.add("{", nil, "")
		return
	}
	q.add(`{"model":`, quote(b.Scope.Model), ",")
}

func quote(s string) []byte {
	quoted, _ := json.Marshal(s) // a string: cannot fail
	return quoted
}

func (q *question) add(before string, part []byte, after string) {
	for _, p := range [][]byte{[]byte(before), part, []byte(after)} {
		if len(p) > 0 {
			q.parts = append(q.parts, p)
		}
	}
}

func (q *question) pass(b *Body, these []field) {
	for _, f := range these {
		if raw := b.get(f); raw != nil {
			q.add(`,"`+fieldNames[f]+`":`, raw, "")
		}
	}
}

// render makes q the request itself, under the base model's name.
func (q *question) render(b *Body) {
	q.path = map[Kind]string{
		Chat: "/v1/chat/completions/render", Completion: "/v1/completions/render", Responses: "/v1/responses/render",
	}[b.Kind]
	q.array = b.Kind == Completion
	at := b.fields[fieldModel]
	if at.from == at.to {
		q.add("", b.raw, "")
		return
	}
	q.add("", b.raw[:at.from], "")
	q.add("", quote(b.Scope.Model), "")
	q.add("", b.raw[at.to:], "")
}

// maxAnswer bounds an answer: ten million tokens of six digits.
const maxAnswer = 80 << 20

// buffers hold answers while they are read.
//
//nolint:gochecknoglobals // a pool holds nothing that anyone could miss
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ask asks one endpoint.
func (c *Client) ask(ctx context.Context, endpoint string, q *question) (Tokens, error) {
	// A copy, since a transport may still read it after it has answered.
	body := bytes.Join(q.parts, nil)
	url := strings.TrimSuffix(endpoint, "/") + q.path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Tokens{}, err
	}
	maps.Copy(req.Header, c.o.Header)
	req.Header.Set("Content-Type", "application/json")
	c.mu.Lock()
	c.stats.Asked++
	c.mu.Unlock()
	resp, err := c.o.Client.Do(req)
	if err != nil {
		return Tokens{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		return Tokens{}, statusError{resp.StatusCode}
	}
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // holds nothing else
	defer buffers.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		return Tokens{}, err
	}
	if buf.Len() > maxAnswer {
		return Tokens{}, fmt.Errorf("%w: more than %d bytes", ErrAnswer, maxAnswer)
	}
	return parseAnswer(buf.Bytes(), q.array)
}
