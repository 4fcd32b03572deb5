package oracle_test

import (
	"math"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// A batch as the tree of values says, read the plain way: the whole tree first, then
// field by field.
type batch struct {
	rank      int
	hasRank   bool
	events    []kvevents.Event
	unknown   int
	malformed int
}

// interpret returns the batch in v, and false if v is none.
func interpret(lib library, v value) (b batch, ok bool) {
	var ts, events, rank *value
	switch v.kind {
	case isArray:
		if len(v.list) < 2 {
			return b, false
		}
		ts, events = &v.list[0], &v.list[1]
		if len(v.list) > 2 {
			rank = &v.list[2]
		}
	case isMap:
		for i := 0; i < len(v.list); i += 2 {
			key, x := &v.list[i], &v.list[i+1]
			if key.kind != isText {
				return b, false
			}
			switch string(key.bytes) {
			case "ts":
				if x.kind != isNil && x.kind != isInt && x.kind != isFloat {
					return b, false
				}
			case "events":
				if events != nil {
					return b, false
				}
				events = x
			case "data_parallel_rank", "attn_dp_rank", "dp_rank":
				if _, ok := whole(x, math.MaxInt32); ok {
					rank = x
				}
			}
		}
	default:
		return b, false
	}
	if ts != nil && ts.kind != isNil && ts.kind != isInt && ts.kind != isFloat {
		return b, false
	}
	if events == nil || events.kind != isArray {
		return b, false
	}
	if rank != nil {
		b.rank, b.hasRank = whole(rank, math.MaxInt32)
	}
	for i := range events.list {
		x := &events.list[i]
		if x.kind == isBytes {
			inner, rest, err := lib.read(x.bytes)
			if err != nil || inner.kind == isBytes {
				b.malformed++
				continue
			}
			before := len(b.events)
			b.event(&inner)
			if len(rest) > 0 && len(b.events) > before {
				b.events = b.events[:before]
				b.malformed++
			}
			continue
		}
		b.event(x)
	}
	return b, true
}

// whole returns an integer of 0 to hi.
func whole(v *value, hi uint64) (int, bool) {
	if v.kind != isInt || v.negative || v.bits > hi {
		return 0, false
	}
	return int(v.bits), true
}

var slots = map[string][]string{
	"BlockStored": {
		"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
		"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
	},
	"BlockRemoved":     {"block_hashes", "medium", "group_idx"},
	"AllBlocksCleared": nil,
}

var kinds = map[string]kvevents.Kind{
	"BlockStored": kvevents.Stored, "BlockRemoved": kvevents.Removed, "AllBlocksCleared": kvevents.Cleared,
}

func (b *batch) event(v *value) {
	tag := ""
	var names []string
	var fields []*value
	switch v.kind {
	case isArray:
		if len(v.list) == 0 || v.list[0].kind != isText {
			b.malformed++
			return
		}
		tag = string(v.list[0].bytes)
		for i := range v.list[1:] {
			name := "?"
			if i < len(slots[tag]) {
				name = slots[tag][i]
			}
			names = append(names, name)
			fields = append(fields, &v.list[i+1])
		}
	case isMap:
		found := false
		for i := 0; i < len(v.list) && !found; i += 2 {
			if v.list[i].kind != isText {
				b.malformed++
				return
			}
			if string(v.list[i].bytes) == "type" {
				if v.list[i+1].kind != isText {
					b.malformed++
					return
				}
				tag, found = string(v.list[i+1].bytes), true
			}
		}
		if !found {
			b.malformed++
			return
		}
		if kinds[tag] == 0 {
			b.unknown++
			return
		}
		for i := 0; i < len(v.list); i += 2 {
			if v.list[i].kind != isText {
				b.malformed++
				return
			}
			names = append(names, string(v.list[i].bytes))
			fields = append(fields, &v.list[i+1])
		}
	default:
		b.malformed++
		return
	}
	if kinds[tag] == 0 {
		b.unknown++
		return
	}
	e := kvevents.Event{Kind: kinds[tag], Named: v.kind == isMap}
	seen := map[string]bool{}
	lists := 0
	for i, name := range names {
		x := fields[i]
		if x.kind == isNil {
			continue
		}
		if v.kind == isArray && name == "lora_name" && x.kind == isMap {
			name = "metadata"
		}
		if v.kind == isArray && name == "lora_id" && x.kind == isText {
			name = "lora_name"
		}
		if !set(&e, name, x, &lists) {
			b.malformed++
			return
		}
		seen[name] = true
	}
	ok := true
	switch e.Kind {
	case kvevents.Stored:
		ok = seen["block_hashes"] && seen["token_ids"] && seen["block_size"] && (len(e.Extras) == 0 || lists == len(e.Hashes))
	case kvevents.Removed:
		ok = seen["block_hashes"]
	case kvevents.Cleared:
	}
	if !ok {
		b.malformed++
		return
	}
	b.events = append(b.events, e)
}

// set reads a field that is not nil.
func set(e *kvevents.Event, name string, x *value, lists *int) (ok bool) {
	text := func(to *[]byte) bool {
		*to = x.bytes
		return x.kind == isText
	}
	switch name {
	case "block_hashes":
		e.Hashes = nil
		for i := range x.list {
			h, ok := hash(&x.list[i])
			if !ok {
				return false
			}
			e.Hashes = append(e.Hashes, h)
		}
		return x.kind == isArray
	case "parent_block_hash":
		e.HasParent = true
		e.Parent, ok = hash(x)
		return ok
	case "token_ids":
		e.Tokens = nil
		for i := range x.list {
			cell := &x.list[i]
			if cell.kind == isArray {
				if len(cell.list) != 2 {
					return false
				}
				if _, ok := whole(&cell.list[1], math.MaxUint32); !ok {
					return false
				}
				cell = &cell.list[0]
			}
			id, ok := whole(cell, math.MaxUint32)
			if !ok {
				return false
			}
			e.Tokens = append(e.Tokens, uint32(id))
		}
		return x.kind == isArray
	case "block_size":
		e.BlockTokens, ok = whole(x, math.MaxInt32)
		return ok
	case "lora_id":
		e.LoRAID, e.HasLoRAID = int64(x.bits), true
		return x.kind == isInt && x.negative == (e.LoRAID < 0)
	case "medium":
		return text(&e.Medium)
	case "lora_name":
		return text(&e.LoRAName)
	case "extra_keys":
		e.HasExtras = true
		e.Extras = nil
		*lists = len(x.list)
		for block := range x.list {
			keys := &x.list[block]
			if keys.kind != isNil && keys.kind != isArray {
				return false
			}
			for i := range keys.list {
				extra := extraOf(&keys.list[i])
				extra.Block = block
				e.Extras = append(e.Extras, extra)
			}
		}
		return x.kind == isArray
	case "group_idx":
		e.HasGroup = true
		e.Group, ok = whole(x, math.MaxUint16)
		return ok
	case "kv_cache_spec_kind":
		return text(&e.SpecKind)
	case "kv_cache_spec_sliding_window":
		e.Window, ok = whole(x, math.MaxInt32)
		return ok
	case "locality":
		return text(&e.Locality)
	case "ownership":
		return text(&e.Ownership)
	case "cache_salt":
		return text(&e.Salt)
	case "block_mm_infos":
		for i := range x.list {
			e.Opaque = e.Opaque || x.list[i].kind != isNil
		}
		return x.kind == isArray
	case "metadata":
		for i := 0; i < len(x.list); i += 2 {
			if x.list[i].kind != isText {
				return false
			}
			if salt := &x.list[i+1]; string(x.list[i].bytes) == "cache_salt" && salt.kind != isNil {
				if salt.kind != isText {
					return false
				}
				e.Salt = salt.bytes
			}
		}
	}
	return true
}

func hash(x *value) (prefixindex.EngineHash, bool) {
	switch x.kind {
	case isInt:
		return prefixindex.EngineHash(x.bits), true
	case isBytes:
		var h prefixindex.EngineHash
		for _, c := range x.bytes {
			h = h<<8 | prefixindex.EngineHash(c)
		}
		return h, len(x.bytes) > 0
	default:
		return 0, false
	}
}

func extraOf(x *value) kvevents.Extra {
	switch x.kind {
	case isText:
		return kvevents.Extra{Shape: kvevents.ExtraString, ID: x.bytes}
	case isBytes:
		return kvevents.Extra{Shape: kvevents.ExtraDigest, ID: x.bytes}
	case isArray:
		if len(x.list) == 2 && x.list[0].kind == isText && x.list[1].kind == isInt {
			offset := int64(x.list[1].bits)
			if (offset < 0) == x.list[1].negative && offset >= math.MinInt32 && offset <= math.MaxInt32 {
				return kvevents.Extra{Shape: kvevents.ExtraItem, ID: x.list[0].bytes, Offset: int(offset), HasOffset: true}
			}
		}
	default:
	}
	return kvevents.Extra{Shape: kvevents.ExtraOther}
}
