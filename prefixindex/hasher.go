package prefixindex

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// BlockHash is the key of a block and of everything before it in its scope. It
// is comparable only between hashers with the same seed and block size.
type BlockHash uint64

// Scope is what must be equal, besides the tokens, for a cached block to be of
// use. Each field has a domain of its own: an adapter "x" and a salt "x" never
// meet.
type Scope struct {
	Model   string // served model
	Adapter string // LoRA adapter; empty for the base model
	Salt    string // cache salt, as the tenant chose it; empty for none
}

// ExtraKind is the domain of an [Extra].
type ExtraKind uint8

// The kinds of extras that engines fold into their block hashes.
const (
	ExtraMedia  ExtraKind = iota // an image, audio or video item, by its identifier
	ExtraEmbeds                  // a digest of prompt embeddings
	ExtraOpaque                  // anything else, taken as it is
)

// Extra is something besides tokens that a block depends on. It enters the hash
// of the block in which it begins, and through the chain that of every later
// one: prompts with equal placeholder tokens and different images part at the
// image.
type Extra struct {
	At   int // position, in tokens, where the item begins
	Kind ExtraKind
	ID   string // identifier, in full width
}

// Hasher turns tokens into chains of block hashes. A hash depends on the
// hasher's two parameters and on the input, not on the process nor on the
// machine's byte order. A Hasher is a value, safe for concurrent use; get one from
// NewHasher or an Index, the zero one finds no blocks in any prompt.
type Hasher struct {
	seed        uint64
	blockTokens int
}

// The block sizes that a Hasher takes, in tokens.
const (
	minBlockTokens = 4
	maxBlockTokens = 1024
)

// NewHasher returns a hasher of blocks of blockTokens tokens, 4 to 1,024; other
// sizes are an error. Processes that exchange hashes give the same seed.
//
// O(1).
func NewHasher(blockTokens int, seed uint64) (Hasher, error) {
	if blockTokens < minBlockTokens || blockTokens > maxBlockTokens {
		return Hasher{}, fmt.Errorf("%w: blockTokens is %d, want %d to %d", ErrOptions,
			blockTokens, minBlockTokens, maxBlockTokens)
	}
	return Hasher{seed: seed, blockTokens: blockTokens}, nil
}

// BlockTokens returns the number of tokens in a block. O(1).
func (h Hasher) BlockTokens() int { return h.blockTokens }

// Seed returns the seed. O(1).
func (h Hasher) Seed() uint64 { return h.seed }

// Domains keep apart what is hashed: equal bytes in different domains are
// different input. The values are part of the hash's definition.
const (
	domainTokens  = 't' // a scope whose blocks are tokens
	domainBytes   = 'b' // a scope whose blocks are plain bytes
	domainModel   = 'm'
	domainAdapter = 'a'
	domainSalt    = 's'
	domainExtra   = 'x'
)

// Odd constants, the primes of XXH64's own rounds. Links of a chain and extras
// are mixed with different ones, so that an extra never acts as a further block.
const (
	mixBlock = 0x9E3779B185EBCA87
	mixExtra = 0xC2B2AE3D27D4EB4F
)

// Root returns the parent of a scope's first block.
//
// O(bytes of s), no allocation, safe for concurrent use.
func (h Hasher) Root(s Scope) BlockHash { return h.root(s, domainTokens) }

// root is XXH64 with the hasher's seed over the domain of the blocks, the block size
// and the scope's fields, each behind its tag and length. The block size is part of
// it so that hashes of different sizes do not meet by chance of equal tokens.
func (h Hasher) root(s Scope, domain byte) BlockHash {
	var d xxhash.Digest
	d.ResetWithSeed(h.seed)
	writeHead(&d, domain, h.blockTokens)
	writeField(&d, domainModel, s.Model)
	writeField(&d, domainAdapter, s.Adapter)
	writeField(&d, domainSalt, s.Salt)
	return nonzero(d.Sum64())
}

// Next returns the hash of the block of BlockTokens tokens that follows parent.
// extras are those that begin in the block, in order of position; their At is
// not hashed. Any other number of tokens gives a hash that no block has.
//
// O(BlockTokens), no allocation, safe for concurrent use. The arguments are not
// kept.
func (h Hasher) Next(parent BlockHash, tokens []uint32, extras []Extra) BlockHash {
	if len(tokens) != h.blockTokens || len(tokens) == 0 {
		return 0
	}
	return link(parent, sumTokens(tokens), extras)
}

// nextBytes is Next for a block of 4*BlockTokens plain bytes.
func (h Hasher) nextBytes(parent BlockHash, text []byte) BlockHash {
	return link(parent, xxhash.Sum64(text), nil)
}

// link joins a block's own digest to its parent. For a fixed parent the sum is a
// permutation of the digest, and for a fixed digest one of the parent, the factor
// being odd: no block's value makes two parents equal. The avalanche then keeps
// sums of later links from cancelling earlier ones.
func link(parent BlockHash, digest uint64, extras []Extra) BlockHash {
	x := avalanche(uint64(parent)*mixBlock + digest)
	for i := range extras {
		x = avalanche(x*mixExtra + sumExtra(&extras[i]))
	}
	return nonzero(x)
}

func sumExtra(e *Extra) uint64 {
	var d xxhash.Digest
	d.Reset()
	writeHead(&d, domainExtra, int(e.Kind))
	writeField(&d, domainExtra, e.ID)
	return d.Sum64()
}

// sumTokens is XXH64 of the tokens as little-endian words.
func sumTokens(tokens []uint32) uint64 {
	if littleEndian() {
		return xxhash.Sum64(bytesOf(tokens))
	}
	var buf [4 * maxBlockTokens]byte
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(buf[4*i:], t)
	}
	return xxhash.Sum64(buf[:4*len(tokens)])
}

// bytesOf equals append(b, binary.NativeEndian.AppendUint32(nil, t)...) over all t. It
// is safe: the bytes are those of tokens' own array, exactly as many as the array has,
// a byte has no alignment to break, and callers only read them during their call.
func bytesOf(tokens []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), 4*len(tokens))
}

// appendChain appends the hashes of the full blocks of tokens, which follow parent and
// have no extras. The digests of blocks do not depend on each other, and the processor
// computes them beside each other; only the links wait for one another.
func (h Hasher) appendChain(hashes []BlockHash, parent BlockHash, tokens []uint32) []BlockHash {
	hashes = slices.Grow(hashes, len(tokens)/h.blockTokens)
	if !littleEndian() {
		for ; len(tokens) >= h.blockTokens; tokens = tokens[h.blockTokens:] {
			parent = h.Next(parent, tokens[:h.blockTokens], nil)
			hashes = append(hashes, parent)
		}
		return hashes
	}
	size := 4 * h.blockTokens
	for b := bytesOf(tokens); len(b) >= size; b = b[size:] {
		parent = nonzero(avalanche(uint64(parent)*mixBlock + xxhash.Sum64(b[:size])))
		hashes = append(hashes, parent)
	}
	return hashes
}

// littleEndian says whether memory holds words the way they are hashed. The
// compiler knows the answer.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// writeHead writes a domain and a number, in nine bytes.
func writeHead(d *xxhash.Digest, domain byte, n int) {
	var b [9]byte
	b[0] = domain
	binary.LittleEndian.PutUint64(b[1:], uint64(n))
	d.Write(b[:])
}

// writeField writes a string behind its domain and length, so that neither the
// border between two fields nor their meaning can be forged by their contents.
func writeField(d *xxhash.Digest, domain byte, s string) {
	writeHead(d, domain, len(s))
	d.WriteString(s)
}

// avalanche is XXH64's last step: a permutation in which every bit of x moves every
// bit of the result.
func avalanche(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xC2B2AE3D27D4EB4F
	x ^= x >> 29
	x *= 0x165667B19E3779F9
	x ^= x >> 32
	return x
}

// nonzero keeps zero free to mean "no block".
func nonzero(x uint64) BlockHash {
	if x == 0 {
		return mixBlock
	}
	return BlockHash(x)
}

// Hash returns the hash of the first n full blocks of p, of all of them if there are fewer,
// and 0 if there are none.
//
// O(tokens of them not hashed yet); allocates only to grow p. Not safe beside another use
// of p.
func (h Hasher) Hash(p *Prompt, n int) BlockHash {
	if n = min(n, p.blocks(h)); n <= 0 {
		return 0
	}
	return p.grow(h, n)[n-1]
}

// Hashes returns the hashes of all full blocks of p, computing those that are
// not known yet. The slice belongs to p and is valid until p's next Reset.
//
// O(tokens not hashed yet); allocates only to grow p. Not safe beside another
// use of p.
func (h Hasher) Hashes(p *Prompt) []BlockHash { return p.grow(h, p.blocks(h)) }
