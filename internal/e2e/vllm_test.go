//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
	"github.com/warmroute/warmroute/prefixindex"
)

// TestVLLM compares, prompt by prompt, how many cached tokens the index expects and
// the engine then reports.
func TestVLLM(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 9*time.Minute)
	defer cancel()
	r := &run{ctx: ctx, t: t, prompts: newPrompts(1), began: time.Now()}
	defer r.report.print(t)

	// One engine chooses its ports and says which they are. The other has Unix
	// sockets, where it will be found again after its restart. Neither has room for all prompts.
	left := newEngine(t, engineOptions{name: "left", blockTokens: 32, blocks: 150, tcp: true})
	right := newEngine(t, engineOptions{name: "right", blockTokens: 64, blocks: 75})
	right.start(t) // the second one's start takes the other's time
	left.start(t)
	right.wait(ctx, t)
	left.wait(ctx, t)
	var version struct{ Version string }
	_, err := left.call(ctx, http.MethodGet, "/version", nil, &version)
	require.NoError(t, err)
	r.report.line("vLLM %s, %s, %d CPUs", version.Version, runtime.Version(), runtime.NumCPU())
	r.report.line("left:  150 blocks of 32 tokens, tcp")
	r.report.line("right: 75 blocks of 64 tokens, Unix sockets; sockets of both as /kv_event_sources says")
	r.report.line("both serve after %v", r.lap())

	ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 32})
	require.NoError(t, err)
	at := map[*engine]zmtp.RankAddresses{left: discover(ctx, t, left), right: discover(ctx, t, right)}
	a, b := follow(t, ix, left, at[left]), follow(t, ix, right, at[right])

	r.compare("one after another", 130, a, b)

	r.burst(12, 8, a, b)
	r.compare("after bursts", 50, a, b)

	// The index of a router that starts now, with blocks smaller than any engine's.
	late, err := prefixindex.New(prefixindex.Options{BlockTokens: 16})
	require.NoError(t, err)
	lateA, lateB := follow(t, late, left, at[left]), follow(t, late, right, at[right])
	require.NoError(t, lateA.settle(ctx))
	require.NoError(t, lateB.settle(ctx))
	r.same("an index that starts late", [][2]*follower{{a, lateA}, {b, lateB}})
	for _, f := range []*follower{lateA, lateB} {
		s := f.sub.Stats()
		r.report.line("  late %s: %d batches of %d by replay", f.engine.name, s.Stream.Recovered, s.Batches)
		require.Equal(t, prefixindex.ViewLive, f.sub.View())
	}
	r.compare("an index that started late", 20, lateA, lateB)

	r.reset(a, b, false)
	r.compare("after the reset", 30, a, b)
	r.reset(b, a, true)
	r.compare("after the other's reset", 30, a, b)

	r.restart(b, lateB)
	r.compare("after the restart", 30, a, b)
	require.NoError(t, lateA.settle(ctx))
	require.NoError(t, lateB.settle(ctx))
	r.same("both indexes at the end", [][2]*follower{{a, lateA}, {b, lateB}})

	r.summary(a, b)
}

// discover asks the engine where its one rank publishes.
func discover(ctx context.Context, t *testing.T, e *engine) zmtp.RankAddresses {
	t.Helper()
	ranks, err := zmtp.Discover(ctx, nil, e.url)
	if err != nil {
		raw, _ := e.call(ctx, http.MethodGet, "/kv_event_sources", nil, nil)
		t.Fatalf("%v; the engine said %s", err, raw)
	}
	require.Len(t, ranks, 1)
	return ranks[0]
}

// run is the state of the test.
type run struct {
	ctx     context.Context
	t       *testing.T
	prompts *prompts
	known   []*prompt // all that were sent
	began   time.Time
	report  report

	sent, hits, blocks, wrong, tokensDiffer int
	kinds                                   map[string][3]int // sent, with a hit, wrong
}

// report is what is printed in the end, however that comes.
type report struct{ lines []string }

func (r *report) line(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *report) print(t *testing.T) {
	text := strings.Join(r.lines, "\n") + "\n"
	if t.Failed() {
		text += "FAILED\n"
	}
	t.Log("\n" + text)
	if path := os.Getenv("WARMROUTE_REPORT"); path != "" {
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// lap returns the time since the last call.
func (r *run) lap() time.Duration {
	now := time.Now()
	d := now.Sub(r.began).Round(100 * time.Millisecond)
	r.began = now
	return d
}

// compare sends n prompts, one after another, each to one of the engines.
func (r *run) compare(phase string, n int, followers ...*follower) {
	r.t.Helper()
	sent, hits, blocks, wrong := r.sent, r.hits, r.blocks, r.wrong
	for range n {
		r.one(phase, r.prompts.next(), pick(r.prompts.rng, followers))
	}
	r.report.line("%s: %d prompts, %d with a hit, %d blocks cached, %d mismatches, %v",
		phase, r.sent-sent, r.hits-hits, r.blocks-blocks, r.wrong-wrong, r.lap())
}

// one sends p to an engine, and compares what the index expects before with what the
// engine says after.
func (r *run) one(phase string, p *prompt, f *follower) {
	r.t.Helper()
	r.tokenize(p, f.engine)
	require.NoError(r.t, f.settle(r.ctx))
	want := f.usable(p)
	got := r.send(p, f.engine)
	kind := r.kinds[p.kind]
	r.sent++
	kind[0]++
	if got.cached > 0 {
		r.hits++
		kind[1]++
	}
	r.blocks += got.cached / f.engine.blockTokens
	if got.cached != want*f.engine.blockTokens {
		r.wrong++
		kind[2]++
		r.t.Errorf("%s: %s: prompt %d (%s, %d tokens): the index expects %d cached blocks of %d tokens, the engine has %d tokens",
			phase, f.engine.name, r.sent, p.kind, len(p.tokens), want, f.engine.blockTokens, got.cached)
		r.report.line("  MISMATCH %s, %s, %d tokens: expected %d, engine %d tokens",
			f.engine.name, p.kind, len(p.tokens), want*f.engine.blockTokens, got.cached)
	}
	if r.kinds == nil {
		r.kinds = map[string][3]int{}
	}
	r.kinds[p.kind] = kind
	r.prompts.done(p, got)
	r.known = append(r.known, p)
}

// tokenize sets p's tokens if p is text.
func (r *run) tokenize(p *prompt, e *engine) {
	r.t.Helper()
	if p.tokens != nil {
		return
	}
	tokens, err := e.tokenize(r.ctx, p.text, p.chat)
	require.NoError(r.t, err)
	p.tokens = tokens
}

// send sends p, and checks that the engine takes it for the tokens that it should be.
func (r *run) send(p *prompt, e *engine) *answer {
	r.t.Helper()
	a, err := e.complete(r.ctx, p)
	require.NoError(r.t, err)
	if !slices.Equal(a.prompt, p.tokens) {
		r.tokensDiffer++
		r.t.Errorf("%s: %s prompt: the engine's tokens are not those of /tokenize", e.name, p.kind)
	}
	return a
}

// burst sends n times so many prompts at once that share what they begin with. Which
// finds what in the cache is chance; the engine makes copies of blocks, preempts and
// evicts.
func (r *run) burst(n, width int, followers ...*follower) {
	r.t.Helper()
	for range n {
		head := pick(r.prompts.rng, r.prompts.trunks)
		var batch []*prompt
		for i := range width {
			p := &prompt{kind: "burst", tokens: slices.Clone(head), maxTokens: 1 + 5*i}
			if i%2 == 0 { // the others have equal tokens
				p.tokens = append(p.tokens, r.prompts.tokens(1+7*i)...)
			}
			batch = append(batch, p)
		}
		for _, f := range followers {
			var sent sync.WaitGroup
			for _, p := range batch {
				sent.Go(func() {
					if _, err := f.engine.complete(r.ctx, p); err != nil {
						r.t.Errorf("%s: burst: %v", f.engine.name, err)
					}
				})
			}
			sent.Wait()
		}
		r.known = append(r.known, batch...)
	}
	for _, f := range followers {
		require.NoError(r.t, f.settle(r.ctx))
	}
	r.report.line("%d bursts of %d prompts at each engine, %v", n, width, r.lap())
}

// same compares what two indexes hold of every prompt that was ever sent.
func (r *run) same(what string, pairs [][2]*follower) {
	r.t.Helper()
	held, differ := 0, 0
	for _, p := range r.known {
		for _, pair := range pairs {
			x, y := pair[0].usable(p), pair[1].usable(p)
			held += min(x, 1)
			if x != y {
				differ++
				r.t.Errorf("%s: %s: one expects %d blocks of a prompt, the other %d", what, pair[0].engine.name, x, y)
			}
		}
	}
	r.report.line("%s: %d prompts at %d engines, %d of them held in part or whole, %d differ",
		what, len(r.known), len(pairs), held, differ)
}

// holding counts the known prompts of which f's engine is said to hold something.
func (r *run) holding(f *follower) int {
	n := 0
	for _, p := range r.known {
		n += min(f.held(p), 1)
	}
	return n
}

// reset empties the cache of the engine of one of the followers. The engine says so to
// nobody before its next step, so that the first request after it is expected to find
// what is gone, unless the host that asked for the reset says so. told is whether it does.
func (r *run) reset(f, other *follower, told bool) {
	r.t.Helper()
	require.NoError(r.t, f.settle(r.ctx))
	require.NoError(r.t, other.settle(r.ctx))
	before, beside := r.holding(f), r.holding(other)
	require.Positive(r.t, before)
	var done struct{ Success bool }
	_, err := f.engine.call(r.ctx, http.MethodPost, "/reset_prefix_cache", nil, &done)
	require.NoError(r.t, err)
	require.True(r.t, done.Success)
	if told {
		require.NoError(r.t, f.sub.Reset())
	}
	require.NoError(r.t, f.settle(r.ctx))
	idle := r.holding(f)

	first := r.known[slices.IndexFunc(r.known, func(p *prompt) bool { return told || f.usable(p) > 0 })]
	want := f.usable(first)
	got := r.send(first, f.engine)
	require.Zero(r.t, got.cached)
	require.NoError(r.t, f.settle(r.ctx))
	r.report.line("reset of %s, its host tells the index: %t: of %d prompts it is said to hold something, then of %d; "+
		"the next request was expected to find %d blocks and found none; then of %d; the other engine: of %d, then %d",
		f.engine.name, told, before, idle, want, r.holding(f), beside, r.holding(other))
	if told {
		require.Zero(r.t, idle)
	}
	require.Less(r.t, r.holding(f), before)
	require.Equal(r.t, beside, r.holding(other))
	require.Positive(r.t, f.sub.Stats().Applier.Cleared)
	r.lap()
}

// restart kills the engine of b, as a crash does, and starts it again. b and late
// follow it.
func (r *run) restart(b, late *follower) {
	r.t.Helper()
	for _, f := range []*follower{b, late} {
		require.NoError(r.t, f.settle(r.ctx))
		require.Positive(r.t, r.holding(f))
	}
	before := r.holding(b)
	lives := b.sub.Stats().Applier.Blocks.Epochs
	b.engine.kill()
	down := until(r.ctx, func() bool { return b.source.Stats().State != zmtp.Connected })
	require.NoError(r.t, down)
	r.report.line("%s killed: until it is back, of %d prompts it is still said to hold something", b.engine.name, r.holding(b))
	for _, f := range []*follower{b, late} {
		f.next, f.before = 0, f.sub.Stats().Batches
	}
	b.engine.start(r.t)
	b.engine.wait(r.ctx, r.t)
	up := time.Now()
	require.NoError(r.t, until(r.ctx, func() bool { return r.holding(b) == 0 && r.holding(late) == 0 }),
		"the index still credits the engine with what it had in its former life")
	r.report.line("%s restarted: serves after %v; %v later, without a request, of %d prompts (%d before)",
		b.engine.name, r.lap(), time.Since(up).Round(100*time.Millisecond), r.holding(b), before)
	require.Greater(r.t, b.sub.Stats().Applier.Blocks.Epochs, lives)
}

// summary adds what was counted, and checks that nothing was passed over on the way.
func (r *run) summary(followers ...*follower) {
	r.t.Helper()
	r.report.line("in all: %d prompts compared, %d with a hit, %d blocks cached, %d mismatches, "+
		"%d prompts whose tokens differ from /tokenize", r.sent, r.hits, r.blocks, r.wrong, r.tokensDiffer)
	for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
		n := r.kinds[kind]
		r.report.line("  %-22s %4d sent, %4d with a hit, %d mismatches", kind, n[0], n[1], n[2])
	}
	require.GreaterOrEqual(r.t, r.sent, 200)
	require.Positive(r.t, r.hits)
	for _, f := range followers {
		s := f.sub.Stats()
		ap, bl := s.Applier, s.Applier.Blocks
		r.report.line("  %s: %d batches, events stored %d removed %d cleared %d; blocks stored %d copies %d removed %d; "+
			"restarts %d hidden %d unverified %d, gaps %d lost %d, replays %d",
			f.engine.name, s.Batches, ap.Stored, ap.Removed, ap.Cleared, bl.Stored, bl.Copies, bl.Removed,
			s.Stream.Restarts, s.Stream.HiddenRestarts, s.Stream.Unverified, s.Stream.Gaps, s.Stream.Lost, s.Stream.Replays)
		require.Zero(r.t, s.Unreadable+ap.Unknown+ap.Malformed+ap.SkippedKind+ap.SkippedSparse+ap.SkippedSize+
			ap.SkippedPlace+ap.SkippedTier+ap.SkippedRemote+ap.SkippedOwned+ap.SkippedExtras+ap.SkippedRank+
			bl.RemovedUnknown+bl.Parked+bl.Conflicts+bl.CopiesCapped+bl.Evicted+bl.Malformed+s.Stream.Lost,
			"%s: something was passed over: %+v", f.engine.name, s)
		require.Positive(r.t, bl.Removed, "%s never evicted", f.engine.name)
		require.Positive(r.t, bl.Copies, "%s never had two copies of a block", f.engine.name)
	}
}
