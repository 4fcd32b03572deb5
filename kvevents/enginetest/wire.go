package enginetest

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Form is a generation of vLLM's event schema. Each differs in how events are
// laid out; the batch around them is an array in all.
type Form uint8

const (
	// FormMap is of vLLM 0.24 and later: events are maps with the key "type";
	// optional fields that are nil are left out.
	FormMap Form = iota
	// FormPositional is of vLLM 0.22 and 0.23: events are arrays, BlockStored of 12.
	FormPositional
	// FormMedium is an older array form, BlockStored of 7, ending at the medium.
	FormMedium
	// FormFirst is of the first release: BlockStored of 6, signed hashes, no
	// medium on removals, no rank in the batch.
	FormFirst
)

// Wire says how batches are encoded.
type Wire struct {
	Form Form
	// Digests sends hashes as 32 raw bytes instead of integers; not in
	// FormFirst. The last 8 bytes are the integer form, as in vLLM; the other
	// 24 are derived from them, since a Pool keeps 64 bits.
	Digests bool
}

// Batch is the content of one message: what one scheduler turn changed.
type Batch struct {
	Time   time.Time
	Events []Event
	Rank   int // data_parallel_rank; not sent in FormFirst
}

// Append appends the batch as a msgpack payload. It reads only b. Cost: linear
// in the payload; no allocation beyond dst's growth.
func (w Wire) Append(dst []byte, b *Batch) []byte {
	dst = w.appendHeader(dst, b.Time, len(b.Events))
	for i := range b.Events {
		dst = w.appendEvent(dst, &b.Events[i])
	}
	return w.appendRank(dst, b.Rank)
}

func (w Wire) appendHeader(dst []byte, at time.Time, events int) []byte {
	fields := 3
	if w.Form == FormFirst {
		fields = 2
	}
	dst = appendArray(dst, fields)
	// Whole seconds and the rest apart: UnixNano does not fit float64 exactly.
	dst = appendFloat(dst, float64(at.Unix())+float64(at.Nanosecond())/1e9)
	return appendArray(dst, events)
}

func (w Wire) appendRank(dst []byte, rank int) []byte {
	if w.Form == FormFirst {
		return dst
	}
	return appendInt(dst, int64(rank))
}

func (w Wire) appendEvent(dst []byte, e *Event) []byte {
	switch {
	case e.Kind == Stored && w.Form == FormMap:
		return w.appendStoredMap(dst, e)
	case e.Kind == Stored:
		return w.appendStoredArray(dst, e)
	case e.Kind == Removed && w.Form == FormMap:
		dst = append(dst, msgFixMap|4)
		dst = appendString(appendString(dst, "type"), "BlockRemoved")
		dst = w.appendHashes(appendString(dst, "block_hashes"), e.Hashes)
		dst = appendString(appendString(dst, "medium"), e.medium())
		return appendUint(appendString(dst, "group_idx"), 0)
	case e.Kind == Removed:
		dst = appendArray(dst, [...]int{FormPositional: 4, FormMedium: 3, FormFirst: 2}[w.Form])
		dst = w.appendHashes(appendString(dst, "BlockRemoved"), e.Hashes)
		if w.Form != FormFirst {
			dst = appendString(dst, e.medium())
		}
		if w.Form == FormPositional {
			dst = appendUint(dst, 0)
		}
		return dst
	case w.Form == FormMap:
		dst = append(dst, msgFixMap|1)
		return appendString(appendString(dst, "type"), "AllBlocksCleared")
	default:
		return appendString(appendArray(dst, 1), "AllBlocksCleared")
	}
}

func (w Wire) appendStoredMap(dst []byte, e *Event) []byte {
	dst = append(dst, msgFixMap|11)
	dst = appendString(appendString(dst, "type"), "BlockStored")
	dst = w.appendHashes(appendString(dst, "block_hashes"), e.Hashes)
	dst = w.appendParent(appendString(dst, "parent_block_hash"), e)
	dst = appendTokens(appendString(dst, "token_ids"), e.Tokens)
	dst = appendInt(appendString(dst, "block_size"), int64(e.BlockTokens))
	dst = appendAdapterID(appendString(dst, "lora_id"), e)
	dst = appendString(appendString(dst, "medium"), e.medium())
	dst = appendNilString(appendString(dst, "lora_name"), e.scope().Adapter)
	dst = appendExtras(appendString(dst, "extra_keys"), e)
	dst = appendUint(appendString(dst, "group_idx"), 0)
	return appendString(appendString(dst, "kv_cache_spec_kind"), "full_attention")
}

func (w Wire) appendStoredArray(dst []byte, e *Event) []byte {
	dst = appendArray(dst, [...]int{FormPositional: 12, FormMedium: 7, FormFirst: 6}[w.Form])
	dst = w.appendHashes(appendString(dst, "BlockStored"), e.Hashes)
	dst = w.appendParent(dst, e)
	dst = appendTokens(dst, e.Tokens)
	dst = appendInt(dst, int64(e.BlockTokens))
	dst = appendAdapterID(dst, e)
	if w.Form == FormFirst {
		return dst
	}
	dst = appendString(dst, e.medium())
	if w.Form == FormMedium {
		return dst
	}
	dst = appendNilString(dst, e.scope().Adapter)
	dst = appendExtras(dst, e)
	dst = appendUint(dst, 0)                  // group_idx
	dst = appendString(dst, "full_attention") // kv_cache_spec_kind
	return append(dst, msgNil)                // kv_cache_spec_sliding_window
}

func (w Wire) appendHashes(dst []byte, hashes []uint64) []byte {
	dst = appendArray(dst, len(hashes))
	for _, h := range hashes {
		dst = w.appendHash(dst, h)
	}
	return dst
}

func (w Wire) appendHash(dst []byte, h uint64) []byte {
	switch {
	case w.Form == FormFirst:
		return appendInt(dst, int64(h))
	case w.Digests:
		var low [8]byte
		binary.BigEndian.PutUint64(low[:], h)
		digest := sha256.Sum256(low[:])
		return append(append(append(dst, msgBin8, 32), digest[:24]...), low[:]...)
	}
	return appendUint(dst, h)
}

func (w Wire) appendParent(dst []byte, e *Event) []byte {
	if !e.HasParent {
		return append(dst, msgNil)
	}
	return w.appendHash(dst, e.Parent)
}

func appendTokens(dst []byte, tokens []uint32) []byte {
	dst = appendArray(dst, len(tokens))
	for _, t := range tokens {
		dst = appendUint(dst, uint64(t))
	}
	return dst
}

func appendAdapterID(dst []byte, e *Event) []byte {
	if id := e.scope().AdapterID; id != 0 {
		return appendInt(dst, int64(id))
	}
	return append(dst, msgNil)
}

// appendExtras writes extra_keys, one element a block: nil, or the list of
// adapter name, items as [identifier, offset from the block's start], salt.
func appendExtras(dst []byte, e *Event) []byte {
	s := e.scope()
	dst = appendArray(dst, len(e.Hashes))
	for i := range e.Hashes {
		block := e.First + i
		n := 0
		s.itemsOf(block, e.BlockTokens, func(string, int) { n++ })
		if s.Adapter != "" {
			n++
		}
		salted := s.Salt != "" && block == 0
		if salted {
			n++
		}
		if n == 0 {
			dst = append(dst, msgNil)
			continue
		}
		dst = appendArray(dst, n)
		if s.Adapter != "" {
			dst = appendString(dst, s.Adapter)
		}
		s.itemsOf(block, e.BlockTokens, func(id string, offset int) {
			dst = appendInt(appendString(appendArray(dst, 2), id), int64(offset))
		})
		if salted {
			dst = appendString(dst, s.Salt)
		}
	}
	return dst
}

func (e *Event) scope() *Scope {
	if e.Scope == nil {
		return new(Scope)
	}
	return e.Scope
}

func (e *Event) medium() string {
	if e.Medium == "" {
		return "GPU"
	}
	return e.Medium
}
