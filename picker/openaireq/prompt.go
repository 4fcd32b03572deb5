package openaireq

import (
	"context"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Tokens are a prompt as an engine counts it.
type Tokens struct {
	IDs    []uint32            // shared, not to be changed
	Extras []prefixindex.Extra // images and the like; shared, not to be changed
	Cached bool                // they were known already
	Took   time.Duration       // what it added to the request
}

// Tokenizer turns a body into the tokens that an engine would make of it. It is called
// from many goroutines, and does not keep the body. It returns an error where it cannot
// be sure; no prompt is better than a wrong one.
type Tokenizer interface {
	Tokenize(ctx context.Context, b *Body) (Tokens, error)
}

// TokenizerFunc is a Tokenizer made of a function.
type TokenizerFunc func(ctx context.Context, b *Body) (Tokens, error)

// Tokenize calls f.
func (f TokenizerFunc) Tokenize(ctx context.Context, b *Body) (Tokens, error) { return f(ctx, b) }

// Prompt makes p the prompt of b: of the ids that b gives, or of those of t, which may
// be nil. On an error, which is ErrUntokenized, p is empty: a prompt of unknown length,
// of which no candidate has anything. Tokens are those of p, or none.
//
// O(1) and no I/O for ids; else what t costs. p refers to the tokens, which are b's own
// if b gives ids: they last until b's next Parse.
func (b *Body) Prompt(ctx context.Context, t Tokenizer, p *prefixindex.Prompt) (Tokens, error) {
	p.Reset(b.Scope, nil)
	if err := b.whole(); err != nil {
		return Tokens{}, untokenized(err)
	}
	tokens := Tokens{IDs: b.Tokens}
	if b.form != formIDs {
		if t == nil {
			return Tokens{}, untokenized(fmt.Errorf("%w: no tokenizer", ErrUnsupported))
		}
		var err error
		if tokens, err = t.Tokenize(ctx, b); err != nil {
			return Tokens{Took: tokens.Took}, untokenized(err)
		}
	}
	p.Reset(b.Scope, tokens.IDs, tokens.Extras...)
	return tokens, nil
}

func untokenized(err error) error { return fmt.Errorf("%w: %w", ErrUntokenized, err) }

// PromptBytes makes p the prompt of the body's own bytes, for fleets whose router has
// no tokens: those of the prompt, the messages or the input as they are spelled, after
// whatever else the prompt depends on, such as tools. Equal bytes are an equal prompt,
// and a conversation's next turn begins with this one's bytes if the client spells
// alike; one that does not is a miss. Ids make a prompt of tokens, as in Prompt. On an
// error, which is ErrUntokenized, p is empty.
//
// O(1) if the prompt depends on nothing else, or O(bytes) for a copy. p refers to the
// bytes of b, and to memory that lasts until b's next Parse or PromptBytes.
func (b *Body) PromptBytes(p *prefixindex.Prompt) error {
	p.Reset(b.Scope, nil)
	if err := b.whole(); err != nil {
		return untokenized(err)
	}
	var body []byte
	switch b.form {
	case formIDs:
		p.Reset(b.Scope, b.Tokens)
		return nil
	case formText:
		body = b.text.raw
	default:
		body = b.get(promptFields[b.Kind])
		body = body[:len(body)-1] // the bracket or quote that the next turn has later
	}
	b.head = b.head[:0]
	for f := fieldInstructions; f <= fieldAddSpecialTokens; f++ {
		if raw := b.get(f); raw != nil {
			b.head = append(append(append(b.head, fieldNames[f]...), '='), raw...)
			b.head = append(b.head, '\n')
		}
	}
	if len(b.head) > 0 {
		b.head = append(b.head, body...)
		body = b.head
	}
	p.ResetBytes(b.Scope, body)
	return nil
}
