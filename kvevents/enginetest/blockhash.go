package enginetest

import "math/bits"

// Block hashes: h(i) = mix of h(i-1), the block's tokens and the scope's part
// in the block. vLLM takes SHA-256 over a per-process random root; here the
// function is a seeded chain of 64x64->128 bit multiplications folded to 64
// bits, because a simulator hashes billions of tokens and nobody attacks it.
// As in vLLM a hash means nothing outside the process life that made it.
const (
	foldKey    = 0x9e3779b97f4a7c15
	domAdapter = 0x61646170746572
	domSalt    = 0x73616c74
	domItem    = 0x6974656d
)

func fold(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^v, foldKey)
	return (bits.RotateLeft64(hi, 29) ^ lo) + foldKey
}

func foldString(h, domain uint64, s string) uint64 {
	h = fold(h, domain)
	h = fold(h, uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		h = fold(h, uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|
			uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56)
	}
	var tail uint64
	for i := range len(s) {
		tail |= uint64(s[i]) << (8 * i)
	}
	return fold(h, tail)
}

// blockHash is the hash of block number block, whose tokens are given, after
// the block hashed parent. It is never 0, which marks a block without a hash.
func blockHash(parent uint64, tokens []uint32, scope *Scope, block int) uint64 {
	h := parent
	n := len(tokens)
	for ; len(tokens) >= 2; tokens = tokens[2:] {
		h = fold(h, uint64(tokens[0])|uint64(tokens[1])<<32)
	}
	if len(tokens) == 1 {
		h = fold(h, uint64(tokens[0]))
	}
	if scope.Adapter != "" {
		h = foldString(h, domAdapter, scope.Adapter)
	}
	if scope.Salt != "" && block == 0 {
		h = foldString(h, domSalt, scope.Salt)
	}
	if len(scope.Items) > 0 {
		scope.itemsOf(block, n, func(id string, offset int) {
			h = fold(foldString(h, domItem, id), uint64(int64(offset)))
		})
	}
	h = fold(h, uint64(n)) // the last word must pass a multiplication too
	if h == 0 {
		h = 1
	}
	return h
}
