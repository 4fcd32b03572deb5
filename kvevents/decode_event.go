package kvevents

import (
	"encoding/binary"
	"math"

	"github.com/warmroute/warmroute/prefixindex"
)

// verdict is what became of one element of a batch.
type verdict uint8

const (
	eventKept verdict = iota
	eventUnknown
	eventMalformed
	eventUnplaced // see Decoder.ContentHashes
)

// field is a field of an event that we read.
type field uint8

const (
	fieldHashes field = iota
	fieldParent
	fieldTokens
	fieldBlockTokens
	fieldLoRAID
	fieldMedium
	fieldLoRAName
	fieldExtraKeys
	fieldGroup
	fieldSpecKind
	fieldWindow
	fieldLocality
	fieldOwnership
	fieldSalt
	fieldItems    // another engine's list of media items, which we do not understand
	fieldMetadata // SGLang's map in slot 7
	fieldIgnored
	fieldUnknown
)

// The slots of positional events, after the tag. Fields were only ever added at the
// end, so that a shorter array is an older schema.
//
//nolint:gochecknoglobals // tables, never written
var (
	storedSlots = [...]field{
		fieldHashes, fieldParent, fieldTokens, fieldBlockTokens, fieldLoRAID, fieldMedium,
		fieldLoRAName, fieldExtraKeys, fieldGroup, fieldSpecKind, fieldWindow,
	}
	removedSlots = [...]field{fieldHashes, fieldMedium, fieldGroup}
)

// fieldOf returns the field of a key.
func fieldOf(key []byte) field {
	switch string(key) {
	case "block_hashes":
		return fieldHashes
	case "parent_block_hash":
		return fieldParent
	case "token_ids":
		return fieldTokens
	case "block_size":
		return fieldBlockTokens
	case "lora_id":
		return fieldLoRAID
	case "medium":
		return fieldMedium
	case "lora_name":
		return fieldLoRAName
	case "extra_keys":
		return fieldExtraKeys
	case "group_idx":
		return fieldGroup
	case "kv_cache_spec_kind":
		return fieldSpecKind
	case "kv_cache_spec_sliding_window":
		return fieldWindow
	case "locality":
		return fieldLocality
	case "ownership":
		return fieldOwnership
	case "cache_salt":
		return fieldSalt
	case "block_mm_infos":
		return fieldItems
	case "type", "session_id", "lookahead_token_ids":
		// The session is the request's, not the block's. The lookahead tokens enter the
		// engine's hash of a block, but are not in the block: they are the next one's.
		return fieldIgnored
	}
	return fieldUnknown
}

// kindOf returns the kind of a tag, or 0.
func kindOf(tag []byte) Kind {
	switch string(tag) {
	case "BlockStored":
		return Stored
	case "BlockRemoved":
		return Removed
	case "AllBlocksCleared":
		return Cleared
	}
	return 0
}

// event reads one event and appends it to the batch, unless it returns anything but
// eventKept: then the caller puts everything back.
func (p *parser) event() verdict {
	n := len(p.out.Events)
	p.out.Events = append(p.out.Events, Event{})
	e := &p.out.Events[n]
	v := eventMalformed
	switch c := p.peek(); {
	case isArray(c):
		v = p.positional(e)
	case isDict(c):
		v = p.mapped(e)
	}
	if v != eventKept {
		p.out.Events = p.out.Events[:n]
	}
	return v
}

// positional reads an event that is an array: the tag, then fields by slot.
func (p *parser) positional(e *Event) verdict {
	n, ok := p.array()
	if !ok || n == 0 {
		return eventMalformed
	}
	tag, ok := p.str()
	if !ok {
		return eventMalformed
	}
	var slots []field
	switch e.Kind = kindOf(tag); e.Kind {
	case Stored:
		slots = storedSlots[:]
	case Removed:
		slots = removedSlots[:]
	case Cleared:
	default:
		return p.unknown(tag)
	}
	seen := 0
	for slot := range n - 1 {
		f := fieldUnknown
		if slot < len(slots) {
			f = slots[slot]
		}
		if p.null() { // what was not said
			continue
		}
		if f == fieldLoRAName {
			f = p.slot7()
		}
		if f == fieldLoRAID && isStr(p.peek()) {
			f = fieldLoRAName // a development version put the name in the number's place
		}
		if !p.field(e, f) {
			return eventMalformed
		}
		seen |= 1 << f
	}
	return p.complete(e, seen)
}

// slot7 tells apart what engines put into slot 7 of a BlockStored: vLLM the name of
// an adapter, SGLang a map with the salt.
func (p *parser) slot7() field {
	switch {
	case isDict(p.peek()):
		return fieldMetadata
	case p.d.SaltSlot:
		return fieldSalt
	}
	return fieldLoRAName
}

// mapped reads an event that is a map.
func (p *parser) mapped(e *Event) verdict {
	n, ok := p.dict()
	if !ok {
		return eventMalformed
	}
	tag, ok := p.tag(n)
	if !ok {
		return eventMalformed
	}
	if e.Kind = kindOf(tag); e.Kind == 0 {
		return p.unknown(tag)
	}
	e.Named = true
	seen := 0
	for range n {
		key, ok := p.str()
		if !ok {
			return eventMalformed
		}
		if p.null() {
			continue
		}
		f := fieldOf(key)
		if !p.field(e, f) {
			return eventMalformed
		}
		seen |= 1 << f
	}
	return p.complete(e, seen)
}

// tag finds the value of "type" among the n pairs that follow, and stays before
// them. Engines write it first, but need not.
func (p *parser) tag(n int) ([]byte, bool) {
	start := p.i
	defer func() { p.i = start }()
	for range n {
		key, ok := p.str()
		if !ok {
			return nil, false
		}
		if string(key) == "type" {
			return p.str()
		}
		if !p.skip() {
			return nil, false
		}
	}
	return nil, false
}

func (p *parser) unknown(tag []byte) verdict {
	if p.out.UnknownTag == nil {
		p.out.UnknownTag = tag
	}
	return eventUnknown
}

// complete checks that the event has what its kind cannot do without.
func (p *parser) complete(e *Event, seen int) verdict {
	need := 0
	switch e.Kind {
	case Stored:
		need = 1<<fieldHashes | 1<<fieldTokens | 1<<fieldBlockTokens
		// One list for each block, or it is not known whose they are.
		if e.HasExtras && len(e.Extras) > 0 && p.lists != len(e.Hashes) {
			return eventMalformed
		}
	case Removed:
		need = 1 << fieldHashes
	case Cleared:
	}
	if seen&need != need {
		return eventMalformed
	}
	if p.d.ContentHashes && e.Kind == Stored {
		return eventUnplaced
	}
	return eventKept
}

// field reads one value, which is not nil, into e.
func (p *parser) field(e *Event, f field) (ok bool) {
	switch f {
	case fieldHashes:
		e.Hashes, ok = p.hashes()
	case fieldParent:
		e.Parent, ok = p.hash()
		e.HasParent = !p.d.ZeroParent || e.Parent != 0
	case fieldTokens:
		e.Tokens, ok = p.tokens()
	case fieldBlockTokens:
		var v int64
		v, ok = p.int(0, math.MaxInt32)
		e.BlockTokens = int(v)
	case fieldLoRAID:
		e.LoRAID, ok = p.int(math.MinInt64, math.MaxInt64)
		e.HasLoRAID = true
	case fieldMedium:
		e.Medium, ok = p.str()
	case fieldLoRAName:
		e.LoRAName, ok = p.str()
	case fieldExtraKeys:
		e.Extras, ok = p.extraKeys()
		e.HasExtras = true
	case fieldGroup:
		var v int64
		v, ok = p.int(0, math.MaxUint16)
		e.Group, e.HasGroup = int(v), true
	case fieldSpecKind:
		e.SpecKind, ok = p.str()
	case fieldWindow:
		var v int64
		v, ok = p.int(0, math.MaxInt32)
		e.Window = int(v)
	case fieldLocality:
		e.Locality, ok = p.str()
	case fieldOwnership:
		e.Ownership, ok = p.str()
	case fieldSalt:
		e.Salt, ok = p.str()
	case fieldItems:
		ok = p.items(e)
	case fieldMetadata:
		ok = p.metadata(e)
	case fieldIgnored:
		ok = p.skip()
	default:
		p.out.UnknownFields++
		ok = p.skip()
	}
	return ok
}

// metadata reads the map that SGLang put into slot 7.
func (p *parser) metadata(e *Event) bool {
	n, ok := p.dict()
	if !ok {
		return false
	}
	for range n {
		key, ok := p.str()
		if !ok {
			return false
		}
		if string(key) == "cache_salt" {
			if p.null() {
				continue
			}
			if e.Salt, ok = p.str(); !ok {
				return false
			}
			continue
		}
		p.out.UnknownFields++
		if !p.skip() {
			return false
		}
	}
	return true
}

// hashes reads a list of block hashes.
func (p *parser) hashes() ([]prefixindex.EngineHash, bool) {
	n, ok := p.array()
	if !ok || n > maxEventItems {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	p.out.hashes = room(p.out.hashes, n)
	start := len(p.out.hashes)
	list := p.out.hashes[start : start+n : start+n]
	b, i := p.b, p.i
	for k := range list {
		if i+9 <= len(b) && b[i] == mpUint64 { // nearly all are
			list[k] = prefixindex.EngineHash(binary.BigEndian.Uint64(b[i+1:]))
			i += 9
			continue
		}
		p.i = i
		if list[k], ok = p.hash(); !ok {
			return nil, false
		}
		i = p.i
	}
	p.i = i
	p.out.hashes = p.out.hashes[:start+n]
	return list, true
}

// hash reads one block hash: an integer of any width and sign, or a digest of which
// 8 bytes count.
func (p *parser) hash() (prefixindex.EngineHash, bool) {
	if !isBin(p.peek()) {
		bits, _, ok := p.integer()
		return prefixindex.EngineHash(bits), ok
	}
	digest, ok := p.bin()
	if !ok || len(digest) == 0 {
		return 0, false
	}
	if len(digest) > 8 {
		if p.d.HeadBytes {
			digest = digest[:8]
		} else {
			digest = digest[len(digest)-8:]
		}
	}
	var bits uint64
	for _, c := range digest {
		bits = bits<<8 | uint64(c)
	}
	return prefixindex.EngineHash(bits), true
}

// tokens reads a list of token ids, or of pairs of them: in speculative decoding
// SGLang sends each token with the one after it, and a block's tokens are the first
// ones.
func (p *parser) tokens() ([]uint32, bool) {
	n, ok := p.array()
	if !ok || n > maxEventItems {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	p.out.tokens = room(p.out.tokens, n)
	start := len(p.out.tokens)
	list := p.out.tokens[start : start+n : start+n]
	b, i := p.b, p.i
	for k := range list {
		// Nearly all tokens are of one of these encodings. Which of the first three it is
		// cannot be predicted, and a wrong guess costs more than the token: so there is
		// no branch between them. Tokens near the end go the long way, since 8 bytes are
		// read whatever the width.
		if i+9 <= len(b) {
			c := b[i]
			if log := c - mpUint8; log <= mpUint32-mpUint8 {
				width := uint(1) << log // in bytes
				list[k] = uint32(binary.BigEndian.Uint64(b[i+1:]) >> (64 - 8*width))
				i += int(1 + width)
				continue
			}
			if c <= 0x7f {
				list[k] = uint32(c)
				i++
				continue
			}
		}
		p.i = i
		if list[k], ok = p.token(); !ok {
			return nil, false
		}
		i = p.i
	}
	p.i = i
	p.out.tokens = p.out.tokens[:start+n]
	return list, true
}

func (p *parser) token() (uint32, bool) {
	if isArray(p.peek()) {
		n, ok := p.array()
		if !ok || n != 2 {
			return 0, false
		}
		first, ok := p.int(0, math.MaxUint32)
		if !ok {
			return 0, false
		}
		_, ok = p.int(0, math.MaxUint32)
		return uint32(first), ok
	}
	id, ok := p.int(0, math.MaxUint32)
	return uint32(id), ok
}

// extraKeys reads the extras: for each block nil or a list.
func (p *parser) extraKeys() ([]Extra, bool) {
	blocks, ok := p.array()
	if !ok || blocks > maxEventItems {
		return nil, false
	}
	p.lists = blocks
	start := len(p.out.extras)
	for block := range blocks {
		if p.null() {
			continue
		}
		n, ok := p.array()
		if !ok || n > maxBatchExtras-len(p.out.extras) {
			return nil, false
		}
		before := len(p.out.extras)
		if before+n > cap(p.out.extras) {
			// Unlike the other lists this one grows in pieces, and must stay in one.
			grown := append(room(p.out.extras, before-start+n), p.out.extras[start:]...)
			p.out.extras, start = grown, 0
		}
		for range n {
			x, ok := p.extra()
			if !ok {
				return nil, false
			}
			x.Block = block
			p.out.extras = append(p.out.extras, x)
		}
	}
	if len(p.out.extras) == start {
		return nil, true
	}
	return p.out.extras[start:len(p.out.extras):len(p.out.extras)], true
}

// items passes over a list of media items. If there are any, something is in these
// blocks that neither the tokens nor the extras we understand tell.
func (p *parser) items(e *Event) bool {
	n, ok := p.array()
	if !ok {
		return false
	}
	for range n {
		if p.null() {
			continue
		}
		e.Opaque = true
		if !p.skip() {
			return false
		}
	}
	return true
}

func (p *parser) extra() (x Extra, ok bool) {
	switch c := p.peek(); {
	case isStr(c):
		x.Shape = ExtraString
		x.ID, ok = p.str()
		return x, ok
	case isBin(c):
		x.Shape = ExtraDigest
		x.ID, ok = p.bin()
		return x, ok
	case isArray(c):
		start := p.i
		if n, ok := p.array(); ok && n == 2 {
			if id, ok := p.str(); ok {
				if offset, ok := p.int(math.MinInt32, math.MaxInt32); ok {
					return Extra{Shape: ExtraItem, ID: id, Offset: int(offset), HasOffset: true}, true
				}
			}
		}
		p.i = start
	}
	x.Shape = ExtraOther
	return x, p.skip()
}
