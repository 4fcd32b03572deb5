package picker

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/prefixindex"
)

// Observer is told what a picker does, for histograms and traces. It has one method or
// more of [PickObserver], [DoneObserver] and [ViewObserver], and may also be a
// [RecordObserver]; others will be added.
//
// Observers are called on the caller's goroutine, outside any lock, by many goroutines
// at once. What they take is added to the pick. A picker without observers spends
// nothing on them.
type Observer any

// PickObserver is told of each pick.
type PickObserver interface{ OnPick(e PickEvent) }

// PickEvent is one pick.
type PickEvent struct {
	Call     *Call // as the host gave it, and its Match and Record; valid during OnPick, and read-only
	Decision Decision
	Err      error

	Prepare time.Duration // looking up the match and reading the candidates
	Decide  time.Duration // waiting for the lock, and choosing
}

// RecordObserver is a PickObserver that reads the records of picks, some or all of them,
// whether or not the host asks for them.
type RecordObserver interface {
	PickObserver

	// WantsRecord reports whether to record the pick that begins now. If so, its Call
	// has a Record when OnPick is called, the host's or one that is reused.
	WantsRecord() bool
}

// DoneObserver is told of the first Decision.Done of each pick; where the host counts,
// of each call.
type DoneObserver interface{ OnDone(e DoneEvent) }

// DoneEvent is the end of a request.
type DoneEvent struct {
	Decision Decision
	Outcome  Outcome
	Endpoint prefixindex.Endpoint // where it was; zero: it was moved to nobody known

	FirstToken time.Duration // from the pick to FirstToken; 0 if that was not called
	Total      time.Duration // from the pick to Done
}

// ViewObserver is told when the picture of a cache is trusted more or less than at the
// picker's pick before: an engine was silent for too long, events were lost, or it is
// heard again.
//
// It is the picks that look, at their candidates: a change that comes and goes between
// two picks is not seen, and a router without traffic hears nothing. What must be noticed
// at any time is in the Stats of the subscribers. Ranks are looked at from 0 on, up to the
// first that was never heard of; one beyond is seen once it is the best for a prompt.
type ViewObserver interface{ OnView(e ViewEvent) }

// ViewEvent is a change of one owner's view.
type ViewEvent struct {
	Endpoint prefixindex.Endpoint
	Name     string
	Rank     int
	From, To prefixindex.View
}

// observers are sorted by what they want to know.
type observers struct {
	pick    []PickObserver
	record  []RecordObserver
	ended   []DoneObserver
	view    []ViewObserver
	watched []watched // by endpoint slot; guarded by the ledger's lock
}

// watched is what the views of an endpoint were at the last pick, by rank.
type watched struct {
	endpoint prefixindex.Endpoint
	views    []prefixindex.View
}

func newObservers(list []Observer) (observers, error) {
	var o observers
	for i, one := range list {
		if isNil(one) {
			return observers{}, fmt.Errorf("%w: Options.Observers[%d] is nil", ErrOptions, i)
		}
		pick, isPick := one.(PickObserver)
		ended, isDone := one.(DoneObserver)
		view, isView := one.(ViewObserver)
		if record, is := one.(RecordObserver); is {
			o.record = append(o.record, record)
		}
		if isPick {
			o.pick = append(o.pick, pick)
		}
		if isDone {
			o.ended = append(o.ended, ended)
		}
		if isView {
			o.view = append(o.view, view)
		}
		if !isPick && !isDone && !isView {
			return observers{}, fmt.Errorf("%w: Options.Observers[%d] is a %T; it must have OnPick, OnDone or OnView",
				ErrOptions, i, one)
		}
	}
	return o, nil
}

// none reports whether picks have nobody to tell.
func (o *observers) none() bool { return len(o.pick) == 0 && len(o.view) == 0 }

// wantRecord reports whether anyone wants a record of the pick that begins.
func (o *observers) wantRecord() (wanted bool) {
	for _, one := range o.record {
		wanted = one.WantsRecord() || wanted // each is asked, since it may count
	}
	return wanted
}

func (o *observers) done(e DoneEvent) {
	for _, one := range o.ended {
		one.OnDone(e)
	}
}

// observed is the rest of a pick that somebody watches.
func (p *Picker) observed(c *Call, d *Decision) error {
	if c.Record == nil && p.observers.wantRecord() {
		c.Record = &c.record
		defer func() { c.Record = nil }()
		p.begin(c.Record, &c.sheet)
	}
	prepared := p.clock()
	err := p.settle(c, d)
	told := false
	defer func() {
		if !told && d.ticket != 0 { // an observer panics: the caller gets no decision to release
			p.ledger.release(d.ticket, &Outcome{Result: Canceled}, prepared)
		}
	}()
	e := PickEvent{
		Call: c, Decision: *d, Err: err,
		Prepare: prepared.Sub(c.sheet.in.Now),
		Decide:  p.clock().Sub(prepared),
	}
	for _, one := range p.observers.pick {
		one.OnPick(e)
	}
	if len(p.observers.view) > 0 && p.index != nil {
		for _, change := range p.changes(c) {
			for _, one := range p.observers.view {
				one.OnView(change)
			}
		}
	}
	told = true
	return err
}

// changes returns the views of candidates that differ from the pick before.
func (p *Picker) changes(c *Call) (changed []ViewEvent) {
	o := &p.observers
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	for i := range c.sheet.resolved {
		e := c.sheet.resolved[i].Endpoint
		slot := e.Slot()
		if c.sheet.facts[i].stranger || slot >= maxSlots {
			continue
		}
		if slot >= len(o.watched) {
			o.watched = append(o.watched, make([]watched, slot+1-len(o.watched))...)
		}
		w := &o.watched[slot]
		if w.endpoint > e {
			continue
		}
		if w.endpoint != e {
			*w = watched{endpoint: e, views: w.views[:0]}
		}
		known := len(w.views) // ranks to look at in any case
		if c.sheet.matched && c.Candidates[i].Cached.Peek() == nil {
			known = max(known, c.sheet.resolved[i].Held.Rank+1)
		}
		for rank := 0; ; rank++ {
			view := p.index.View(e, rank)
			if rank >= known && view == prefixindex.ViewNever {
				break
			}
			if rank == len(w.views) {
				w.views = append(w.views, prefixindex.ViewNever)
			}
			if was := w.views[rank]; was != view {
				w.views[rank] = view
				changed = append(changed, ViewEvent{e, c.sheet.resolved[i].Name, rank, was, view})
			}
		}
	}
	return changed
}
