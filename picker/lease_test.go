package picker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/scorer"
)

// clock is a clock that tests set.
type clock struct{ now time.Time }

func newClock() *clock                   { return &clock{time.Unix(1_000_000, 0)} }
func (c *clock) time() time.Time         { return c.now }
func (c *clock) forward(d time.Duration) { c.now = c.now.Add(d) }

// A request of six minutes, or of a day, is load all the while.
func TestLongRequestStaysCounted(t *testing.T) {
	l, c := newLedger(t), newClock()
	pk := newPicker(t, picker.Options{Ledger: l, Clock: c.time})
	long := send(t, pk, 1, 1_000)
	for _, d := range []time.Duration{6 * time.Minute, 24 * time.Hour} {
		c.forward(d)
		send(t, pk, 2, 10).Done(picker.Outcome{})
		inFlight(t, l, 1, 1, 1_000)
	}
	long.Done(picker.Outcome{})
	inFlight(t, l, 1, 0, 0)
}

func TestLeases(t *testing.T) {
	l, err := picker.NewLedger(picker.LedgerOptions{Lease: time.Minute})
	require.NoError(t, err)
	c := newClock()
	pk := newPicker(t, picker.Options{Ledger: l, Clock: c.time})
	forgotten := send(t, pk, 1, 100)
	c.forward(10 * time.Second)
	renewed := send(t, pk, 1, 100)
	began := send(t, pk, 1, 100)
	done := send(t, pk, 1, 100)
	done.Done(picker.Outcome{})
	inFlight(t, l, 1, 3, 300)

	c.forward(45 * time.Second)
	renewed.Renew()
	began.FirstToken()
	inFlight(t, l, 1, 3, 200)
	c.forward(10 * time.Second) // 65 s after the first, 10 s after the others were renewed
	last := send(t, pk, 2, 100)
	inFlight(t, l, 1, 2, 100)
	require.Equal(t, uint64(1), l.Stats().Expired)

	forgotten.Done(picker.Outcome{}) // too late, and it hits nobody else
	forgotten.Renew()
	forgotten.Moved(2)
	inFlight(t, l, 1, 2, 100)
	require.Equal(t, uint64(1), l.Stats().DoubleRelease)

	c.forward(55 * time.Second)
	last.Done(picker.Outcome{})
	inFlight(t, l, 1, 0, 0)
	c.forward(time.Hour)
	send(t, pk, 2, 100).Done(picker.Outcome{})
	s := l.Stats()
	require.Equal(t, uint64(3), s.Expired)
	require.Zero(t, s.Open)
}

func TestNewLedgerRefusesANegativeLease(t *testing.T) {
	_, err := picker.NewLedger(picker.LedgerOptions{Lease: -time.Second})
	require.ErrorContains(t, err, "LedgerOptions.Lease is -1s")
}

// The memory of a ledger is that of the requests open at once.
func TestLedgerReusesTickets(t *testing.T) {
	l, err := picker.NewLedger(picker.LedgerOptions{Lease: time.Minute})
	require.NoError(t, err)
	pk := newPicker(t, picker.Options{Ledger: l})
	call := picker.Call{Candidates: endpoints(3), Request: scorer.Request{PromptTokens: 100}}
	warm := func() {
		var open [20]picker.Decision
		for i := range open {
			d, err := pk.Pick(&call)
			if err != nil {
				t.Fatal(err)
			}
			open[i] = d
		}
		for _, d := range open {
			d.Renew()
			d.Done(picker.Outcome{})
		}
	}
	warm()
	require.Zero(t, testing.AllocsPerRun(50, warm))
}
