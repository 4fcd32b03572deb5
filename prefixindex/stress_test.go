package prefixindex_test

import (
	"errors"
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/prefixindex"
)

var stressFor = flag.Duration("stress", time.Second, "how long stress tests run")

// role is an owner that is written to without pause and whose run is bounded at every
// instant: any lookup that reports another one is wrong.
type role struct {
	name     string
	min, max int     // of the runs on GPU or CPU, and on any tier, in blocks
	gpu      *[2]int // of the run on GPU; nil: the same
	write    func(w *prefixindex.Writer, stop func() bool)
}

const stressBlocks = 200 // of the prompt of all roles

// stressSpan returns blocks from to to of the prompt; the engine hash of block i is
// i+1, or 1000 more in another group.
func stressSpan(from, to int) *prefixindex.Span {
	s := &prefixindex.Span{
		Tokens:      tokens(4 * to)[4*from:],
		BlockTokens: 4,
		Scope:       scope,
		Parent:      prefixindex.EngineHash(from),
		HasParent:   from > 0,
	}
	for i := from; i < to; i++ {
		s.Hashes = append(s.Hashes, prefixindex.EngineHash(i+1))
	}
	return s
}

func stressRemoval(from, to int) *prefixindex.Removal {
	r := &prefixindex.Removal{}
	for i := to - 1; i >= from; i-- {
		r.Hashes = append(r.Hashes, prefixindex.EngineHash(i+1))
	}
	return r
}

func stressRoles(fail func(error)) []role {
	store := func(w *prefixindex.Writer, from, to int, change ...func(*prefixindex.Span)) {
		s := stressSpan(from, to)
		for _, f := range change {
			f(s)
		}
		fail(w.Store(s))
	}
	remove := func(w *prefixindex.Writer, from, to int, change ...func(*prefixindex.Removal)) {
		r := stressRemoval(from, to)
		for _, f := range change {
			f(r)
		}
		fail(w.Remove(r))
	}
	onCPU := func(s *prefixindex.Span) { s.Tier = prefixindex.TierCPU }
	offCPU := func(r *prefixindex.Removal) { r.Tier = prefixindex.TierCPU }
	return []role{
		{name: "stable", min: 150, max: 150, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 150)
			for !stop() {
				time.Sleep(time.Millisecond)
			}
		}},
		{name: "moving tail", min: 20, max: 120, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 20)
			for n := 1; !stop(); n = n%100 + 1 {
				store(w, 20, 20+n)
				remove(w, 20, 20+n)
			}
		}},
		{name: "hole, then blocks beyond it", min: 3, max: 40, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 40)
			for !stop() {
				remove(w, 3, 4) // the run is 3
				store(w, 40, 190)
				remove(w, 40, 190)
				store(w, 3, 4) // 40 again
			}
		}},
		{name: "hole closed and opened with blocks beyond it", min: 3, max: 190, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 40)
			for !stop() {
				store(w, 40, 190)
				remove(w, 3, 4)
				remove(w, 40, 190)
				store(w, 3, 4)
			}
		}},
		{name: "many holes", min: 3, max: 40, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 190)
			remove(w, 40, 41)
			for !stop() {
				for i := 42; i < 190; i += 2 {
					remove(w, i, i+1)
				}
				for range 50 {
					remove(w, 3, 4)
					store(w, 40, 41) // beyond the hole: block 41 on is held up to the next
					remove(w, 40, 41)
					store(w, 3, 4)
				}
				for i := 42; i < 190; i += 2 {
					store(w, i, i+1)
				}
			}
		}},
		{name: "aliases", min: 3, max: 40, write: func(w *prefixindex.Writer, stop func() bool) {
			other := func(s *prefixindex.Span) { s.Group = 1 }
			less := func(r *prefixindex.Removal) { r.Group = 1 }
			store(w, 0, 40)
			store(w, 0, 40, other)
			for !stop() {
				remove(w, 3, 4)
				remove(w, 3, 4, less)
				store(w, 40, 190, other)
				remove(w, 40, 190, less)
				store(w, 3, 4, other)
				store(w, 3, 4)
			}
		}},
		{name: "tiers", min: 3, max: 40, gpu: &[2]int{0, 0}, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 20)
			store(w, 0, 40, onCPU)
			remove(w, 0, 20)
			for !stop() {
				remove(w, 3, 4, offCPU)
				store(w, 40, 190)
				store(w, 60, 190, onCPU)
				remove(w, 40, 190)
				remove(w, 60, 190, offCPU)
				store(w, 3, 4, onCPU)
			}
		}},
		{name: "hole on GPU over what is whole on CPU", min: 40, max: 40, gpu: &[2]int{5, 30}, write: func(w *prefixindex.Writer, stop func() bool) {
			store(w, 0, 40, onCPU)
			store(w, 0, 30)
			for !stop() {
				remove(w, 5, 6)
				store(w, 30, 40)
				remove(w, 30, 40)
				store(w, 5, 6)
			}
		}},
		{name: "cleared", min: 0, max: 60, write: func(w *prefixindex.Writer, stop func() bool) {
			for n := 1; !stop(); n = n%60 + 1 {
				store(w, 0, n)
				fail(w.Clear())
			}
		}},
		{name: "beyond an unknown parent", min: 0, max: 0, write: func(w *prefixindex.Writer, stop func() bool) {
			for !stop() {
				store(w, 1, 190)
				remove(w, 1, 190)
			}
		}},
	}
}

// TestStress runs all roles beside lookups.
func TestStress(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	var stopped atomic.Bool
	var writers, readers sync.WaitGroup
	var failure atomic.Pointer[string]
	fail := func(err error) {
		if err != nil {
			s := err.Error()
			failure.CompareAndSwap(nil, &s)
		}
	}
	roles := stressRoles(fail)
	eps := make([]prefixindex.Endpoint, len(roles))
	ready := make([]atomic.Bool, len(roles))
	for i, r := range roles {
		eps[i], err = ix.Join(r.name)
		require.NoError(t, err)
		w, err := ix.Writer(eps[i], 0)
		require.NoError(t, err)
		writers.Go(func() {
			first := true
			r.write(w, func() bool {
				if first {
					ready[i].Store(true)
					first = false
				}
				return stopped.Load()
			})
		})
	}
	// Owners that come and go, so that slots and tables change hands.
	writers.Go(func() {
		for n := 0; !stopped.Load(); n++ {
			ep, err := ix.Join("guest")
			fail(err)
			for rank := range 3 {
				w, err := ix.Writer(ep, rank)
				fail(err)
				fail(w.Store(stressSpan(0, 1+n%190)))
			}
			ix.Leave(ep)
		}
	})
	var lookups atomic.Int64
	for range 2 {
		readers.Go(func() {
			var p prefixindex.Prompt
			var m prefixindex.Match
			for n := 0; !stopped.Load(); n++ {
				if n%2 == 0 {
					p.Reset(scope, tokens(4*stressBlocks)) // hashes as needed, or all known
					if n%4 == 0 {
						ix.Hasher().Hashes(&p)
					}
				}
				var valid [16]bool
				for i := range roles {
					valid[i] = ready[i].Load()
				}
				ix.Match(&p, &m)
				for i, r := range roles {
					if !valid[i] {
						continue
					}
					h := m.Of(eps[i])
					any := [2]int{r.min, r.max}
					gpu := any
					if r.gpu != nil {
						gpu = *r.gpu
					}
					for _, level := range []struct {
						name   string
						tokens int
						want   [2]int
					}{{"GPU", h.GPU, gpu}, {"GPU or CPU", h.CPU, any}, {"any tier", h.Any, any}} {
						if run := level.tokens / 4; run < level.want[0] || run > level.want[1] {
							t.Errorf("%s: run of %d blocks on %s, want %v", r.name, run, level.name, level.want)
							stopped.Store(true)
						}
					}
				}
				lookups.Add(1)
			}
		})
	}
	for end := time.Now().Add(*stressFor); time.Now().Before(end) && !stopped.Load(); {
		time.Sleep(10 * time.Millisecond)
	}
	stopped.Store(true)
	readers.Wait()
	writers.Wait()
	if s := failure.Load(); s != nil {
		t.Error(*s)
	}
	for _, ep := range eps {
		ix.Leave(ep)
	}
	s := ix.Stats()
	require.Zero(t, s.Blocks+s.Holdings+s.Handles+s.Orphans, "left over")
	t.Logf("%d lookups", lookups.Load())
}

// TestFenceUnderLoad opens epoch after epoch of an owner: what the one before held must
// be gone from every lookup that begins after Writer has returned.
func TestFenceUnderLoad(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	scopes := []prefixindex.Scope{{Model: "0"}, {Model: "1"}, {Model: "2"}}
	var epoch atomic.Int64 // that Writer has returned last; it stores in scope epoch%3
	var stopped atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for n := int64(0); !stopped.Load(); n++ {
			w, err := ix.Writer(ep, 0)
			if err != nil {
				t.Error(err)
				return
			}
			epoch.Store(n)
			s := stressSpan(0, 50)
			s.Scope = scopes[n%3]
			if err := w.Store(s); err != nil {
				t.Error(err)
			}
			if n%3 == 0 {
				ix.Leave(ep)
				late := stressSpan(50, 60)
				if err := w.Store(late); err == nil {
					t.Error("a late write was accepted")
				}
				if ep, err = ix.Join("a"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 2 {
		group.Go(func() {
			var p prefixindex.Prompt
			var m prefixindex.Match
			for i := 0; !stopped.Load(); i++ {
				// The epoch before this one has ended, and two more must begin until its
				// scope is stored again: at most one has if the count has not moved.
				before := epoch.Load()
				p.Reset(scopes[(before+2)%3], tokens(200))
				ix.Match(&p, &m)
				held := 0
				for _, h := range m.All() {
					held = h.Any
				}
				if held > 0 && epoch.Load() == before {
					t.Errorf("in epoch %d a lookup reports %d tokens of the one before", before, held)
				}
			}
		})
	}
	time.Sleep(*stressFor / 2)
	stopped.Store(true)
	group.Wait()
}

// TestSlotsChangeHands has endpoints come and go, each storing in a scope of its own: no
// lookup may find in one endpoint what another stores in the slot that it had.
func TestSlotsChangeHands(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	scopes := []prefixindex.Scope{{Model: "0"}, {Model: "1"}, {Model: "2"}}
	var owns sync.Map // Endpoint: index in scopes
	var stopped atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; !stopped.Load(); n++ {
			ep, err := ix.Join(scopes[n%3].Model)
			if err != nil {
				t.Error(err)
				return
			}
			owns.Store(ep, n%3)
			w, err := ix.Writer(ep, 0)
			if err != nil {
				t.Error(err)
				return
			}
			s := stressSpan(0, 10)
			s.Scope = scopes[n%3]
			if err := w.Store(s); err != nil {
				t.Error(err)
			}
			ix.Leave(ep)
			ix.Stats() // sweeps, so that the slot is free again
			owns.Delete(ep - 50<<32)
		}
	})
	for range 2 {
		group.Go(func() {
			var p prefixindex.Prompt
			var m prefixindex.Match
			for i := 0; !stopped.Load(); i++ {
				p.Reset(scopes[i%3], tokens(40))
				ix.Match(&p, &m)
				for ep, h := range m.All() {
					if own, ok := owns.Load(ep); ok && own != i%3 {
						t.Errorf("%d tokens of scope %d at an endpoint that stored in scope %v", h.Any, i%3, own)
						stopped.Store(true)
					}
				}
			}
		})
	}
	time.Sleep(*stressFor / 2)
	stopped.Store(true)
	group.Wait()
}

// TestLeaveBesideFirstCopyOnTier has an owner leave while its first block on a farther
// tier gives it one more slot to be looked up at.
func TestLeaveBesideFirstCopyOnTier(t *testing.T) {
	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4})
	require.NoError(t, err)
	s := stressSpan(0, 2)
	s.Tier = prefixindex.TierCPU
	for range 300 {
		ep, err := ix.Join("a")
		require.NoError(t, err)
		w, err := ix.Writer(ep, 0)
		require.NoError(t, err)
		var group sync.WaitGroup
		group.Go(func() {
			if err := w.Store(s); err != nil && !errors.Is(err, prefixindex.ErrFenced) {
				t.Error(err)
			}
		})
		group.Go(func() { ix.Leave(ep) })
		group.Wait()
	}
	require.Zero(t, ix.Stats().Blocks)
}

// TestExpiryBesideLookups has several lookups begin at once after all has expired.
func TestExpiryBesideLookups(t *testing.T) {
	var now atomic.Int64
	ix, err := prefixindex.New(prefixindex.Options{
		BlockTokens: 4, AssumedTTL: time.Second, Clock: func() time.Time { return time.Unix(0, now.Load()) },
	})
	require.NoError(t, err)
	ep, err := ix.Join("a")
	require.NoError(t, err)
	var p prefixindex.Prompt
	p.Reset(scope, tokens(4*400))
	ix.Hasher().Hashes(&p)
	for range 300 {
		require.NoError(t, ix.Insert(ep, 0, &p, -1))
		now.Add(int64(time.Hour))
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				var m prefixindex.Match
				ix.Match(&p, &m)
				if h := m.Of(ep); h.Any > 0 {
					t.Errorf("%d tokens, expired an hour before", h.Any)
				}
			})
		}
		group.Wait()
	}
}
