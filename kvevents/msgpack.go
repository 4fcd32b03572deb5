package kvevents

import (
	"encoding/binary"
	"math"
)

// The bytes of msgpack that name a value's type. Those below 0xc0 and above 0xdf
// carry the value or length themselves.
const (
	mpNil     = 0xc0
	mpFalse   = 0xc2
	mpTrue    = 0xc3
	mpBin8    = 0xc4
	mpBin16   = 0xc5
	mpBin32   = 0xc6
	mpExt8    = 0xc7
	mpExt16   = 0xc8
	mpExt32   = 0xc9
	mpFloat32 = 0xca
	mpFloat64 = 0xcb
	mpUint8   = 0xcc
	mpUint16  = 0xcd
	mpUint32  = 0xce
	mpUint64  = 0xcf
	mpInt8    = 0xd0
	mpInt16   = 0xd1
	mpInt32   = 0xd2
	mpInt64   = 0xd3
	mpFixExt1 = 0xd4
	mpFixExt2 = 0xd5
	mpFixExt4 = 0xd6
	mpFixExt8 = 0xd7
	mpFixEx16 = 0xd8
	mpStr8    = 0xd9
	mpStr16   = 0xda
	mpStr32   = 0xdb
	mpArray16 = 0xdc
	mpArray32 = 0xdd
	mpMap16   = 0xde
	mpMap32   = 0xdf
)

// reader walks msgpack. A method that returns false has met another type than the
// one asked for, or the end of b; where i then stands is not defined, so callers
// that go on put it back first.
type reader struct {
	b []byte
	i int
}

func (r *reader) left() int { return len(r.b) - r.i }

// peek returns the type byte of the next value; at the end it returns 0xc1, which
// msgpack never uses.
func (r *reader) peek() byte {
	if r.i >= len(r.b) {
		return 0xc1
	}
	return r.b[r.i]
}

// null consumes a nil if one is next.
func (r *reader) null() bool {
	if r.peek() != mpNil {
		return false
	}
	r.i++
	return true
}

// uintN reads an n-byte big-endian integer after a type byte.
func (r *reader) uintN(n int) (uint64, bool) {
	if r.left() < 1+n {
		return 0, false
	}
	p := r.b[r.i+1 : r.i+1+n]
	r.i += 1 + n
	switch n {
	case 1:
		return uint64(p[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(p)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(p)), true
	default:
		return binary.BigEndian.Uint64(p), true
	}
}

// integer reads an integer of any width and sign as 64 bits in two's complement.
// negative tells the negative ones from those of 1<<63 and more.
func (r *reader) integer() (bits uint64, negative, ok bool) {
	c := r.peek()
	switch {
	case c <= 0x7f:
		r.i++
		return uint64(c), false, true
	case c >= 0xe0:
		r.i++
		return uint64(int64(int8(c))), true, true
	}
	switch c {
	case mpUint8:
		bits, ok = r.uintN(1)
	case mpUint16:
		bits, ok = r.uintN(2)
	case mpUint32:
		bits, ok = r.uintN(4)
	case mpUint64:
		bits, ok = r.uintN(8)
	case mpInt8:
		bits, ok = r.uintN(1)
		bits = uint64(int64(int8(bits)))
		negative = int64(bits) < 0
	case mpInt16:
		bits, ok = r.uintN(2)
		bits = uint64(int64(int16(bits)))
		negative = int64(bits) < 0
	case mpInt32:
		bits, ok = r.uintN(4)
		bits = uint64(int64(int32(bits)))
		negative = int64(bits) < 0
	case mpInt64:
		bits, ok = r.uintN(8)
		negative = int64(bits) < 0
	}
	return bits, negative, ok
}

// int reads an integer of lo to hi.
func (r *reader) int(lo, hi int64) (int64, bool) {
	bits, negative, ok := r.integer()
	v := int64(bits)
	if !ok || (v < 0) != negative || v < lo || v > hi {
		return 0, false
	}
	return v, true
}

// number reads a float or an integer.
func (r *reader) number() (float64, bool) {
	switch r.peek() {
	case mpFloat64:
		bits, ok := r.uintN(8)
		return math.Float64frombits(bits), ok
	case mpFloat32:
		bits, ok := r.uintN(4)
		return float64(math.Float32frombits(uint32(bits))), ok
	}
	bits, negative, ok := r.integer()
	if negative {
		return float64(int64(bits)), ok
	}
	return float64(bits), ok
}

// bytes takes n bytes that follow a header of head bytes.
func (r *reader) bytes(head int, n uint64) ([]byte, bool) {
	if r.left() < head || uint64(r.left()-head) < n {
		return nil, false
	}
	start := r.i + head
	r.i = start + int(n)
	return r.b[start:r.i:r.i], true
}

// length reads an n-byte length after the type byte, without consuming it.
func (r *reader) length(n int) uint64 {
	at := *r
	v, ok := at.uintN(n)
	if !ok {
		return math.MaxUint64 // longer than anything: the caller runs out of bytes
	}
	return v
}

// str reads a text.
func (r *reader) str() ([]byte, bool) {
	switch c := r.peek(); {
	case c >= 0xa0 && c <= 0xbf:
		return r.bytes(1, uint64(c&0x1f))
	case c == mpStr8:
		return r.bytes(2, r.length(1))
	case c == mpStr16:
		return r.bytes(3, r.length(2))
	case c == mpStr32:
		return r.bytes(5, r.length(4))
	}
	return nil, false
}

// bin reads a byte string.
func (r *reader) bin() ([]byte, bool) {
	switch r.peek() {
	case mpBin8:
		return r.bytes(2, r.length(1))
	case mpBin16:
		return r.bytes(3, r.length(2))
	case mpBin32:
		return r.bytes(5, r.length(4))
	}
	return nil, false
}

// array reads an array's header. It fails where fewer bytes are left than elements
// are claimed, so that the count may be trusted with an allocation.
func (r *reader) array() (int, bool) {
	return r.header(0x90, mpArray16, mpArray32, 1)
}

// dict is array for maps; it counts pairs.
func (r *reader) dict() (int, bool) {
	return r.header(0x80, mpMap16, mpMap32, 2)
}

func (r *reader) header(fix, h16, h32 byte, least uint64) (int, bool) {
	var n uint64
	switch c := r.peek(); {
	case c&0xf0 == fix:
		n = uint64(c & 0x0f)
		r.i++
	case c == h16:
		n = r.length(2)
		r.i += 3
	case c == h32:
		n = r.length(4)
		r.i += 5
	default:
		return 0, false
	}
	if r.i > len(r.b) || n > uint64(r.left())/least {
		return 0, false
	}
	return int(n), true
}

// isArray reports whether an array comes next.
func isArray(c byte) bool { return c&0xf0 == 0x90 || c == mpArray16 || c == mpArray32 }

// isDict reports whether a map comes next.
func isDict(c byte) bool { return c&0xf0 == 0x80 || c == mpMap16 || c == mpMap32 }

// isStr reports whether a text comes next.
func isStr(c byte) bool { return c&0xe0 == 0xa0 || c == mpStr8 || c == mpStr16 || c == mpStr32 }

// isBin reports whether a byte string comes next.
func isBin(c byte) bool { return c == mpBin8 || c == mpBin16 || c == mpBin32 }

// skip passes over one value, whatever it is. Nesting costs nothing: it counts the
// values still to come, and gives up once they cannot fit into what is left.
func (r *reader) skip() bool {
	for todo := uint64(1); todo > 0; {
		if todo > uint64(r.left()) {
			return false
		}
		todo--
		c := r.b[r.i]
		head, body := 1, uint64(0)
		switch {
		case c <= 0x7f || c >= 0xe0: // small integer
		case c <= 0x8f:
			todo += 2 * uint64(c&0x0f)
		case c <= 0x9f:
			todo += uint64(c & 0x0f)
		case c <= 0xbf:
			body = uint64(c & 0x1f)
		default:
			switch c {
			case mpNil, mpFalse, mpTrue:
			case mpUint8, mpInt8:
				body = 1
			case mpUint16, mpInt16:
				body = 2
			case mpUint32, mpInt32, mpFloat32:
				body = 4
			case mpUint64, mpInt64, mpFloat64:
				body = 8
			case mpStr8, mpBin8:
				head, body = 2, r.length(1)
			case mpStr16, mpBin16:
				head, body = 3, r.length(2)
			case mpStr32, mpBin32:
				head, body = 5, r.length(4)
			case mpFixExt1, mpFixExt2, mpFixExt4, mpFixExt8, mpFixEx16:
				body = 1 + 1<<(c-mpFixExt1)
			case mpExt8:
				head, body = 3, r.length(1)
			case mpExt16:
				head, body = 4, r.length(2)
			case mpExt32:
				head, body = 6, r.length(4)
			case mpArray16:
				head = 3
				todo += r.length(2)
			case mpArray32:
				head = 5
				todo += r.length(4)
			case mpMap16:
				head = 3
				todo += 2 * r.length(2)
			case mpMap32:
				head = 5
				todo += 2 * r.length(4)
			default: // 0xc1
				return false
			}
		}
		if _, ok := r.bytes(head, body); !ok {
			return false
		}
	}
	return true
}
