package picker_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/scorer"
)

// Weights and options change while picks run: a new picker with the same ledger takes
// the old one's place. Requests in flight are released where they were counted.
func ExampleOptions_swap() {
	ledger, err := picker.NewLedger(picker.LedgerOptions{})
	if err != nil {
		panic(err)
	}
	options := picker.Options{Ledger: ledger}
	var current atomic.Pointer[picker.Picker]
	first, err := picker.New(options)
	if err != nil {
		panic(err)
	}
	current.Store(first)

	d, err := current.Load().Pick(&picker.Call{Candidates: []scorer.Candidate{{Endpoint: 1}}})
	if err != nil {
		panic(err)
	}

	options.Select.Temperature = 0.1
	second, err := picker.New(options)
	if err != nil {
		panic(err) // the old policy stays
	}
	current.Store(second)

	n, _ := ledger.InFlight(d.Endpoint)
	fmt.Println(n, "in flight")
	d.Done(picker.Outcome{})
	n, _ = ledger.InFlight(d.Endpoint)
	fmt.Println(n, "in flight")
	// Output:
	// 1 in flight
	// 0 in flight
}

func TestSwapWhilePicksRun(t *testing.T) {
	l := newLedger(t)
	var current atomic.Pointer[picker.Picker]
	current.Store(newPicker(t, picker.Options{Ledger: l}))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			call := picker.Call{Candidates: endpoints(4)}
			for range 300 {
				d, err := current.Load().Pick(&call)
				if err != nil {
					t.Error(err)
					return
				}
				d.Done(picker.Outcome{})
			}
		})
	}
	for i := range 20 {
		current.Store(newPicker(t, picker.Options{Ledger: l, Select: picker.Select{Band: float64(i) / 20}}))
	}
	wg.Wait()
	require.Zero(t, l.Stats().Open)
	require.Equal(t, uint64(1_200), l.Stats().Released)
}
