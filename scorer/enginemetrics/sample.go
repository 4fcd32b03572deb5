package enginemetrics

import (
	"bytes"
	"strconv"
)

// sample is one line, after its name.
type sample struct {
	labels labels
	value  float64
	stamp  int64 // Unix milliseconds, if stamped
	dated  bool
}

// label is a name and a value as the page spells it, with its escapes.
type label struct{ name, value []byte }

type labels []label

// get returns the value of a label as the page spells it.
func (l labels) get(name string) ([]byte, bool) {
	for i := range l {
		if string(l[i].name) == name {
			return l[i].value, true
		}
	}
	return nil, false
}

// parse reads what follows the name in a line without its line feed. The labels refer
// to the line and reuse the memory of s. False means that the line is malformed.
func (s *sample) parse(rest []byte) bool {
	s.labels = s.labels[:0]
	s.dated = false
	rest = skipBlanks(rest)
	if len(rest) > 0 && rest[0] == '{' {
		var ok bool
		if rest, ok = s.parseLabels(rest[1:]); !ok {
			return false
		}
		rest = skipBlanks(rest)
	}
	token, rest := cutToken(rest)
	var ok bool
	if s.value, ok = parseFloat(token); !ok {
		return false
	}
	token, rest = cutToken(skipBlanks(rest))
	if len(token) > 0 {
		if s.stamp, ok = parseInt(token); !ok {
			return false
		}
		s.dated = true
	}
	return len(skipBlanks(rest)) == 0
}

// parseLabels reads up to and including the closing brace.
func (s *sample) parseLabels(rest []byte) ([]byte, bool) {
	for {
		rest = skipBlanks(rest)
		if len(rest) == 0 {
			return nil, false
		}
		if rest[0] == '}' {
			return rest[1:], true
		}
		n := 0
		for n < len(rest) && isNameByte(rest[n]) {
			n++
		}
		name := rest[:n]
		rest = skipBlanks(rest[n:])
		if n == 0 || len(rest) == 0 || rest[0] != '=' {
			return nil, false
		}
		rest = skipBlanks(rest[1:])
		if len(rest) == 0 || rest[0] != '"' {
			return nil, false
		}
		end, ok := valueEnd(rest[1:])
		if !ok {
			return nil, false
		}
		s.labels = append(s.labels, label{name, rest[1 : 1+end]})
		rest = skipBlanks(rest[2+end:])
		if len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
			return nil, false
		}
		if rest[0] == ',' {
			rest = rest[1:]
		}
	}
}

// valueEnd returns where the closing quote stands.
func valueEnd(b []byte) (int, bool) {
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0, false
		}
		slash := bytes.IndexByte(b[i:i+n], '\\')
		if slash < 0 {
			return i + n, true
		}
		i += slash + 1
		if i >= len(b) || b[i] != '\\' && b[i] != '"' && b[i] != 'n' {
			return 0, false
		}
		i++
	}
}

// unescape returns the value that a page spells b.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+1 < len(b) {
			i++
			if c = b[i]; c == 'n' {
				c = '\n'
			}
		}
		out = append(out, c)
	}
	return string(out)
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':'
}

func skipBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// cutToken splits b before its first blank.
func cutToken(b []byte) (token, rest []byte) {
	for i, c := range b {
		if c == ' ' || c == '\t' {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// powers of ten that a float64 holds exactly.
//
//nolint:gochecknoglobals // a constant, which Go has no arrays of
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// parseFloat is strconv.ParseFloat without hexadecimal and underscores, as the format
// has it. Numbers of up to 15 digits, which are all that engines write, take a path that
// needs no string: with a mantissa below 2^53 and a power of ten that is exact, one
// division or multiplication rounds correctly (Clinger 1990).
func parseFloat(b []byte) (float64, bool) {
	if x, ok := parseShort(b); ok {
		return x, true
	}
	if len(b) == 0 || bytes.ContainsAny(b, "pP_xX") {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(b), 64)
	return x, err == nil
}

func parseShort(b []byte) (float64, bool) {
	i, negative := 0, false
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		negative = b[i] == '-'
		i++
	}
	mantissa, digits, exponent := uint64(0), 0, 0
	for point := false; i < len(b); i++ {
		c := b[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		if digits++; digits > 15 {
			return 0, false
		}
		mantissa = mantissa*10 + uint64(c-'0')
		if point {
			exponent--
		}
	}
	if digits == 0 {
		return 0, false
	}
	if i < len(b) {
		if b[i] != 'e' && b[i] != 'E' || len(b)-i > 5 {
			return 0, false
		}
		e, ok := parseInt(b[i+1:])
		if !ok {
			return 0, false
		}
		exponent += int(e)
	}
	x := float64(mantissa)
	switch {
	case exponent < -22 || exponent > 22:
		return 0, false
	case exponent < 0:
		x /= powers[-exponent]
	default:
		x *= powers[exponent]
	}
	if negative {
		x = -x
	}
	return x, true
}

// parseInt reads a decimal integer with an optional sign, of up to 18 digits.
func parseInt(b []byte) (int64, bool) {
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
