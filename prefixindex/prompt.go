package prefixindex

import (
	"cmp"
	"slices"
)

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
	text   []byte  // instead of tokens, if bytes
	bytes  bool    // ResetBytes made it
	extras []Extra // in the order of compareExtras

	// What is known of the hashes: those of the first blocks, for one hasher. The
	// zero hasher stands for none.
	hasher Hasher
	hashes []BlockHash
	hashed int // extras that the known hashes include

	// The root outlives a Reset that keeps the scope: most prompts of one goroutine are
	// for one model.
	root   BlockHash
	rooted Hasher // that root is of; the zero one: of none
}

// Reset makes p the prompt of these tokens, token ids as the engine counts them
// after its chat template. tokens is kept, not copied, and must not change until
// the next Reset; extras, in any order, are copied; one that began before the
// prompt (At below zero) counts as beginning with it.
//
// O(extras log extras), no hashing; allocates only to grow.
func (p *Prompt) Reset(s Scope, tokens []uint32, extras ...Extra) {
	p.reset(s, false)
	p.tokens = tokens
	if len(extras) > 0 {
		p.extras = append(p.extras, extras...)
		slices.SortFunc(p.extras, compareExtras)
	}
}

// compareExtras orders extras by position; those at one position by contents, so
// that the hash does not depend on the order in which a caller lists them.
func compareExtras(a, b Extra) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

func (p *Prompt) reset(s Scope, bytes bool) {
	if p.bytes != bytes || p.scope != s {
		p.rooted = Hasher{}
	}
	p.scope, p.bytes = s, bytes
	p.tokens, p.text = nil, nil
	p.extras, p.hashes = p.extras[:0], p.hashes[:0]
	p.hasher, p.hashed = Hasher{}, 0
}

// ResetBytes makes p a prompt of plain bytes, for fleets whose router has no
// tokens. A block is 4*BlockTokens bytes, and lengths in tokens count four bytes
// as one token: an estimate, good enough to follow a prefix and not to predict
// what an engine will reuse. Blocks of bytes never equal blocks of tokens. text
// is kept, not copied.
//
// O(1), no hashing.
func (p *Prompt) ResetBytes(s Scope, text []byte) {
	p.reset(s, true)
	p.text = text
}

// Extend replaces the tokens of p by longer ones that begin with them, such as
// the prompt followed by the reply, and keeps the hashes. It is for the caller
// to know that they do; a shorter slice truncates p.
//
// O(1), no hashing. tokens is kept, not copied. A prompt of bytes becomes empty.
func (p *Prompt) Extend(tokens []uint32) {
	if p.bytes {
		p.reset(p.scope, false)
		return
	}
	p.tokens = tokens
	if n := p.blocks(p.hasher); n < len(p.hashes) {
		p.hashes = p.hashes[:n]
		p.hashed, _ = slices.BinarySearchFunc(p.extras, n*p.hasher.blockTokens,
			func(x Extra, at int) int { return cmp.Compare(x.At, at) })
	}
}

// Scope returns the scope. O(1).
func (p *Prompt) Scope() Scope { return p.scope }

// Tokens returns the length of the prompt in tokens, including a last block
// that is not full. O(1).
func (p *Prompt) Tokens() int {
	if p.bytes {
		return (len(p.text) + 3) / 4
	}
	return len(p.tokens)
}

// blocks returns the number of full blocks.
func (p *Prompt) blocks(h Hasher) int {
	if h.blockTokens == 0 {
		return 0
	}
	if p.bytes {
		return len(p.text) / (4 * h.blockTokens)
	}
	return len(p.tokens) / h.blockTokens
}

// grow returns at least the first n hashes of p; n is at most p.blocks(h). It writes
// to p only if some of them are not known yet for h, which is what lets readers
// share a Prompt whose hashes are complete.
func (p *Prompt) grow(h Hasher, n int) []BlockHash {
	if p.hasher != h {
		p.hasher = h
		p.hashes, p.hashed = p.hashes[:0], 0
		if p.rooted != h {
			domain := byte(domainTokens)
			if p.bytes {
				domain = domainBytes
			}
			p.root, p.rooted = h.root(p.scope, domain), h
		}
	}
	if n <= len(p.hashes) {
		return p.hashes
	}
	parent := p.root
	if len(p.hashes) > 0 {
		parent = p.hashes[len(p.hashes)-1]
	}
	if !p.bytes && p.hashed == len(p.extras) {
		from := len(p.hashes)
		p.hashes = h.appendChain(p.hashes, parent, p.tokens[from*h.blockTokens:n*h.blockTokens])
		return p.hashes
	}
	for i := len(p.hashes); i < n; i++ {
		if size := 4 * h.blockTokens; p.bytes {
			parent = h.nextBytes(parent, p.text[i*size:(i+1)*size])
		} else {
			end := (i + 1) * h.blockTokens
			first := p.hashed
			for p.hashed < len(p.extras) && p.extras[p.hashed].At < end {
				p.hashed++
			}
			parent = h.Next(parent, p.tokens[i*h.blockTokens:end], p.extras[first:p.hashed])
		}
		p.hashes = append(p.hashes, parent)
	}
	return p.hashes
}
