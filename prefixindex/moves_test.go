//go:build invariants

package prefixindex

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFindBesideMove has records come and go after a search has read a key.
func TestFindBesideMove(t *testing.T) {
	const (
		a, b, c = 1 << 8, 2 << 8, 3 << 8 // all begin their search at the same record
	)
	for _, x := range []struct {
		name   string
		before []uint64 // slot 1 for the first, and so on
		find   uint64
		meet   func(r *records)
		want   uint64
	}{
		{"a record moves to where the key was", []uint64{a, b}, a, func(r *records) {
			r.unset(a, 0)
		}, 0},
		{"a record comes where the key was", []uint64{a}, a, func(r *records) {
			r.unset(a, 0)
			r.set(b, 7)
		}, 0},
		{"the record moves to where the search has been", []uint64{a, b}, b, func(r *records) {
			r.unset(a, 0)
		}, 2},
		{"the record moves, and another takes its place", []uint64{a, b}, b, func(r *records) {
			r.unset(a, 0)
			r.set(c, 7)
		}, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			var r records
			r.init()
			for i := range uint64(6) {
				r.set((8-i)<<53, 0) // makes room in the table
			}
			for i, hash := range x.before {
				r.set(hash, uint32(i))
			}
			met := false
			hook := func(where string) {
				if where == "record: key read" && !met {
					met = true
					x.meet(&r)
				}
			}
			atYield.Store(&hook)
			defer atYield.Store(nil)
			require.Equal(t, x.want, r.table(x.find).find(x.find))
			require.True(t, met)
		})
	}
}
