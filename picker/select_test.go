package picker_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/scorer"
)

func TestSelectNamesTheField(t *testing.T) {
	nan := math.NaN()
	for want, s := range map[string]picker.Select{
		"Select.Temperature is -1":   {Temperature: -1},
		"Select.Temperature is NaN":  {Temperature: nan},
		"Select.Temperature is +Inf": {Temperature: math.Inf(1)},
		"Select.MaxRatio is 0.5":     {MaxRatio: 0.5},
		"Select.MaxRatio is NaN":     {MaxRatio: nan},
		"Select.MaxRatio is +Inf":    {MaxRatio: math.Inf(1)},
		"Select.Bound is 0.9":        {Bound: 0.9},
		"Select.Bound is NaN":        {Bound: nan},
		"Select.Bound is +Inf":       {Bound: math.Inf(1)},
		"Select.Band is -Inf":        {Band: math.Inf(-1)},
		"Select.HomeBand is 2":       {HomeBand: 2},
		"Select.BoundFloor is -1":    {BoundFloor: -1},
	} {
		_, err := picker.New(picker.Options{Select: s})
		require.ErrorContains(t, err, want)
	}
}

// drawn returns how often each candidate won n picks that end at once.
func drawn(t *testing.T, o picker.Options, candidates, n int) []int {
	pk := newPicker(t, o)
	count := make([]int, candidates)
	call := picker.Call{Candidates: endpoints(candidates)}
	for range n {
		d, err := pk.Pick(&call)
		require.NoError(t, err)
		d.Done(picker.Outcome{})
		count[d.Index]++
	}
	return count
}

// Shares of 9,000 draws are as the exponentials say, within 200: more than 4 standard
// deviations.
func TestTemperature(t *testing.T) {
	for name, c := range map[string]struct {
		s    picker.Select
		want [3]float64 // of sums 1, 0.9, 0
	}{
		"0.1":                {picker.Select{Temperature: 0.1}, [3]float64{1, math.Exp(-1), math.Exp(-10)}},
		"1":                  {picker.Select{Temperature: 1}, [3]float64{1, math.Exp(-0.1), math.Exp(-1)}},
		"ratio of at most 3": {picker.Select{Temperature: 0.1, MaxRatio: 3}, [3]float64{1, math.Exp(-1), 1.0 / 3}},
		"ratio of 1 is even": {picker.Select{Temperature: 0.1, MaxRatio: 1}, [3]float64{1, 1, 1}},
		"all but zero":       {picker.Select{Temperature: math.SmallestNonzeroFloat64}, [3]float64{1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			count := drawn(t, picker.Options{Scorers: only(1, 0.9, 0), Select: c.s}, 3, 9_000)
			total := c.want[0] + c.want[1] + c.want[2]
			for i, n := range count {
				require.InDelta(t, 9_000*c.want[i]/total, n, 200, "%v", count)
			}
		})
	}
}

func TestTemperatureReplays(t *testing.T) {
	pk := newPicker(t, picker.Options{Scorers: only(0.5, 0.6, 0.7, 0.8), Select: picker.Select{Temperature: 0.3, Bound: 1}})
	var rec picker.Record
	for range 200 {
		d, err := pk.Pick(&picker.Call{Candidates: endpoints(4), Record: &rec})
		require.NoError(t, err)
		winner, err := pk.Replay(&rec)
		require.NoError(t, err)
		require.Equal(t, d.Index, winner)
		require.GreaterOrEqual(t, d.Margin, 0.0)
	}
}

// loaded makes candidates with that many requests in flight.
func loaded(loads ...float64) []scorer.Candidate {
	cs := endpoints(len(loads))
	for i, n := range loads {
		cs[i].InFlight.Requests = scorer.Known(n)
	}
	return cs
}

// An affinity ends where its owner has much more than its share, and only there: what
// is within the bound goes by score.
func TestBoundedLoad(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		s         picker.Select
		loads     []float64
		scores    []float64
		want      int
		fallbacks []int
	}{
		"the pinned one is saturated":       {picker.Select{Bound: 1.25}, []float64{30, 5, 4, 6}, []float64{1, 0.1, 0.2, 0.3}, 3, []int{2, 1, 0}},
		"near the least the prefix decides": {picker.Select{Bound: 1.25}, []float64{10, 11, 30}, []float64{0.1, 0.9, 1}, 1, []int{0, 2}},
		"below the floor there is no bound": {picker.Select{Bound: 1.25}, []float64{4, 0, 0}, []float64{1, 0, 0}, 0, []int{1, 2}},
		"a floor of one's own":              {picker.Select{Bound: 1.25, BoundFloor: 20}, []float64{20, 0, 0}, []float64{1, 0, 0}, 0, nil},
		"equal loads":                       {picker.Select{Bound: 1}, []float64{10.1, 10.1, 10.1, 10.1, 10.1, 10.1, 10.1}, []float64{0, 0, 0, 1, 0, 0, 0}, 3, nil},
		"load tier first, then prefix":      {picker.Select{Bound: 1.25}, []float64{2, 3, 9}, []float64{0, 0.2, 1}, 1, []int{0, 2}},
		"huge":                              {picker.Select{Bound: 1.25}, []float64{math.MaxFloat64, math.MaxFloat64, 0}, []float64{1, 0, 0}, 0, nil},
		"nobody counts":                     {picker.Select{Bound: 1.25}, []float64{nan, nan}, []float64{0, 1}, 1, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			pk := newPicker(t, picker.Options{Scorers: only(c.scores...), Select: c.s})
			cs := loaded(c.loads...)
			for i := range cs {
				if math.IsNaN(c.loads[i]) {
					cs[i].Endpoint = 0
				}
			}
			var rec picker.Record
			d, err := pk.Pick(&picker.Call{Candidates: cs, Record: &rec})
			require.NoError(t, err)
			require.Equal(t, c.want, d.Index, rec.Explain())
			for k, want := range c.fallbacks {
				f, ok := d.Fallback(k)
				require.True(t, ok)
				require.Equal(t, want, f.Index, "fallback %d", k)
			}
			winner, err := pk.Replay(&rec)
			require.NoError(t, err)
			require.Equal(t, d.Index, winner)
		})
	}
}

func TestBoundIsRecordedAndCounted(t *testing.T) {
	pk := newPicker(t, picker.Options{Scorers: only(1, 0, 0), Select: picker.Select{Bound: 1.25}})
	var rec picker.Record
	_, err := pk.Pick(&picker.Call{Candidates: loaded(40, 1, 1), Record: &rec})
	require.NoError(t, err)
	require.Equal(t, "over bound", rec.Candidates[0].Verdict)
	require.Equal(t, 1.0, rec.Candidates[0].Sum)
	require.Equal(t, uint64(1), pk.Stats().Bounded)
}

// A floor that a whole burst stays below does not herd it: the load is counted, and the
// sums see it.
func TestBurstWithABound(t *testing.T) {
	pk := newPicker(t, picker.Options{Scorers: only(1, 0, 0, 0, 0, 0, 0, 0), Select: picker.Select{Bound: 1.25}})
	var count [8]int
	for range 64 {
		d, err := pk.Pick(&picker.Call{Candidates: endpoints(8)})
		require.NoError(t, err)
		count[d.Index]++
	}
	for i, n := range count { // ceil(1.25 * 8) + 1
		require.LessOrEqual(t, n, 11, "endpoint %d of %v", i, count)
	}
}
