package picker_test

import (
	"fmt"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// A router's decision under test, with made-up candidates: no engine, no index, no
// clock.
func ExamplePicker_Pick_fakes() {
	pk, err := picker.New(picker.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	var rec picker.Record
	call := picker.Call{
		Request: scorer.Request{PromptTokens: 7_000},
		Candidates: []scorer.Candidate{
			{Cached: scorer.Holds(prefixindex.Held{GPU: 6_992})},
			{Cached: scorer.Holds(prefixindex.Held{})},
		},
		Record: &rec,
	}
	d, err := pk.Pick(&call)
	if err != nil {
		panic(err)
	}
	defer d.Done(picker.Outcome{})
	saved, _ := d.CachedTokens.Get()
	fmt.Println("candidate", d.Index, "saves", saved, "tokens")
}
