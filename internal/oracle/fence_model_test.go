package oracle_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// The model of the fences. Porcupine is given what concurrent callers asked and were
// told, and looks for an order of it, each step somewhere between its call and its
// return, in which the model gives the same answers.
//
// Owners of different endpoints, generations or ranks share nothing that may show, nor
// does the table of names. Each is a history of its own, which keeps the search short.

// part is what a history is of: one rank of one generation, or, with only a name, who
// has that name.
type part struct {
	name     string
	endpoint prefixindex.Endpoint
	rank     int
}

// call is the input of an operation: its answer is part of the step.
type call struct {
	of   part
	step fmt.Stringer // a step[owner] or a step[member]
}

// step is one effect of a call or one answer to it. It returns the state after it, and
// whether it can happen in s.
type step[S any] interface {
	from(s S) (S, bool)
}

// owner is the state of one rank of one generation of an endpoint.
type owner struct {
	writer int           // whose writes are taken; 0: nobody's
	held   [chains]uint8 // what lookups find: the blocks of each chain, a bit each
	left   bool
}

const chains = 2

// To end an epoch takes two steps: fenced, from which on its Writer is refused, and left
// or opened, from which on lookups find nothing of it. Both are over when the call has
// returned, and not before: a caller who overlaps it may meet the one without the other.
type (
	fenced  struct{}
	left    struct{}
	opened  struct{ writer int }
	refused struct{} // no Writer for who has left
	stored  struct{ writer, chain, block int }
	cleared struct{ writer int }
	late    struct{ writer int }        // ErrFenced
	read    struct{ chain, blocks int } // a lookup's answer
)

func (fenced) from(o owner) (owner, bool) {
	o.writer = 0
	return o, true
}

func (left) from(owner) (owner, bool)        { return owner{left: true}, true }
func (s opened) from(o owner) (owner, bool)  { return owner{writer: s.writer}, !o.left }
func (refused) from(o owner) (owner, bool)   { return o, o.left }
func (s late) from(o owner) (owner, bool)    { return o, o.writer != s.writer }
func (s cleared) from(o owner) (owner, bool) { return owner{writer: s.writer}, o.writer == s.writer }

func (s stored) from(o owner) (owner, bool) {
	o.held[s.chain] |= 1 << s.block
	return o, o.writer == s.writer
}

func (s read) from(o owner) (owner, bool) {
	return o, s.blocks == bits.TrailingZeros8(^o.held[s.chain])
}

// member is who has a name.
type member struct{ endpoint, before prefixindex.Endpoint }

type (
	joined   struct{ endpoint prefixindex.Endpoint }
	departed struct{ endpoint prefixindex.Endpoint }
	found    struct{ endpoint prefixindex.Endpoint } // 0: nobody
)

func (s joined) from(m member) (member, bool) {
	if m.endpoint != 0 {
		return m, s.endpoint == m.endpoint
	}
	return member{endpoint: s.endpoint}, s.endpoint != 0 && s.endpoint != m.before
}

func (s departed) from(m member) (member, bool) {
	if m.endpoint == s.endpoint {
		m = member{before: s.endpoint}
	}
	return m, true
}

func (s found) from(m member) (member, bool) { return m, m.endpoint == s.endpoint }

func (fenced) String() string    { return "fenced" }
func (left) String() string      { return "left" }
func (refused) String() string   { return "no writer" }
func (s opened) String() string  { return fmt.Sprint("writer ", s.writer) }
func (s late) String() string    { return fmt.Sprint("late ", s.writer) }
func (s cleared) String() string { return fmt.Sprint("cleared ", s.writer) }
func (s stored) String() string {
	return fmt.Sprint("stored ", s.writer, " chain ", s.chain, " block ", s.block)
}
func (s read) String() string     { return fmt.Sprint("read chain ", s.chain, ": ", s.blocks) }
func (s joined) String() string   { return fmt.Sprintf("joined as %#x", s.endpoint) }
func (s departed) String() string { return fmt.Sprintf("departed %#x", s.endpoint) }
func (s found) String() string    { return fmt.Sprintf("found %#x", s.endpoint) }

// check looks for an order of a history that begins with the zero S, part by part. It
// returns a part that has none, or nil. A part has a minute, and needs milliseconds.
func check[S comparable](history []porcupine.Operation) []porcupine.Operation {
	model := porcupine.Model{
		Init: func() any {
			var zero S
			return zero
		},
		Step: func(state, input, _ any) (bool, any) {
			next, ok := input.(call).step.(step[S]).from(state.(S))
			return ok, next
		},
	}
	parts := map[part][]porcupine.Operation{}
	for _, op := range history {
		of := op.Input.(call).of
		parts[of] = append(parts[of], op)
	}
	for _, ops := range parts {
		if porcupine.CheckOperationsTimeout(model, ops, time.Minute) != porcupine.Ok {
			return ops
		}
	}
	return nil
}

// requireOrder fails with the part that has none.
func requireOrder[S comparable](t *testing.T, history []porcupine.Operation) {
	t.Helper()
	ops := check[S](history)
	if ops == nil {
		return
	}
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var s strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&s, "%d to %d: client %d: %v\n", op.Call, op.Return, op.ClientId, op.Input.(call).step)
	}
	t.Fatalf("no order explains the history of %+v:\n%s", ops[0].Input.(call).of, s.String())
}

func TestFenceModel(t *testing.T) {
	at := func(from, to int64, steps ...fmt.Stringer) (ops []porcupine.Operation) {
		for _, s := range steps {
			ops = append(ops, porcupine.Operation{Call: from, Return: to, Input: call{step: s}})
		}
		return ops
	}
	type history = [][]porcupine.Operation
	stored1 := history{at(1, 2, fenced{}, opened{1}), at(3, 4, stored{1, 0, 0}, stored{1, 0, 1})}
	for _, c := range []struct {
		name    string
		history history
		legal   bool
	}{
		{"what was stored is found", history{at(5, 6, read{0, 2}), at(5, 6, read{1, 0})}, true},
		{"what was stored is not found", history{at(5, 6, read{0, 1})}, false},
		{"more than was stored is found", history{at(5, 6, read{0, 3})}, false},
		{"lookup after Leave", history{at(5, 6, fenced{}, left{}), at(7, 8, read{0, 2})}, false},
		{"lookup beside Leave", history{at(5, 8, fenced{}, left{}), at(6, 7, read{0, 2})}, true},
		{"lookups beside Leave disagree with time", history{at(5, 10, fenced{}, left{}), at(6, 7, read{0, 0}), at(8, 9, read{0, 2})}, false},
		{"lookup after a newer Writer", history{at(5, 6, fenced{}, opened{2}), at(7, 8, read{0, 2})}, false},
		{"one block of the epoch before", history{at(5, 6, fenced{}, opened{2}), at(7, 8, stored{2, 1, 0}), at(9, 10, read{0, 1})}, false},
		{"the newer epoch's own", history{at(5, 6, fenced{}, opened{2}), at(7, 8, stored{2, 0, 0}), at(9, 10, read{0, 1})}, true},
		{"lookup after Clear", history{at(5, 6, cleared{1}), at(7, 8, read{0, 2})}, false},
		{"late write taken", history{at(5, 6, fenced{}, opened{2}), at(7, 8, stored{1, 0, 2})}, false},
		{"late write taken after Leave", history{at(5, 6, fenced{}, left{}), at(7, 8, stored{1, 0, 2})}, false},
		{"late clear taken", history{at(5, 6, fenced{}, opened{2}), at(7, 8, cleared{1})}, false},
		{"late write refused", history{at(5, 6, fenced{}, opened{2}), at(7, 8, late{1}), at(9, 10, read{0, 0})}, true},
		{"write refused without a fence", history{at(5, 6, late{1})}, false},
		{"write taken beside a fence", history{at(5, 8, fenced{}, opened{2}), at(6, 7, stored{1, 0, 2}), at(9, 10, read{0, 0})}, true},
		{"write refused beside a fence, old epoch found", history{at(5, 10, fenced{}, opened{2}), at(6, 7, late{1}), at(8, 9, read{0, 2})}, true},
		{"write taken beside a fence shows after it", history{at(5, 8, fenced{}, opened{2}), at(6, 7, stored{1, 0, 2}), at(9, 10, read{0, 3})}, false},
		{"two fences at once, both Writers write", history{at(5, 8, fenced{}, opened{2}), at(6, 7, fenced{}, opened{3}), at(9, 10, stored{2, 0, 0}), at(11, 12, stored{3, 0, 0})}, false},
		{"Writer after Leave", history{at(5, 6, fenced{}, left{}), at(7, 8, fenced{}, opened{2})}, false},
		{"no Writer for a member", history{at(5, 6, refused{})}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []porcupine.Operation
			for _, ops := range append(stored1[:2:2], c.history...) {
				all = append(all, ops...)
			}
			require.Equal(t, c.legal, check[owner](all) == nil)
		})
	}
	for _, c := range []struct {
		name    string
		history history
		legal   bool
	}{
		{"joins again, found", history{at(3, 4, joined{7}), at(5, 6, found{7})}, true},
		{"joins again as another", history{at(3, 4, joined{8})}, false},
		{"found after Leave", history{at(3, 4, departed{7}), at(5, 6, found{7})}, false},
		{"later generation has the old handle", history{at(3, 4, departed{7}), at(5, 6, joined{7})}, false},
		{"old handle leaves again", history{at(3, 4, departed{7}), at(5, 6, joined{8}), at(7, 8, departed{7}), at(9, 10, found{8})}, true},
		{"old handle takes the new one along", history{at(3, 4, departed{7}), at(5, 6, joined{8}), at(7, 8, departed{7}), at(9, 10, found{0})}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := at(1, 2, joined{7})
			for _, ops := range c.history {
				all = append(all, ops...)
			}
			require.Equal(t, c.legal, check[member](all) == nil)
		})
	}
}
