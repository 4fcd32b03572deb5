package enginetest

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The tokenizer has no vocabulary file and no state: a token is the one to
// three bytes it stands for.
//
//	id 0                 unused
//	id 1, 2              <|im_start|>, <|im_end|>, made by the chat template alone
//	id 0x100 + b         one byte
//	id 0x200 + b1b2      two bytes, big-endian
//	id 0x10200 + b1b2b3  three bytes, big-endian
//
// Text is cut greedily from the left into tokens of at most three bytes of
// which only the first may be white space. So tokens(a+b) = tokens(a) +
// tokens(b) whenever b begins with white space, as generated text does.
const (
	tokStart = 1
	tokEnd   = 2
	tok1     = 0x100
	tok2     = tok1 + 1<<8
	tok3     = tok2 + 1<<16
	vocab    = tok3 + 1<<24
)

// ErrToken means a token id that no text encodes to.
var ErrToken = errors.New("enginetest: not a token of this tokenizer")

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// Tokenize returns the tokens of text, which may be any bytes. There is no
// token for the beginning or the end of a text. O(len(text)).
func Tokenize(text string) []uint32 { return appendTokenized(nil, text) }

func appendTokenized(dst []uint32, text string) []uint32 {
	for text != "" {
		n := 1
		for n < 3 && n < len(text) && !isSpace(text[n]) {
			n++
		}
		switch n {
		case 1:
			dst = append(dst, tok1+uint32(text[0]))
		case 2:
			dst = append(dst, tok2+(uint32(text[0])<<8|uint32(text[1])))
		default:
			dst = append(dst, tok3+(uint32(text[0])<<16|uint32(text[1])<<8|uint32(text[2])))
		}
		text = text[n:]
	}
	return dst
}

// Detokenize returns the text of tokens; Detokenize(Tokenize(s)) is s. The
// template's marks come out as their names. An id that is no token is
// ErrToken. O(len(tokens)).
func Detokenize(tokens []uint32) (string, error) {
	text := make([]byte, 0, 3*len(tokens))
	for i, t := range tokens {
		switch {
		case t == tokStart:
			text = append(text, "<|im_start|>"...)
		case t == tokEnd:
			text = append(text, "<|im_end|>"...)
		case t >= tok1 && t < tok2:
			text = append(text, byte(t-tok1))
		case t >= tok2 && t < tok3:
			text = binary.BigEndian.AppendUint16(text, uint16(t-tok2))
		case t >= tok3 && t < vocab:
			t -= tok3
			text = append(text, byte(t>>16), byte(t>>8), byte(t))
		default:
			return "", fmt.Errorf("%w: %d at position %d", ErrToken, t, i)
		}
	}
	return string(text), nil
}

// Message is one turn of a chat.
type Message struct {
	Role    string
	Content string
}

// TokenizeChat returns the tokens of a conversation. Each message is
//
//	<|im_start|> role "\n" content <|im_end|> "\n"
//
// with role line and content cut apart, and generation adds the opening of an
// assistant's message. Messages do not influence each other, so the tokens of
// the next turn begin with this turn's tokens and the reply's. O(text).
func TokenizeChat(messages []Message, generation bool) []uint32 {
	var tokens []uint32
	for _, m := range messages {
		tokens = append(tokens, tokStart)
		tokens = appendTokenized(tokens, m.Role+"\n")
		tokens = appendTokenized(tokens, m.Content)
		tokens = append(tokens, tokEnd)
		tokens = appendTokenized(tokens, "\n")
	}
	if generation {
		tokens = append(tokens, tokStart)
		tokens = appendTokenized(tokens, "assistant\n")
	}
	return tokens
}

// replySeed makes a reply depend on its prompt and nothing else: every engine
// gives the same one.
func replySeed(prompt []uint32) uint64 { return blockHash(foldKey, prompt, new(Scope), 0) }

// replyToken is the i-th token of a reply: a space and two letters, a token
// that its own text is cut into again.
func replyToken(seed uint64, i int) uint32 {
	v := fold(fold(seed, uint64(i)), foldKey) >> 32 % (26 * 26)
	return tok3 + (' '<<16 | uint32('a'+v/26)<<8 | uint32('a'+v%26))
}
