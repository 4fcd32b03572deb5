package debugview

import (
	"time"
	"unsafe"

	"github.com/warmroute/warmroute/picker"
)

// decision is one recorded pick and, once it is known, what became of it.
type decision struct {
	id      uint64 // in the view
	picker  string
	record  picker.Record // a copy
	prepare time.Duration
	decide  time.Duration
	done    bool
	end     picker.DoneEvent
}

// decisions keeps the last ones in a ring, as many as fit into its bytes. The memory of
// those that go is used for those that come.
type decisions struct {
	ring     []slot // that of id i is at i % len
	last     uint64 // id of the newest; the first is 1
	n        int    // how many there are
	bytes    int
	maxBytes int
}

// slot is a decision's place, with what it is searched by.
type slot struct {
	observer *observer
	pick     uint64
	decision *decision
}

func (ds *decisions) at(id uint64) *slot { return &ds.ring[id%uint64(len(ds.ring))] }

// add keeps a copy of the record of a pick.
func (ds *decisions) add(o *observer, e *picker.PickEvent) {
	var d *decision
	r := e.Call.Record
	need := size(r, len(r.Candidates), len(r.Scores))
	if ds.n == len(ds.ring) || ds.n > 0 && ds.bytes+need > ds.maxBytes {
		if d = ds.drop(); kept(&d.record) > 2*need {
			d = nil // large memory is not for small records
		}
	}
	if d == nil {
		d = new(decision)
	}
	ds.last++
	ds.n++
	*ds.at(ds.last) = slot{o, r.Pick, d}
	*d = decision{id: ds.last, picker: o.name, record: d.record, prepare: e.Prepare, decide: e.Decide}
	copyRecord(&d.record, r)
	ds.bytes += kept(&d.record)
	for ds.bytes > ds.maxBytes && ds.n > 1 {
		ds.drop()
	}
}

// drop forgets the oldest decision and returns it.
func (ds *decisions) drop() *decision {
	place := ds.at(ds.last - uint64(ds.n) + 1)
	d := place.decision
	*place = slot{}
	ds.n--
	ds.bytes -= kept(&d.record)
	return d
}

// find returns the decision of a picker's pick, or nil if it is not kept.
func (ds *decisions) find(o *observer, pick uint64) *decision {
	for i := range ds.ring {
		if s := &ds.ring[i]; s.pick == pick && s.observer == o {
			return s.decision
		}
	}
	return nil
}

// get returns the decision with an id, or nil if it is not kept.
func (ds *decisions) get(id uint64) *decision {
	if id == 0 || id > ds.last || ds.last-id >= uint64(ds.n) {
		return nil
	}
	return ds.at(id).decision
}

// copyRecord makes dst a copy of src that shares nothing with it but strings.
func copyRecord(dst, src *picker.Record) {
	old := *dst
	*dst = *src
	dst.Scorers = copySlice(old.Scorers, src.Scorers)
	dst.Filters = copySlice(old.Filters, src.Filters)
	dst.Candidates = copySlice(old.Candidates, src.Candidates)
	dst.Scores = copySlice(old.Scores, src.Scores)
}

// copySlice copies src into the memory of dst, if that is enough.
func copySlice[T any](dst, src []T) []T { return append(dst[:0], src...) }

// What a part of a record takes, as a compiler's constant: no memory is looked at.
const (
	decisionBytes  = int(unsafe.Sizeof(decision{}))
	scorerBytes    = int(unsafe.Sizeof(picker.ScorerRecord{}))
	filterBytes    = int(unsafe.Sizeof(picker.FilterRecord{}))
	candidateBytes = int(unsafe.Sizeof(picker.CandidateRecord{}))
	scoreBytes     = int(unsafe.Sizeof(picker.ScoreRecord{}))
)

// kept is the memory of a record that is kept.
func kept(r *picker.Record) int { return size(r, cap(r.Candidates), cap(r.Scores)) }

// size is what it takes to keep a record with room for so many candidates and scores.
// Names of endpoints, scorers and filters are shared with others.
func size(r *picker.Record, candidates, scores int) int {
	return decisionBytes + len(r.Scorers)*scorerBytes + len(r.Filters)*filterBytes +
		candidates*candidateBytes + scores*scoreBytes +
		len(r.Request.Model) + len(r.Request.Adapter) + len(r.Request.Session)
}
