package harness

import (
	"encoding/binary"

	"github.com/warmroute/warmroute/prefixindex"
)

// A Payload writes batches of events as vLLM does: positional, as up to 0.23, or maps.
type Payload struct {
	AsArray bool
	b       []byte
}

// Batch begins an envelope of that many events.
func (p *Payload) Batch(events int) {
	p.b = append(p.b[:0], 0x93, 0xcb, 0x41, 0xda, 0x13, 0xb8, 0x60, 0x20, 0, 0) // three slots, the time
	p.head(0x90, events)
}

// End writes the rank and returns all of it, valid until the next Batch.
func (p *Payload) End() []byte {
	p.b = append(p.b, 0)
	return p.b
}

// Stored writes blocks [from, to) of c, as owner names them.
func (p *Payload) Stored(owner int, c *Chain, from, to int) {
	if p.AsArray {
		p.head(0x90, 12)
		p.text("BlockStored")
	} else {
		p.head(0x80, 11)
		p.text("type")
		p.text("BlockStored")
	}
	p.key("block_hashes")
	p.head(0x90, to-from)
	for block := from; block < to; block++ {
		p.hash(EngineHash(owner, c, block))
	}
	p.key("parent_block_hash")
	if from == 0 {
		p.null()
	} else {
		p.hash(EngineHash(owner, c, from-1))
	}
	p.key("token_ids")
	p.head(0x90, (to-from)*BlockTokens)
	for _, id := range c.Tokens[from*BlockTokens : to*BlockTokens] {
		p.number(id)
	}
	p.key("block_size")
	p.number(BlockTokens)
	p.key("lora_id")
	p.null()
	p.key("medium")
	p.text("GPU")
	p.key("lora_name")
	p.null()
	p.key("extra_keys")
	p.head(0x90, to-from)
	for range to - from {
		p.null()
	}
	p.key("group_idx")
	p.number(0)
	p.key("kv_cache_spec_kind")
	p.text("full_attention")
	if p.AsArray {
		p.null() // no sliding window
	}
}

// Removed writes that the engine evicts the same blocks, children first.
func (p *Payload) Removed(owner int, c *Chain, from, to int) {
	if p.AsArray {
		p.head(0x90, 4)
		p.text("BlockRemoved")
	} else {
		p.head(0x80, 4)
		p.text("type")
		p.text("BlockRemoved")
	}
	p.key("block_hashes")
	p.head(0x90, to-from)
	for block := to - 1; block >= from; block-- {
		p.hash(EngineHash(owner, c, block))
	}
	p.key("medium")
	p.text("GPU")
	p.key("group_idx")
	p.number(0)
}

func (p *Payload) key(name string) {
	if !p.AsArray {
		p.text(name)
	}
}

// text writes up to 31 bytes.
func (p *Payload) text(s string) { p.b = append(append(p.b, 0xa0|byte(len(s))), s...) }

func (p *Payload) null() { p.b = append(p.b, 0xc0) }

func (p *Payload) hash(h prefixindex.EngineHash) {
	p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcf), uint64(h))
}

func (p *Payload) number(n uint32) {
	switch {
	case n < 1<<7:
		p.b = append(p.b, byte(n))
	case n < 1<<8:
		p.b = append(p.b, 0xcc, byte(n))
	case n < 1<<16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xcd), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xce), n)
	}
}

// head writes the header of an array (fix is 0x90) or of a map of up to 15 pairs.
func (p *Payload) head(fix byte, n int) {
	if n < 16 {
		p.b = append(p.b, fix|byte(n))
		return
	}
	p.b = binary.BigEndian.AppendUint16(append(p.b, 0xdc), uint16(n))
}
