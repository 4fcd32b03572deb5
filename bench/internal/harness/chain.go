// Package harness is what the benchmarks and their rivals measure on: prompts, event
// payloads and pages of metrics made from a number, fleets to hold prompts, and shapes of
// who holds what.
package harness

import (
	"github.com/warmroute/warmroute/bench/internal/trace"
	"github.com/warmroute/warmroute/prefixindex"
)

// A prompt is 640 blocks of 16 tokens: 10,240.
const (
	BlockTokens  = 16
	PromptBlocks = 640
	PromptTokens = PromptBlocks * BlockTokens
)

// Scope is that of all prompts.
func Scope() prefixindex.Scope { return prefixindex.Scope{Model: "llama"} }

// A Chain is a conversation: its number determines its tokens, so that millions of
// blocks need not be kept to be asked for again.
type Chain struct {
	ID     uint64
	Tokens []uint32
}

// NewChain returns the conversation of that number.
func NewChain(id uint64, tokens int) *Chain {
	c := &Chain{Tokens: make([]uint32, tokens)}
	c.Become(id)
	return c
}

// Become makes c another conversation of the same length.
func (c *Chain) Become(id uint64) {
	c.ID = id
	for i := range c.Tokens {
		c.Tokens[i] = uint32(trace.Mix(id<<24+uint64(i)) >> 47) // a vocabulary of 131,072
	}
}

// Blocks is the number of full blocks.
func (c *Chain) Blocks() int { return len(c.Tokens) / BlockTokens }

// Prompt returns the prompt of all of c, with its hashes known.
func (c *Chain) Prompt(h prefixindex.Hasher) *prefixindex.Prompt {
	p := new(prefixindex.Prompt)
	p.Reset(Scope(), c.Tokens)
	h.Hashes(p)
	return p
}

// EngineHash is the name that an engine gives to a block: different on each.
func EngineHash(owner int, c *Chain, block int) prefixindex.EngineHash {
	return prefixindex.EngineHash(trace.Mix(trace.Mix(c.ID) + uint64(owner)<<32 + uint64(block)))
}
