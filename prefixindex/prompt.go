package prefixindex

// Prompt is what a lookup is made for: a scope and tokens, with the block hashes
// that lookups have needed so far. The zero value is an empty prompt; Reset makes
// it another one and reuses its memory.
//
// A Prompt serves one goroutine at a time, since lookups add hashes to it. To share
// one, as for hedged or retried requests, call Hasher.Hashes first: from then until
// the next Reset or Extend, lookups with that hasher only read it. It may be used
// with several indexes; hashes are kept for one hasher at a time.
type Prompt struct {
	scope  Scope
	tokens []uint32
	extras []Extra
	hashes []BlockHash
}

// Reset makes p the prompt of these tokens, token ids as the engine counts them
// after its chat template. tokens is kept, not copied, and must not change until
// the next Reset; extras, in any order, are copied.
//
// O(extras), no hashing; allocates only to grow.
func (p *Prompt) Reset(s Scope, tokens []uint32, extras ...Extra) {}

// ResetBytes makes p a prompt of plain bytes, for fleets whose router has no
// tokens. A block is 4*BlockTokens bytes, and lengths in tokens count four bytes
// as one token: an estimate, good enough to follow a prefix and not to predict
// what an engine will reuse. Blocks of bytes never equal blocks of tokens. text
// is kept, not copied.
//
// O(1), no hashing.
func (p *Prompt) ResetBytes(s Scope, text []byte) {}

// Extend replaces the tokens of p by longer ones that begin with them, such as
// the prompt followed by the reply, and keeps the hashes. It is for the caller
// to know that they do; a shorter slice truncates p.
//
// O(1), no hashing. tokens is kept, not copied. A prompt of bytes becomes empty.
func (p *Prompt) Extend(tokens []uint32) {}

// Scope returns the scope. O(1).
func (p *Prompt) Scope() Scope { return p.scope }

// Tokens returns the length of the prompt in tokens, including a last block
// that is not full. O(1).
func (p *Prompt) Tokens() int { return len(p.tokens) }
