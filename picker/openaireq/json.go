package openaireq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a body. Engines, which are written in Python, give up
// at about as many.
const maxDepth = 1000

// scanner reads JSON text by bytes and copies nothing of it. It is strict in all but
// UTF-8, which is looked at where a string is decoded. Its methods begin at s.pos and
// leave it behind what they read.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) fail(want string) error {
	if s.pos >= len(s.data) {
		return fmt.Errorf("%w: it ends where %s should be", ErrSyntax, want)
	}
	return fmt.Errorf("%w: at byte %d is %q, want %s", ErrSyntax, s.pos, s.data[s.pos], want)
}

// peek skips white space and returns the byte after it, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// object reads an object. visit is called behind each colon, with the key as the text
// spells it, and reads the value.
func (s *scanner) object(visit func(key text) error) error {
	if s.peek() != '{' {
		return s.fail("an object")
	}
	s.pos++
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.fail("a key")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.fail("a colon")
		}
		s.pos++
		if err := visit(key); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.fail("a comma or the object's end")
		}
	}
}

// array reads an array, which begins here. visit reads each element.
func (s *scanner) array(visit func() error) error {
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := visit(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.fail("a comma or the array's end")
		}
	}
}

// skip reads any value; depth is that of what it is in.
func (s *scanner) skip(depth int) error {
	c := s.peek()
	if depth >= maxDepth && (c == '{' || c == '[') {
		return fmt.Errorf("%w: more than %d levels deep", ErrSyntax, maxDepth)
	}
	switch c {
	case '"':
		_, err := s.str()
		return err
	case '{':
		return s.object(func(text) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

func (s *scanner) literal(want string) error {
	if len(s.data)-s.pos < len(want) || string(s.data[s.pos:s.pos+len(want)]) != want {
		return s.fail(want)
	}
	s.pos += len(want)
	return nil
}

func (s *scanner) number() error {
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if !s.digits() {
		return s.fail("a value")
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("a digit")
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if !s.digits() {
			return s.fail("a digit")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	return s.pos > from
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// text is what stands between the quotes of a string.
type text struct {
	raw     []byte
	escaped bool
}

// is reports whether t means that. Compare what plain returns, where t may be escaped
// and is compared more than once.
func (t text) is(s string) bool {
	if t.escaped {
		return t.decode() == s
	}
	return string(t.raw) == s
}

// plain returns t without escapes, if it has any.
func (t text) plain() text {
	if t.escaped {
		return text{raw: unescape(t.raw)}
	}
	return t
}

// decode returns what t means. Bytes that are not UTF-8, which engines refuse, stay.
func (t text) decode() string {
	if t.escaped {
		return string(unescape(t.raw))
	}
	return string(t.raw)
}

// unescape returns what raw, which str has read, means.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw)) // no escape is shorter than what it means
	for {
		slash := bytes.IndexByte(raw, '\\')
		if slash < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:slash]...)
		c := raw[slash+1]
		raw = raw[slash+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low := rune(utf8.RuneError)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low = hex4(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
	}
}

// hex4 returns the number that the first four bytes spell.
func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str reads a string, which begins here. Eight bytes at a time it looks for a quote, a
// backslash or a control character: the high bit of each such byte is set in m, and
// none below the lowest of them (Mycroft 1987).
func (s *scanner) str() (text, error) {
	from := s.pos + 1
	escaped := false
	data, i := s.data, from
	for {
		for i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			quote, slash := x^ones*'"', x^ones*'\\'
			m := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(data) && data[i] >= ' ' && data[i] != '"' && data[i] != '\\' {
			i++
		}
		s.pos = i
		switch {
		case i == len(data):
			return text{}, s.fail("a quote")
		case data[i] == '"':
			s.pos++
			return text{data[from:i], escaped}, nil
		case data[i] != '\\':
			return text{}, s.fail("an escape")
		}
		escaped = true
		if s.pos++; s.pos == len(data) {
			return text{}, s.fail("an escape")
		}
		switch data[s.pos] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for range 4 {
				if s.pos++; s.pos == len(data) || !isHex(data[s.pos]) {
					return text{}, s.fail("four hexadecimal digits")
				}
			}
			i += 6
		default:
			return text{}, s.fail("an escape")
		}
	}
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// ids reads an array of token ids, which begins here, and appends them to dst. If one
// element is something else it returns false, with s.pos at that element.
func (s *scanner) ids(dst []uint32) ([]uint32, bool) {
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return dst, true
	}
	data, i := s.data, s.pos
	for {
		id, n := uint64(0), 0
		if i+8 <= len(data) {
			id, n = shortID(binary.LittleEndian.Uint64(data[i:]))
		}
		if n == 0 {
			s.pos = i
			s.peek()
			i = s.pos
			for ; n < 11 && i+n < len(data) && isDigit(data[i+n]); n++ {
				id = id*10 + uint64(data[i+n]-'0')
			}
		}
		if n == 0 || n > 1 && data[i] == '0' || id > 1<<32-1 {
			s.pos = i
			return dst, false
		}
		end := i + n
		if end >= len(data) || data[end] != ',' {
			s.pos = end
			switch s.peek() {
			case ',':
				end = s.pos
			case ']':
				s.pos++
				return append(dst, uint32(id)), true
			default:
				s.pos = i
				return dst, false
			}
		}
		dst = append(dst, uint32(id))
		i = end + 1
	}
}

// shortID returns the number that the first bytes of x, the lowest, spell, and how many
// digits it has; 0 digits if there are none or eight. Ids differ in length, so that a
// loop over their digits ends where no branch predictor expects it; this has no loop.
func shortID(x uint64) (id uint64, n int) {
	const zeros, nibbles = ones * '0', ones * 0xf0
	x ^= zeros                                // digits become 0 to 9, all else more
	other := (x + ones*6 | x) & nibbles       // a byte is not zero if it is more than 9
	n = bits.TrailingZeros64(other) / 8 & 7   // 64 for eight digits
	x <<= 64 - 8*n                            // with zeros before them; 0 if n is 0
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff    // pairs of digits
	x = (x*100 + x>>16) & 0x0000ffff0000ffff  // fours
	return (x*10_000 + x>>32) & 0xffffffff, n // eight
}
