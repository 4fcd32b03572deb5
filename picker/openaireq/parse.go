package openaireq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// ErrOption means an option out of its range; the error names both.
var ErrOption = errors.New("openaireq: bad option")

// Options configure a Parser. The zero value reads bodies whose model is never an
// adapter.
type Options struct {
	// Resolve says what a name in the field model stands for: the base model, by the
	// name that SubscriberOptions.Model has for it, and the LoRA adapter, empty for
	// none. It is called with "" for bodies without the field. nil: the name is the base
	// model's.
	Resolve func(model string) (base, adapter string)

	// SessionHeader and SessionField name what holds the key of the conversation: a
	// header of the request, read by Read, or a top-level string of the body. The header
	// goes first. Empty: none.
	SessionHeader, SessionField string

	MaxBytes int64 // of a body that Read reads; 0: 32 MiB
}

// Parser reads bodies. It may be used from anywhere.
type Parser struct{ o Options }

// NewParser returns a parser. An error names the option, its value and range.
func NewParser(o Options) (*Parser, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = 32 << 20
	}
	if o.MaxBytes < 0 {
		return nil, fmt.Errorf("%w: MaxBytes is %d, want 1 or more", ErrOption, o.MaxBytes)
	}
	if o.Resolve == nil {
		o.Resolve = func(model string) (string, string) { return model, "" }
	}
	return &Parser{o: o}, nil
}

// Parse reads a body of that kind into b, whose old content is replaced. Of fields that
// come twice the last counts, and null is as good as absent, as for the engines. An
// error is ErrSyntax or ErrField; a host that leaves the judgement to the engine may
// forward the body all the same.
//
// O(bytes): one pass, which copies token ids and short strings and nothing else; no
// allocation once b has grown and its strings repeat. b refers to body.
func (p *Parser) Parse(kind Kind, body []byte, b *Body) error {
	// Strings of the old content are kept where they come again.
	session := b.Request.Session
	*b = Body{Kind: kind, raw: body, model: b.model, Tokens: b.Tokens[:0], head: b.head, Scope: b.Scope}
	s := scanner{data: body}
	var sessionAt span
	err := s.object(func(key text) error {
		key = key.plain()
		f := fieldOf(key)
		c := s.peek()
		from := s.pos
		if err := b.value(&s, f); err != nil {
			return err
		}
		at := span{from, s.pos}
		if c == 'n' {
			at = span{}
		}
		b.fields[f] = at
		if p.o.SessionField != "" && key.is(p.o.SessionField) {
			sessionAt = at
		}
		return nil
	})
	if err == nil && s.peek() != 0 || err == nil && s.pos < len(body) {
		err = s.fail("nothing")
	}
	if err != nil {
		*b = Body{Kind: kind, raw: body, Tokens: b.Tokens[:0], head: b.head, err: err}
		return err
	}
	b.fields[fieldNone] = span{}
	return p.interpret(b, sessionAt, session)
}

// value reads the value of a field.
func (b *Body) value(s *scanner, f field) error {
	switch {
	case f == fieldPrompt && b.Kind == Completion:
		return b.prompt(s)
	case f == fieldMessages && b.Kind == Chat:
		b.form, b.media = formNone, false
		if s.peek() != '[' {
			return s.skip(1)
		}
		b.form = formMessages
		return s.array(func() error { return b.message(s) })
	case f == fieldInput && b.Kind == Responses:
		b.form = formNone
		if c := s.peek(); c == '"' || c == '[' {
			b.form = formMessages
		}
	}
	return s.skip(1)
}

// prompt reads a completion's prompt: a string, token ids, or a list of such.
func (b *Body) prompt(s *scanner) error {
	b.form, b.err, b.Tokens = formNone, nil, b.Tokens[:0]
	from := s.pos
	switch s.peek() {
	case '"':
		b.form = formText
		var err error
		b.text, err = s.str()
		return err
	case '[':
	default:
		return s.skip(1)
	}
	s.pos++
	first := s.peek()
	if first != '"' && first != '[' {
		s.pos = from
		var all bool
		if b.Tokens, all = s.ids(b.Tokens); !all {
			b.badID(s, "prompt")
			s.pos = from
			return s.skip(1)
		}
		if len(b.Tokens) > 0 {
			b.form = formIDs
		}
		return nil
	}
	s.pos = from
	n := 0
	return s.array(func() error {
		if n++; n > 1 {
			b.form = formSeveral
			return s.skip(2)
		}
		if s.peek() == '"' {
			b.form = formText
			var err error
			b.text, err = s.str()
			return err
		}
		from := s.pos
		var all bool
		if b.Tokens, all = s.ids(b.Tokens); !all {
			b.badID(s, "prompt[0]")
			s.pos = from
			return s.skip(2)
		}
		if len(b.Tokens) > 0 {
			b.form = formIDs
		}
		return nil
	})
}

// badID records that the element at s.pos of a list is no token id.
func (b *Body) badID(s *scanner, list string) {
	b.form = formNone
	element := s.data[s.pos:]
	if end := bytes.IndexAny(element, ",]"); end >= 0 {
		element = element[:end]
	}
	b.err = fmt.Errorf("%w: %s[%d] is %.20s, want a token id, 0 to 4294967295",
		ErrField, list, len(b.Tokens), bytes.TrimSpace(element))
}

// message reads one message of a chat, and notes whether it has more than text.
func (b *Body) message(s *scanner) error {
	if s.peek() != '{' {
		return s.skip(2)
	}
	return s.object(func(key text) error {
		if !key.is("content") || s.peek() != '[' {
			return s.skip(3)
		}
		return s.array(func() error { return b.part(s) })
	})
}

// part reads one part of a message's content.
func (b *Body) part(s *scanner) error {
	if s.peek() != '{' {
		return s.skip(4) // a bare string, which vLLM takes
	}
	typed, known, others := false, false, false
	err := s.object(func(key text) error {
		key = key.plain()
		switch {
		case key.is("type") && s.peek() == '"':
			kind, err := s.str()
			kind = kind.plain()
			typed = true
			known = kind.is("text") || kind.is("input_text") || kind.is("output_text") ||
				kind.is("refusal") || kind.is("thinking")
			return err
		case !key.is("text"):
			others = true
		}
		return s.skip(5)
	})
	if typed && !known || !typed && others {
		b.media = true
	}
	return err
}

// interpret takes what the fields say; session is the key that b had before.
func (p *Parser) interpret(b *Body, sessionAt span, session string) (err error) {
	b.model, err = b.keep(b.fields[fieldModel], "model", b.model)
	salt, saltErr := b.keep(b.fields[fieldCacheSalt], "cache_salt", b.Scope.Salt)
	// Without these the prompt is not known.
	b.err = cmp.Or(b.err, err, saltErr)

	base, adapter := p.o.Resolve(b.model)
	b.Scope = prefixindex.Scope{Model: base, Adapter: adapter, Salt: salt}
	b.Request = scorer.Request{Model: base, Adapter: adapter}
	if b.err == nil {
		b.Request.PromptTokens = len(b.Tokens)
	}

	b.Request.Session, err = b.keep(sessionAt, p.o.SessionField, session)
	limit := fieldMaxTokens
	switch {
	case b.Kind == Responses:
		limit = fieldMaxOutputTokens
	case b.Kind == Chat && b.get(fieldMaxCompletionTokens) != nil:
		limit = fieldMaxCompletionTokens
	}
	var limitErr error
	b.Request.MaxTokens, limitErr = b.count(limit)
	return cmp.Or(b.err, err, limitErr)
}

// keep returns the string in a field, old if it is the same, or "" if there is none.
func (b *Body) keep(at span, name, old string) (string, error) {
	if at.from == at.to {
		return "", nil
	}
	s := scanner{data: b.raw, pos: at.from}
	if s.peek() != '"' {
		return "", b.bad(at, name, "a string")
	}
	t, err := s.str()
	if err != nil || t.is(old) {
		return old, err
	}
	return t.decode(), nil
}

// count reads a field that is a number of tokens; 0 if it is absent.
func (b *Body) count(f field) (int, error) {
	raw := b.get(f)
	n := 0
	for i, c := range raw {
		if !isDigit(c) || i > 8 {
			n = -1
			break
		}
		n = n*10 + int(c-'0')
	}
	if n >= 0 {
		return n, nil
	}
	var x float64 // such as 1e3, which engines take
	if json.Unmarshal(raw, &x) != nil || x < 0 || x != math.Trunc(x) {
		return 0, b.bad(b.fields[f], fieldNames[f], "a number of tokens")
	}
	return int(min(x, math.MaxInt32)), nil
}

func (b *Body) bad(at span, name, want string) error {
	return fmt.Errorf("%w: %s is %.40s, want %s", ErrField, name, b.raw[at.from:at.to], want)
}
