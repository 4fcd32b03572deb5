package prefixindex

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

// NewHasher returns a hasher of blocks of blockTokens tokens, 4 to 1,024; other
// sizes are an error. Processes that exchange hashes give the same seed.
//
// O(1).
func NewHasher(blockTokens int, seed uint64) (Hasher, error) {
	return Hasher{}, errUnbuilt
}

// BlockTokens returns the number of tokens in a block. O(1).
func (h Hasher) BlockTokens() int { return h.blockTokens }

// Seed returns the seed. O(1).
func (h Hasher) Seed() uint64 { return h.seed }

// Root returns the parent of a scope's first block.
//
// O(bytes of s), no allocation, safe for concurrent use.
func (h Hasher) Root(s Scope) BlockHash { return 0 }

// Next returns the hash of the block of BlockTokens tokens that follows parent.
// extras are those that begin in the block, in order of position; their At is
// not hashed. Any other number of tokens gives a hash that no block has.
//
// O(BlockTokens), no allocation, safe for concurrent use. The arguments are not
// kept.
func (h Hasher) Next(parent BlockHash, tokens []uint32, extras []Extra) BlockHash { return 0 }

// Hashes returns the hashes of all full blocks of p, computing those that are
// not known yet. The slice belongs to p and is valid until p's next Reset.
//
// O(tokens not hashed yet); allocates only to grow p. Not safe beside another
// use of p.
func (h Hasher) Hashes(p *Prompt) []BlockHash { return nil }
