package prefixindex_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

// Add leaves out no field.
func TestStatsAdd(t *testing.T) {
	var one, two prefixindex.Stats
	for i := range reflect.TypeFor[prefixindex.Stats]().NumField() {
		n := reflect.ValueOf(i + 1)
		a, b := reflect.ValueOf(&one).Elem().Field(i), reflect.ValueOf(&two).Elem().Field(i)
		a.Set(n.Convert(a.Type()))
		b.Set(reflect.ValueOf(2 * (i + 1)).Convert(b.Type()))
	}
	sum := one
	sum.Add(&one)
	require.Equal(t, two, sum)
}

// TestStatsAtRestRebuildNothing asks again and again, as a page does.
func TestStatsAtRestRebuildNothing(t *testing.T) {
	f := newFixture(t, prefixindex.Options{})
	for i := range 400 { // shards with a few blocks each
		f.one(prefixindex.EngineHash(i+1), 0, uint32(i), 0, 0, 0)
		if i%3 > 0 {
			f.remove(prefixindex.TierGPU, prefixindex.EngineHash(i+1))
		}
	}
	f.ix.Stats()
	require.Zero(t, testing.AllocsPerRun(10, func() { f.ix.Stats() }))
}
