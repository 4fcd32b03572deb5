package kvevents_test

import (
	"encoding/binary"
	"fmt"
	"math"
)

// list and dict are msgpack arrays and maps; a dict keeps its order: key, value, key,
// value.
type (
	list []any
	dict []any
)

// raw is msgpack as it is.
type raw []byte

// pack writes msgpack in the shortest form, as msgspec does.
func pack(v any) []byte { return appendPack(nil, v) }

func appendPack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0)
	case raw:
		return append(b, v...)
	case bool:
		if v {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case int:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case uint32:
		return appendInt(b, int64(v))
	case uint64:
		if v <= math.MaxInt64 {
			return appendInt(b, int64(v))
		}
		return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
	case string:
		n := len(v)
		switch {
		case n < 32:
			b = append(b, 0xa0|byte(n))
		case n < 256:
			b = append(b, 0xd9, byte(n))
		default:
			b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
		}
		return append(b, v...)
	case []byte:
		if len(v) < 256 {
			b = append(b, 0xc4, byte(len(v)))
		} else {
			b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(len(v)))
		}
		return append(b, v...)
	case []uint32:
		b = appendHeader(b, len(v), 0x90, 0xdc)
		for _, x := range v {
			b = appendInt(b, int64(x))
		}
		return b
	case []uint64:
		b = appendHeader(b, len(v), 0x90, 0xdc)
		for _, x := range v {
			b = appendPack(b, x)
		}
		return b
	case list:
		b = appendHeader(b, len(v), 0x90, 0xdc)
		for _, x := range v {
			b = appendPack(b, x)
		}
		return b
	case dict:
		b = appendHeader(b, len(v)/2, 0x80, 0xde)
		for _, x := range v {
			b = appendPack(b, x)
		}
		return b
	}
	panic(fmt.Sprintf("pack: %T", v))
}

func appendHeader(b []byte, n int, fix, h16 byte) []byte {
	switch {
	case n < 16:
		return append(b, fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, h16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, h16+1), uint32(n))
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0 && v < 128:
		return append(b, byte(v))
	case v < 0 && v >= -32:
		return append(b, byte(v))
	case v >= 0 && v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v >= 0 && v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v >= 0 && v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	case v >= 0:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), uint64(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

// batch packs events into an envelope of three slots.
func batch(events ...any) []byte { return pack(list{1750000000.5, list(events), nil}) }

// batchOf is batch with a rank.
func batchOf(rank int, events ...any) []byte { return pack(list{1750000000.5, list(events), rank}) }

// count returns n tokens that count up from first.
func count(first, n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(first + i)
	}
	return s
}

// stored is a BlockStored of vLLM's map form; parent is a hash or nil. more replaces
// fields and adds some.
func stored(hashes []uint64, parent, tokens any, blockTokens int, more ...any) dict {
	d := dict{
		"type", "BlockStored", "block_hashes", hashes, "parent_block_hash", parent,
		"token_ids", tokens, "block_size", blockTokens, "lora_id", nil, "medium", "GPU", "lora_name", nil,
	}
	return with(d, more)
}

// removed is a BlockRemoved of vLLM's map form.
func removed(hashes []uint64, more ...any) dict {
	return with(dict{"type", "BlockRemoved", "block_hashes", hashes, "medium", "GPU"}, more)
}

func with(d dict, more []any) dict {
next:
	for i := 0; i < len(more); i += 2 {
		for j := 0; j < len(d); j += 2 {
			if d[j] == more[i] {
				d[j+1] = more[i+1]
				continue next
			}
		}
		d = append(d, more[i], more[i+1])
	}
	return d
}

// cleared is an AllBlocksCleared.
var cleared = dict{"type", "AllBlocksCleared"}
