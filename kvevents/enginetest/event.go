package enginetest

// Kind says what an Event reports.
type Kind uint8

// The kinds are vLLM's three events.
const (
	Stored  Kind = iota + 1 // blocks became usable for later prompts
	Removed                 // one physical copy of each named block is gone
	Cleared                 // the cache was reset: nothing is left
)

// Event is one change of a pool's cached content. Its slices and Scope belong
// to the pool and are valid until the callback returns.
type Event struct {
	Kind   Kind
	Hashes []uint64 // Stored: consecutive blocks of one chain; Removed: one block from a Pool
	Medium string   // where the copies live; "" is "GPU", the only one a Pool has

	// Of Stored only.
	Parent      uint64 // hash of the block before Hashes[0]
	HasParent   bool   // false: Hashes[0] begins its chain
	First       int    // index of Hashes[0] in its chain
	Tokens      []uint32
	BlockTokens int
	Scope       *Scope // nil is the zero Scope
}
