package debugview

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/metrics"
)

// ErrOptions means that an option is missing or out of its range. The message names it,
// its value and the range.
var ErrOptions = errors.New("debugview: invalid option")

// Options configures a View. Sources is required.
type Options struct {
	// Sources returns what there is to be seen. It is called for each page that is
	// served, by many goroutines at once.
	Sources func() metrics.Sources

	// Decisions is how many are kept, 1 to 65,536; 0: 512. MaxBytes is for how much
	// memory, 64 KiB to 1 GiB; 0: 32 MiB. One among 64 candidates takes about 26 kB.
	Decisions int
	MaxBytes  int

	// PerSecond is how many picks are recorded in a second, of all pickers together; the
	// others are counted only. 0: 100; negative: all. Recording a pick costs about as much
	// again as the pick.
	PerSecond int

	Clock func() time.Time // nil: time.Now
}

func (o *Options) validate() error {
	if o.Decisions == 0 {
		o.Decisions = 512
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 32 << 20
	}
	if o.PerSecond == 0 {
		o.PerSecond = 100
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	switch {
	case o.Sources == nil:
		return fmt.Errorf("%w: Sources is nil", ErrOptions)
	case o.Decisions < 1 || o.Decisions > 1<<16:
		return fmt.Errorf("%w: Decisions is %d; it must be 1 to 65,536", ErrOptions, o.Decisions)
	case o.MaxBytes < 64<<10 || o.MaxBytes > 1<<30:
		return fmt.Errorf("%w: MaxBytes is %d; it must be 65,536 to 1,073,741,824", ErrOptions, o.MaxBytes)
	}
	return nil
}

// View remembers what pickers did, and is the http.Handler that shows it. Its methods
// are safe for concurrent use.
type View struct {
	o   Options
	mux *http.ServeMux

	mu      sync.Mutex // over all below
	second  int64      // of the clock, in which so many picks were recorded
	inIt    int
	kept    decisions
	history history
	served  served
	passed  uint64 // picks that were not recorded
}

// New returns a view. The error is ErrOptions.
func New(o Options) (*View, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	v := &View{o: o, kept: decisions{ring: make([]slot, o.Decisions), maxBytes: o.MaxBytes}}
	var err error
	v.mux, err = v.routes()
	return v, err
}

// Observer returns what the picker of that name is to be given in its Options.Observers.
// The name is the picker's in [metrics.Sources].
//
// O(1). What it adds to a pick and its end is a lock and no allocation, and to one that
// is recorded the record and a copy of it.
func (v *View) Observer(name string) picker.Observer { return &observer{v, name} }

// observer watches one picker.
type observer struct {
	v    *View
	name string
}

// WantsRecord implements picker.RecordObserver.
func (o *observer) WantsRecord() bool {
	v := o.v
	if v.o.PerSecond < 0 {
		return true
	}
	second := v.o.Clock().Unix()
	v.mu.Lock()
	defer v.mu.Unlock()
	if second != v.second {
		v.second, v.inIt = second, 0
	}
	v.inIt++
	return v.inIt <= v.o.PerSecond
}

// OnPick implements picker.PickObserver.
func (o *observer) OnPick(e picker.PickEvent) {
	v := o.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.Call.Record == nil {
		v.passed++
		return
	}
	v.kept.add(o, &e)
}

// OnDone implements picker.DoneObserver.
func (o *observer) OnDone(e picker.DoneEvent) {
	v := o.v
	now := v.o.Clock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.history.add(now, &e)
	if r := e.Outcome.Result; r == picker.OK || r == picker.Unsaid {
		v.served.note(e.Endpoint, now)
	}
	if d := v.kept.find(o, e.Decision.Pick); d != nil {
		d.done, d.end = true, e
	}
}
