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
