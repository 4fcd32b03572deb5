package latency

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	var l Histogram
	for ns := range 100_001 {
		l.Record(time.Duration(ns))
	}
	for _, p := range []float64{0.01, 0.1, 1, 50, 99, 100} {
		require.InEpsilon(t, p*1000, l.Percentile(p), 1./64)
	}
	for _, ns := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 1<<40 + 1} {
		require.LessOrEqual(t, lowest(bucket(ns)), float64(ns))
		require.Less(t, float64(ns), lowest(bucket(ns)+1))
	}
}
