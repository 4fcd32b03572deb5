package soak_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/prefixindex"
)

const (
	model       = "test-model"
	blockTokens = 16
	rest        = 5 * time.Second // from the end of the faults until an owner must be right
)

// follower is an engine, and what follows it into the index.
type follower struct {
	name   string
	seed   uint64
	replay bool

	engine *enginetest.Engine
	truth  *enginetest.Subscription // batches as they are made
	past   history
	pub    *enginetest.Publisher
	tap    *tap
	sub    *kvevents.Subscriber
	ix     *prefixindex.Index
	ep     prefixindex.Endpoint

	traffic, trouble *rand.Rand
	prompts          [][]uint32
	prompt           prefixindex.Prompt
	match            prefixindex.Match

	before   snapshot // at the last quiet point
	live     snapshot // when the view was last live
	restarts int
	epochs   uint64 // before the last restart
	faults   map[string]int
	tally    tally
}

// tally is what one follower saw at its quiet points.
type tally struct {
	quiet, notLive   int // quiet points, and those at which the view was not live
	rests            []time.Duration
	accounted        int // spells between quiet points whose frames were all accounted for
	blocks           int // by which owners whose view was not live differed from their engines
	blamed, unproven int // of these: with a frame to blame, and where frames were dropped after the tap
}

// snapshot is every counter at a quiet point.
type snapshot struct {
	next     uint64
	restarts int
	pub      enginetest.PublisherStats
	injected [enginetest.IgnoreReplay + 1]uint64
	src      zmtp.SourceStats
	sub      kvevents.SubscriberStats
}

// newFollower makes the i-th: they differ in all that can be chosen.
func newFollower(t *testing.T, ix *prefixindex.Index, i int, seed uint64, tr zmtp.Transport) *follower {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	f := &follower{
		name: fmt.Sprintf("engine-%d", i), seed: seed, ix: ix, faults: map[string]int{},
		traffic: rand.New(rand.NewPCG(seed, 1000+uint64(i))),
		trouble: rand.New(rand.NewPCG(seed, 2000+uint64(i))),
	}
	var err error
	f.engine, err = enginetest.New(enginetest.Options{
		Model: model, Blocks: pick(60, 200, 600), BlockTokens: blockTokens,
		PrefillTokensPerSecond: 1e7, DecodeStep: 100 * time.Microsecond,
		Wire:         enginetest.Wire{Form: enginetest.Form(i % 4), Digests: i%4 == 0},
		ReplayBuffer: pick(50, 500, 10_000, 10_000), Topic: "kv@" + f.name, Seed: r.Uint64() | 1,
	})
	require.NoError(t, err)
	t.Cleanup(f.engine.Close)
	f.truth = f.engine.Subscribe(1 << 20)

	listen := i%8 == 5 // the engine dials
	f.replay = i%8 != 3
	po := enginetest.PublishOptions{HWM: pick(30, 0), ReplayHWM: pick(150, 400, 0), TopiclessReplay: i%2 == 1}
	if f.replay {
		po.ReplayAddress = "tcp://127.0.0.1:0"
	}
	if listen {
		po.Connect, po.Address = true, freeAddress(t)
	}
	f.pub, err = f.engine.Publish(po)
	require.NoError(t, err)
	t.Cleanup(f.pub.Close)
	src, err := zmtp.NewSource(zmtp.SourceOptions{
		Address: f.pub.Address(), ReplayAddress: f.pub.ReplayAddress(), Listen: listen,
		Topic: "kv@" + f.name, Transport: tr, Seed: r.Uint64() | 1,
		HandshakeTimeout: 500 * time.Millisecond, ReplayTimeout: 200 * time.Millisecond,
		Heartbeat: 100 * time.Millisecond, IdleTimeout: time.Second,
		BackoffMin: 5 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
		QueueFrames: pick(20, 0),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	f.tap = newTap(src)

	f.ep, err = ix.Join(f.name)
	require.NoError(t, err)
	var source kvevents.Source = f.tap
	if !f.replay {
		source = kvevents.SourceFunc(f.tap.Receive)
	}
	f.sub, err = kvevents.NewSubscriber(kvevents.SubscriberOptions{
		Index: ix, Endpoint: f.ep, Model: model, Source: source, Logger: slog.New((*epochLog)(f.tap)),
		Stream: kvevents.StreamOptions{
			Loss: kvevents.Loss(i % 8 / 7), HeldFrames: pick(20, 0), ReplayBackoff: 20 * time.Millisecond,
		},
		Queue: kvevents.QueueOptions{Frames: pick(5, 0), Full: kvevents.QueuePolicy(pick(0, 1))},
	})
	require.NoError(t, err)
	return f
}

// chaos is traffic and trouble until ctx ends. Tame trouble ends no life, no connection and
// no epoch.
func (f *follower) chaos(ctx context.Context, tame bool) (err error) {
	var both sync.WaitGroup
	both.Go(func() {
		for ctx.Err() == nil {
			f.generate(ctx, f.nextPrompt(), 1+f.traffic.IntN(40))
			pause(ctx, time.Duration(f.traffic.IntN(20))*time.Millisecond)
		}
	})
	both.Go(func() {
		for ctx.Err() == nil && err == nil {
			pause(ctx, time.Duration(20+f.trouble.IntN(150))*time.Millisecond)
			err = f.fault(ctx, tame)
		}
	})
	both.Wait()
	return err
}

// nextPrompt is new, or one that was sent, or begins as one did.
func (f *follower) nextPrompt() []uint32 {
	r := f.traffic
	var tokens []uint32
	if len(f.prompts) > 0 && r.IntN(4) > 0 {
		tokens = slices.Clone(f.prompts[r.IntN(len(f.prompts))])
		tokens = tokens[:1+r.IntN(len(tokens))]
	}
	for len(tokens) < blockTokens || r.IntN(60) > 0 && len(tokens) < 30*blockTokens {
		tokens = append(tokens, r.Uint32N(100_000))
	}
	return tokens
}

// generate has the engine serve a prompt, and remembers it with the reply.
func (f *follower) generate(ctx context.Context, prompt []uint32, n int) {
	result, err := f.engine.Generate(ctx, enginetest.Request{Prompt: prompt, MaxTokens: n})
	if err != nil {
		return // the engine died, or the round is over
	}
	whole := append(slices.Clone(prompt), result.Tokens...)
	const known = 100
	if len(f.prompts) < known {
		f.prompts = append(f.prompts, whole)
	} else {
		f.prompts[f.traffic.IntN(known)] = whole
	}
}

// fault makes something go wrong.
func (f *follower) fault(ctx context.Context, tame bool) error {
	r := f.trouble
	inject := func(fault enginetest.Fault, most int) func() error {
		n := 1 + r.IntN(most)
		return func() error { f.pub.Inject(fault, n); return nil }
	}
	short := time.Duration(r.IntN(300)) * time.Millisecond
	restart := func(o enginetest.RestartOptions) func() error { //nolint:contextcheck // its sockets outlive the round
		return func() error {
			f.restarting()
			return f.pub.Restart(o)
		}
	}
	list := []struct {
		name string
		wild bool
		do   func() error
	}{
		{"drop", false, inject(enginetest.Drop, 5)},
		{"lose", false, inject(enginetest.Lose, 2)},
		{"duplicate", false, inject(enginetest.Duplicate, 2)},
		{"truncate", false, inject(enginetest.Truncate, 3)},
		{"garbage", false, inject(enginetest.Garbage, 3)},
		{"drop replayed", false, inject(enginetest.DropReplayed, 20)},
		{"drop replay's end", false, inject(enginetest.DropReplayEnd, 2)},
		{"ignore replay", false, inject(enginetest.IgnoreReplay, 4)},
		{"stall", false, func() error { f.pub.Stall(short); return nil }},
		{"slow", false, func() error {
			f.pub.Slow(5000 + r.IntN(50_000))
			pause(ctx, short)
			f.pub.Slow(0)
			return nil
		}},
		{"reset cache", false, func() error {
			if err := f.engine.ResetPrefixCache(); !errors.Is(err, enginetest.ErrInUse) {
				return err
			}
			return nil
		}},
		{"reorder", true, inject(enginetest.Reorder, 2)},
		{"silence", true, func() error {
			f.pub.Silence(true)
			pause(ctx, 5*short)
			f.pub.Silence(false)
			return nil
		}},
		{"disconnect", true, func() error { f.pub.Disconnect(); return nil }},
		{"restart", true, restart(enginetest.RestartOptions{Down: short})},
		{"restart hidden in a gap", true, restart(enginetest.RestartOptions{Hide: true, KeepConnections: true})},
		// The count goes on as if nothing had happened: only a replay gives that away.
		{"restart hidden by a reconnection", true, restart(enginetest.RestartOptions{
			Hide: true, Down: short, KeepConnections: !f.replay,
		})},
		{"restart behind a proxy", true, restart(enginetest.RestartOptions{KeepConnections: true})},
		{"restart of the engine alone", true, func() error { f.restarting(); return f.engine.Restart() }},
	}
	one := list[r.IntN(len(list))]
	if one.wild && tame {
		return nil
	}
	f.faults[one.name]++
	if err := one.do(); err != nil {
		return fmt.Errorf("%s: %s: %w", f.name, one.name, err)
	}
	return nil
}

// restarting remembers which epoch is the old life's.
func (f *follower) restarting() {
	f.restarts++
	f.epochs = f.sub.Stats().Applier.Blocks.Epochs
}

// quiet ends the faults, waits until the owner has come to rest, and checks it.
func (f *follower) quiet() error {
	f.pub.Calm()
	calm := time.Now()
	if err := f.deliver(calm.Add(rest)); err != nil {
		return err
	}
	for {
		view, settled, now := f.look()
		late := time.Since(calm) > rest
		switch {
		case settled && view == prefixindex.ViewLive && !late:
			if err := f.equal(now); err != nil {
				if again, still, _ := f.look(); !still || again != view {
					continue // it was not the same moment
				}
				return err
			}
			f.tally.rests = append(f.tally.rests, time.Since(calm))
			f.live = now
		case settled && view == prefixindex.ViewGap && !late:
			if err := f.explain(now); err != nil {
				return err
			}
			f.tally.notLive++
		case late:
			return f.failure(now, "view is %v, settled %v, %v after the end of the faults", view, settled, rest)
		default:
			time.Sleep(2 * time.Millisecond)
			continue
		}
		f.tally.quiet++
		return f.account(now)
	}
}

// deliver has the engine publish until a batch has arrived.
func (f *follower) deliver(deadline time.Time) error {
	for sent := 0; ; sent++ {
		hidden := f.pub.Stats().Hidden
		tokens := make([]uint32, blockTokens)
		for i := range tokens {
			tokens[i] = f.traffic.Uint32()
		}
		f.generate(context.Background(), tokens, 1)
		if err := f.learn(); err != nil {
			return err
		}
		patience := time.Now().Add(200 * time.Millisecond)
		for {
			done := f.pub.Published() == f.past.next()
			if done && sent > 0 && f.tap.arrived(f.past.last(), true, false) {
				return nil
			}
			if done && sent == 0 || f.pub.Stats().Hidden > hidden || time.Now().After(patience) {
				break // another, so that the engine's count passes the old one's, or somebody hears it
			}
			time.Sleep(time.Millisecond)
		}
		if time.Now().After(deadline) {
			return f.failure(f.snapshot(), "no batch arrives %v after the end of the faults", rest)
		}
	}
}

// learn takes what the engine has published since.
func (f *follower) learn() error {
	for f.truth.Buffered() > 0 {
		frame, err := f.truth.Receive(context.Background())
		if err != nil {
			return err
		}
		if err := f.past.add(frame); err != nil {
			return err
		}
	}
	return nil
}

// look returns the view, and whether the subscriber has taken the engine's last batch.
func (f *follower) look() (prefixindex.View, bool, snapshot) {
	before := f.ix.View(f.ep, 0) // what is counted before the view changes does not belong to it
	now := f.snapshot()
	settled := f.pub.Published() == f.past.next() && now.src.QueueFrames == 0 && now.sub.Queued == 0 &&
		now.sub.LastSeq == f.past.last().seq
	view := f.ix.View(f.ep, 0)
	return view, settled && view == before && view == f.sub.View(), now
}

func (f *follower) snapshot() snapshot {
	s := snapshot{
		next: f.past.next(), restarts: f.restarts,
		pub: f.pub.Stats(), src: f.tap.Stats(), sub: f.sub.Stats(),
	}
	for fault := range s.injected {
		s.injected[fault] = f.pub.Injected(enginetest.Fault(fault))
	}
	return s
}

// lost is how many numbers and payloads were lost for good.
func (s *snapshot) lost() uint64 { return s.sub.Stream.Lost + s.sub.Unreadable }

// thrown is how many frames were dropped after the tap had noted them. They may have come
// again.
func (s *snapshot) thrown() uint64 {
	st := s.sub.Stream
	return s.sub.QueueDropped + st.Overflowed + st.LateReplayed + st.Dropped
}

// compare returns the blocks by which owner and engine differ, the first of each known
// prompt, each at the end of its chain.
func (f *follower) compare() (differ [][]blockKey) {
	found := map[blockKey]bool{}
	for _, tokens := range f.prompts {
		f.prompt.Reset(prefixindex.Scope{Model: model}, tokens)
		f.ix.Match(&f.prompt, &f.match)
		got, want := f.match.Rank(f.ep, 0).GPU, f.engine.Holds(tokens, enginetest.Scope{})
		if got == want {
			continue
		}
		key, chain := blockKey(0), []blockKey(nil)
		for at := 0; at <= min(got, want); at += blockTokens {
			key = key.extend(tokens[at : at+blockTokens])
			chain = append(chain, key)
		}
		if !found[key] {
			found[key] = true
			differ = append(differ, chain)
		}
	}
	return differ
}

// equal is an error if the owner is not its engine's pool.
func (f *follower) equal(now snapshot) error {
	differ := f.compare()
	resident := len(f.engine.Resident())
	b := now.sub.Applier.Blocks
	if len(differ) > 0 || b.Blocks != resident || b.Orphans > 0 {
		return f.failure(now, "view is live, and %d of %d prompts differ; %d blocks and %d orphans, the engine has %d",
			len(differ), len(f.prompts), b.Blocks, b.Orphans, resident)
	}
	return nil
}

// explain is an error if an owner that is not live has no reason for it, or differs from
// its engine for none.
func (f *follower) explain(now snapshot) error {
	unchecked := now.sub.Stream.Unchecked > f.live.sub.Stream.Unchecked && f.replay // without, the next frame will do
	if now.lost() == f.live.lost() && !unchecked {
		return f.failure(now, "view is gap, and nothing was lost or unchecked")
	}
	differ := f.compare()
	f.tally.blocks += len(differ)
	if now.thrown() > f.live.thrown() {
		f.tally.unproven += len(differ)
		return nil
	}
	lifeBefore := now.sub.Applier.Blocks.Epochs == f.epochs // may be in the index still
	for _, chain := range differ {
		if !f.past.toBlame(chain, lifeBefore, func(id frameID) bool { return f.tap.arrived(id, false, true) }) {
			return f.failure(now, "a block differs, and each of the batches about it arrived: %d", f.past.blocks[chain[len(chain)-1]])
		}
		f.tally.blamed++
	}
	return nil
}

// account adds up the frames that the Subscriber has taken, and those since the last quiet
// point all the way from the engine, if that can be done: if it is the same life, connection
// and epoch.
func (f *follower) account(now snapshot) error {
	was := f.before
	f.before = now
	st := now.sub.Stream
	ends := st.Applied + uint64(st.Held) + st.Invalid + st.Duplicates + st.Garbled + st.Overflowed + st.Dropped +
		st.LateReplayed + st.Discarded
	if st.Frames+st.Replayed != ends || st.Applied != now.sub.Batches+now.sub.Unreadable {
		return f.failure(now, "%d frames taken, and %d accounted for", st.Frames+st.Replayed, ends)
	}
	defer f.tap.keep(f.past.ids)
	if was.next == 0 || was.restarts != now.restarts || was.src.Connects != now.src.Connects ||
		was.sub.Applier.Blocks.Epochs != now.sub.Applier.Blocks.Epochs {
		return nil
	}
	made := now.next - was.next
	injected := func(fault enginetest.Fault) uint64 { return now.injected[fault] - was.injected[fault] }
	taken := now.pub.Batches - was.pub.Batches
	sent := taken - injected(enginetest.Drop) - injected(enginetest.Lose) + injected(enginetest.Duplicate)
	lostQueued := now.pub.Lost - was.pub.Lost
	dropped := now.src.Dropped - was.src.Dropped
	received := now.src.Frames - was.src.Frames
	queueDropped := now.sub.QueueDropped - was.sub.QueueDropped
	heard := now.sub.Stream.Frames - was.sub.Stream.Frames
	applied := now.sub.Batches - was.sub.Batches
	lost := now.lost() - was.lost()
	for _, sum := range []struct {
		what        string
		left, right uint64
	}{
		{"batches made = taken by the publisher", made, taken},
		{"sent = high-water mark + queue of the Source full + received", sent, lostQueued + dropped + received},
		{"received = queue of the Subscriber full + heard", received, queueDropped + heard},
		{"batches made = applied + lost", made, applied + lost},
	} {
		if sum.left != sum.right {
			return f.failure(now, "%s: %d and %d, before it was %+v", sum.what, sum.left, sum.right, was)
		}
	}
	// What is counted as lost is what did not arrive whole, neither live nor in a replay.
	missing := uint64(0)
	for _, id := range f.past.ids[was.next:] {
		if !f.tap.arrived(id, false, false) {
			missing++
		}
	}
	if missing > lost || missing < lost && now.thrown() == was.thrown() {
		return f.failure(now, "%d frames did not arrive, %d were lost; before it was %+v", missing, lost, was)
	}
	f.tally.accounted++
	return nil
}

// heal has what was lost for good end, in one of the ways in which that happens.
func (f *follower) heal() error {
	switch f.trouble.IntN(3) {
	case 0:
		f.restarting()
		err := f.pub.Restart(enginetest.RestartOptions{})
		for began := time.Now(); err == nil && f.pub.Subscribers() == 0 && time.Since(began) < rest; {
			time.Sleep(time.Millisecond) // without replay, what is published before somebody hears it is lost
		}
		return err
	case 1:
		// As a host does that put the engine to sleep.
		if err := f.engine.ResetPrefixCache(); err != nil {
			return err
		}
		return f.sub.Reset()
	default:
		return f.engine.ResetPrefixCache()
	}
}

func (f *follower) failure(now snapshot, format string, args ...any) error {
	return fmt.Errorf("%s, seed %d, faults %v: %s\npublisher %+v\nsource %+v\nsubscriber %+v",
		f.name, f.seed, f.faults, fmt.Sprintf(format, args...), now.pub, now.src, now.sub)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
