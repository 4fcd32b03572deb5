package openaireq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

var (
	// ErrSyntax means that a body is not one JSON object, and nothing was read of it.
	ErrSyntax = errors.New("openaireq: body is not a JSON object")

	// ErrField means that a field has a value that it cannot have; all others were
	// read. If the prompt depends on it, its Body has none.
	ErrField = errors.New("openaireq: bad field")

	// ErrUntokenized means that a prompt's tokens are not known; the error says why.
	ErrUntokenized = errors.New("openaireq: prompt is not tokenized")

	// ErrUnsupported means, beside ErrUntokenized, that the request is of a kind whose
	// prompt cannot be known, or not in this way.
	ErrUnsupported = errors.New("openaireq: unsupported")
)

// Kind is an endpoint of the API.
type Kind uint8

// The kinds whose bodies are read.
const (
	None       Kind = iota
	Chat            // /v1/chat/completions
	Completion      // /v1/completions
	Responses       // /v1/responses
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"none", "chat completion", "completion", "response"}[min(k, Responses)]
}

// KindOf returns the kind of requests to a path, whatever comes before its last
// elements; None for others.
//
// O(1).
func KindOf(path string) Kind {
	path = strings.TrimSuffix(path, "/")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/completions"):
		return Completion
	case strings.HasSuffix(path, "/responses"):
		return Responses
	default:
		return None
	}
}

// form is in what shape a prompt is given.
type form uint8

const (
	formNone form = iota
	formIDs
	formText
	formMessages // a chat's, or the input of a response
	formSeveral  // several prompts in one request
)

// Body is what was read of one request body. It serves one goroutine at a time and
// reuses its memory with the next Parse; it refers to the bytes it was read from, which
// must not change meanwhile.
type Body struct {
	Kind    Kind
	Request scorer.Request    // Model is the base model; PromptTokens is set where the prompt is given as ids
	Scope   prefixindex.Scope // of the prompt
	Tokens  []uint32          // the prompt, if given as ids

	raw    []byte
	model  string // as the client names it
	fields [fields]span
	form   form
	text   text  // of formText
	media  bool  // a message has something besides text
	err    error // why there is no prompt, whatever the form
	head   []byte
}

// Bytes returns the body as it came, and as it is to be forwarded. O(1).
func (b *Body) Bytes() []byte { return b.raw }

// Raw returns the JSON text of a top-level field, such as "messages" or "tools"; nil if
// it is absent, null, or one that this package does not look for. For a [Tokenizer] of
// one's own. Not to be changed.
//
// O(number of fields), no allocation.
func (b *Body) Raw(name string) []byte {
	if f := fieldOf(text{raw: []byte(name)}); f != fieldNone {
		return b.get(f)
	}
	return nil
}

// Text returns a completion's prompt, and whether it is a single text.
//
// O(bytes), copies the text.
func (b *Body) Text() (string, bool) {
	if b.form != formText || b.err != nil {
		return "", false
	}
	return b.text.decode(), true
}

func (b *Body) get(f field) []byte {
	at := b.fields[f]
	if at.to == at.from {
		return nil
	}
	return b.raw[at.from:at.to]
}

// refuse returns an error if the prompt depends on one of those fields.
func (b *Body) refuse(these ...field) error {
	for _, f := range these {
		if b.get(f) != nil {
			return fmt.Errorf("%w: %s of %s", ErrUnsupported, fieldNames[f], b.Kind)
		}
	}
	return nil
}

// whole returns an error unless the body has one prompt, and all of it.
func (b *Body) whole() error {
	if b.err != nil {
		return b.err
	}
	if b.form == formNone {
		return fmt.Errorf("%w: no prompt", ErrUnsupported)
	}
	if b.form == formSeveral {
		return fmt.Errorf("%w: several prompts in one request", ErrUnsupported)
	}
	if b.Kind == Responses {
		if err := b.refuse(fieldPrompt); err != nil { // a template that the server keeps
			return err
		}
	}
	return b.refuse(fieldTruncatePromptTokens, fieldPromptEmbeds, fieldPreviousResponseID, fieldConversation)
}
