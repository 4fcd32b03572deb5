package kvevents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// fixture is an index of blocks of 4 tokens, one endpoint, and an applier for it.
type fixture struct {
	*testing.T
	ix      *prefixindex.Index
	ep      prefixindex.Endpoint
	applier *kvevents.Applier
	decoder kvevents.Decoder
	batch   kvevents.Batch
}

func newFixture(t *testing.T, set ...func(*kvevents.ApplierOptions)) *fixture {
	t.Helper()
	return newFixtureOf(t, 4, set...)
}

func newFixtureOf(t *testing.T, blockTokens int, set ...func(*kvevents.ApplierOptions)) *fixture {
	t.Helper()
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: blockTokens})
	require.NoError(t, err)
	f := &fixture{T: t, ix: ix}
	f.ep, err = ix.Join("a")
	require.NoError(t, err)
	o := kvevents.ApplierOptions{Index: ix, Endpoint: f.ep, Model: "m"}
	for _, s := range set {
		s(&o)
	}
	f.applier, err = kvevents.NewApplier(o)
	require.NoError(t, err)
	return f
}

// apply decodes a batch of events and applies it.
func (f *fixture) apply(events ...any) {
	f.Helper()
	f.payload(batch(events...))
}

func (f *fixture) payload(payload []byte) {
	f.Helper()
	require.NoError(f, f.decoder.Decode(payload, &f.batch))
	require.NoError(f, f.applier.Apply(&f.batch))
}

// held returns how much of a prompt is held by the endpoint.
func (f *fixture) held(s prefixindex.Scope, tokens []uint32, extras ...prefixindex.Extra) prefixindex.Held {
	f.Helper()
	return heldBy(f.ix, f.ep, s, tokens, extras...)
}

func heldBy(ix *prefixindex.Index, ep prefixindex.Endpoint, s prefixindex.Scope, tokens []uint32, extras ...prefixindex.Extra) prefixindex.Held {
	var p prefixindex.Prompt
	var m prefixindex.Match
	p.Reset(s, tokens, extras...)
	ix.Match(&p, &m)
	return m.Of(ep)
}

// gpu is held for a text prompt of the base model, in tokens on GPU.
func (f *fixture) gpu(tokens []uint32) int {
	f.Helper()
	return f.held(base, tokens).GPU
}

var base = prefixindex.Scope{Model: "m"}
