package picker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// homes is eight idle endpoints that all hold the first 4,000 tokens of a prompt.
type homes struct {
	ix     *prefixindex.Index
	ledger *picker.Ledger
	call   picker.Call
	prompt prefixindex.Prompt
}

func newHomes(t *testing.T, first uint32) *homes {
	t.Helper()
	h := &homes{ledger: newLedger(t)}
	var err error
	h.ix, err = prefixindex.New(prefixindex.Options{Seed: 1})
	require.NoError(t, err)
	tokens := make([]uint32, 4_800)
	tokens[0] = first
	h.prompt.Reset(prefixindex.Scope{Model: "m"}, tokens)
	h.call.Prompt, h.call.Record = &h.prompt, new(picker.Record)
	for i := range 8 {
		e, err := h.ix.Join(fmt.Sprint(i))
		require.NoError(t, err)
		require.NoError(t, h.ix.Insert(e, 0, &h.prompt, 250))
		h.call.Candidates = append(h.call.Candidates, scorer.Candidate{Endpoint: e, Signals: idle()})
	}
	return h
}

func (h *homes) pick(t *testing.T, seed uint64) picker.Decision {
	t.Helper()
	pk := newPicker(t, picker.Options{Index: h.ix, Ledger: h.ledger, Seed: seed})
	d, err := pk.Pick(&h.call)
	require.NoError(t, err)
	winner, err := pk.Replay(h.call.Record)
	require.NoError(t, err)
	require.Equal(t, d.Index, winner)
	return d
}

// A prefix that all hold goes to one place while that keeps up, whoever asks, in whatever
// order they are offered; then to a second beside it.
func TestPrefixHasHomes(t *testing.T) {
	h := newHomes(t, 1)
	first := h.pick(t, 1)
	require.Contains(t, h.call.Record.Explain(), "in its prefix's order the first of 8 ")
	first.Done(picker.Outcome{})
	pk := newPicker(t, picker.Options{Index: h.ix, Ledger: h.ledger})
	d, err := pk.Pick(&h.call)
	require.NoError(t, err)
	d.Done(picker.Outcome{})
	require.Equal(t, uint64(1), pk.Stats().Homes)
	require.Zero(t, pk.Stats().Ties)
	for seed := range uint64(20) {
		cs := h.call.Candidates
		cs[0], cs[1+seed%7] = cs[1+seed%7], cs[0]
		d := h.pick(t, seed+2)
		require.Equal(t, first.Endpoint, d.Endpoint)
		d.Done(picker.Outcome{})
	}
	seen := map[prefixindex.Endpoint]int{}
	for range 6 {
		seen[h.pick(t, 1).Endpoint]++
	}
	require.Len(t, seen, 3, "two each: one that computes and one behind it")
}

// Different prefixes have different homes: of 64, each of 8 endpoints has some.
func TestHomesSpread(t *testing.T) {
	count := map[int]int{}
	for n := range uint32(64) {
		count[newHomes(t, n).pick(t, 1).Index]++
	}
	require.Len(t, count, 8)
}

// What is cached of it is a small part, such as a chat template: by chance.
func TestShortPrefixHasNoHome(t *testing.T) {
	h := newHomes(t, 1)
	tokens := make([]uint32, 9_000)
	tokens[0] = 1
	h.prompt.Reset(prefixindex.Scope{Model: "m"}, tokens)
	count := map[int]int{}
	for seed := range uint64(64) {
		d := h.pick(t, seed+1)
		count[d.Index]++
		d.Done(picker.Outcome{})
	}
	require.Len(t, count, 8)
}
