package oracle_test

import (
	"bytes"
	"errors"
	"math"

	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// value is a msgpack value as another library reads it.
type value struct {
	kind     kind
	bits     uint64 // of an integer, in two's complement
	negative bool
	float    float64
	bytes    []byte  // of text and bytes
	list     []value // elements; of a map: keys and values in turn
}

type kind byte

const (
	isOther kind = iota // booleans, extensions
	isNil
	isInt
	isFloat
	isText
	isBytes
	isArray
	isMap
)

// errDeep means that a value is nested deeper than these readers, which recurse, will
// go.
var errDeep = errors.New("too deep")

const maxDepth = 64

// A library reads the first value in b and returns what follows it.
type library struct {
	name string
	read func(b []byte) (v value, rest []byte, err error)
}

var libraries = []library{
	{"msgp", func(b []byte) (value, []byte, error) { return readMsgp(b, 0) }},
	{"vmihailenco", func(b []byte) (value, []byte, error) {
		r := bytes.NewReader(b)
		v, err := readVmihailenco(msgpack.NewDecoder(r), 0)
		return v, b[len(b)-r.Len():], err
	}},
}

func readMsgp(b []byte, depth int) (v value, rest []byte, err error) {
	if depth > maxDepth {
		return v, nil, errDeep
	}
	var n uint32
	switch msgp.NextType(b) {
	case msgp.NilType:
		v.kind = isNil
		rest, err = msgp.ReadNilBytes(b)
	case msgp.IntType:
		var i int64
		i, rest, err = msgp.ReadInt64Bytes(b)
		v.kind, v.bits, v.negative = isInt, uint64(i), i < 0
	case msgp.UintType:
		v.kind = isInt
		v.bits, rest, err = msgp.ReadUint64Bytes(b)
	case msgp.Float64Type:
		v.kind = isFloat
		v.float, rest, err = msgp.ReadFloat64Bytes(b)
	case msgp.Float32Type:
		var f float32
		f, rest, err = msgp.ReadFloat32Bytes(b)
		v.kind, v.float = isFloat, float64(f)
	case msgp.StrType:
		v.kind = isText
		v.bytes, rest, err = msgp.ReadStringZC(b)
	case msgp.BinType:
		v.kind = isBytes
		v.bytes, rest, err = msgp.ReadBytesZC(b)
	case msgp.ArrayType:
		v.kind = isArray
		n, rest, err = msgp.ReadArrayHeaderBytes(b)
	case msgp.MapType:
		v.kind = isMap
		n, rest, err = msgp.ReadMapHeaderBytes(b)
		if n > math.MaxUint32/2 {
			return v, nil, msgp.ErrShortBytes
		}
		n *= 2
	default:
		rest, err = msgp.Skip(b)
	}
	for ; err == nil && n > 0; n-- {
		var x value
		x, rest, err = readMsgp(rest, depth+1)
		v.list = append(v.list, x)
	}
	return v, rest, err
}

func readVmihailenco(d *msgpack.Decoder, depth int) (v value, err error) {
	if depth > maxDepth {
		return v, errDeep
	}
	c, err := d.PeekCode()
	if err != nil {
		return v, err
	}
	n := 0
	switch {
	case c == msgpcode.Nil:
		v.kind = isNil
		err = d.DecodeNil()
	case msgpcode.IsFixedNum(c), c >= msgpcode.Int8 && c <= msgpcode.Int64:
		var i int64
		i, err = d.DecodeInt64()
		v.kind, v.bits, v.negative = isInt, uint64(i), i < 0
	case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
		v.kind = isInt
		v.bits, err = d.DecodeUint64()
	case c == msgpcode.Double:
		v.kind = isFloat
		v.float, err = d.DecodeFloat64()
	case c == msgpcode.Float:
		var f float32
		f, err = d.DecodeFloat32()
		v.kind, v.float = isFloat, float64(f)
	case msgpcode.IsString(c):
		var s string
		s, err = d.DecodeString()
		v.kind, v.bytes = isText, []byte(s)
	case msgpcode.IsBin(c):
		v.kind = isBytes
		v.bytes, err = d.DecodeBytes()
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		v.kind = isArray
		n, err = d.DecodeArrayLen()
	case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
		v.kind = isMap
		n, err = d.DecodeMapLen()
		n *= 2
	default:
		err = d.Skip()
	}
	for ; err == nil && n > 0; n-- {
		var x value
		x, err = readVmihailenco(d, depth+1)
		v.list = append(v.list, x)
	}
	return v, err
}
