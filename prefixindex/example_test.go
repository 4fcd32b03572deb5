package prefixindex_test

import (
	"fmt"

	"github.com/warmroute/warmroute/prefixindex"
)

// An engine announces two blocks of a prompt; a longer prompt that begins with them
// is looked up.
func ExampleIndex() {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	if err != nil {
		panic(err)
	}
	ep, err := ix.Join("10.0.0.7:8000")
	if err != nil {
		panic(err)
	}
	w, err := ix.Writer(ep, 0)
	if err != nil {
		panic(err)
	}
	scope := prefixindex.Scope{Model: "llama"}
	err = w.Store(&prefixindex.Span{
		Hashes:      []prefixindex.EngineHash{101, 102}, // the engine's own names
		Tokens:      []uint32{1, 2, 3, 4, 5, 6, 7, 8},
		BlockTokens: 4,
		Scope:       scope,
	})
	if err != nil {
		panic(err)
	}

	var prompt prefixindex.Prompt
	var match prefixindex.Match
	prompt.Reset(scope, []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	ix.Match(&prompt, &match)
	fmt.Println("tokens cached:", match.Of(ep).GPU)

	err = w.Remove(&prefixindex.Removal{Hashes: []prefixindex.EngineHash{102}})
	if err != nil {
		panic(err)
	}
	ix.Match(&prompt, &match)
	fmt.Println("after an eviction:", match.Of(ep).GPU)

	// Output:
	// tokens cached: 8
	// after an eviction: 4
}
