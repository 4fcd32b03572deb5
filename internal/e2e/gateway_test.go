//go:build e2e

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGateway puts examples/gateway in front of two engines, and agents who use the
// OpenAI client library in front of that. It compares what the engines have to compute
// with what they have to under round-robin, and kills one of them.
func TestGateway(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 12*time.Minute)
	defer cancel()
	r := &run{ctx: ctx, t: t, began: time.Now()}
	defer r.report.print(t)

	bin := filepath.Join(t.TempDir(), "gateway")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "../../examples/gateway").CombinedOutput()
	require.NoError(t, err, "%s", out)

	// Neither has room for all that the agents say.
	left := newEngine(t, engineOptions{name: "left", blockTokens: 32, blocks: 300})
	right := newEngine(t, engineOptions{name: "right", blockTokens: 32, blocks: 300})
	left.start(t)
	right.start(t)
	left.wait(ctx, t)
	right.wait(ctx, t)
	g := startGateway(ctx, t, bin, left, right)
	r.report.line("two engines of 300 blocks of 32 tokens, %d CPUs; served after %v", runtime.NumCPU(), r.lap())

	computed := map[string]float64{}
	for _, policy := range []string{"round-robin", "gateway", "gateway", "round-robin"} {
		for _, e := range []*engine{left, right} { // which says so with its next step
			_, err := e.call(ctx, http.MethodPost, "/reset_prefix_cache", nil, nil)
			require.NoError(t, err)
			_, err = e.complete(ctx, &prompt{tokens: []uint32{1, 2, 3}, maxTokens: 1})
			require.NoError(t, err)
		}
		urls := []string{left.url, right.url}
		if policy == "gateway" {
			urls = []string{g.url}
		}
		looked, hit := prefixCache(ctx, t, left, right)
		a := startAgents(ctx, t, append([]string{"--sessions", "16", "--turns", "6"}, urls...)...)
		turns := a.wait()
		lookedAfter, hitAfter := prefixCache(ctx, t, left, right)
		looked, hit = lookedAfter-looked, hitAfter-hit
		computed[policy] += looked - hit
		var first []float64
		for _, n := range turns {
			require.Empty(t, n.Error)
			require.NotNil(t, n.Cached)
			first = append(first, n.TTFT)
		}
		slices.Sort(first)
		require.Len(t, turns, 16*6)
		r.report.line("%-11s: %d requests; prompt tokens %.0f, of them cached %.0f (%.1f %%), computed %.0f; "+
			"TTFT p50 %.0f ms, p90 %.0f ms, p99 %.0f ms; %v", policy, len(turns), looked, hit, 100*hit/looked, looked-hit,
			1e3*first[len(first)/2], 1e3*first[len(first)*9/10], 1e3*first[len(first)*99/100], r.lap())
	}
	r.report.line("tokenizing added %.1f ms to a request, at most %.1f", 1e3*g.metric("warmroute_tokenizer_spent_seconds_total", "")/
		g.metric("warmroute_tokenizer_calls_total", ""), 1e3*g.metric("warmroute_tokenizer_longest_seconds", ""))
	share := computed["gateway"] / computed["round-robin"]
	r.report.line("the engines computed %.0f %% of the prompt tokens that they did under round-robin", 100*share)
	require.Less(t, share, 0.8)

	g.survive(r, right)
}

// survive kills an engine under load, and starts it again.
func (g *gatewayProcess) survive(r *run, victim *engine) {
	t := g.t
	a := startAgents(r.ctx, t, "--sessions", "8", "--forever", g.url)
	time.Sleep(10 * time.Second)
	killing := unix(time.Now())
	victim.kill()
	killed := unix(time.Now())
	time.Sleep(5 * time.Second)
	require.NoError(t, until(r.ctx, func() bool { return g.metric("gateway_engine_up", victim.url) == 0 }))
	const predicted, reported = "warmroute_calibration_predicted_tokens_total", "warmroute_calibration_reported_tokens_total"
	before := [2]float64{g.metric(predicted, victim.url), g.metric(reported, victim.url)}
	stored, holdings := g.blocks(victim)
	require.Positive(t, holdings, "it keeps its credit while nobody is sent there")

	victim.start(t)
	victim.wait(r.ctx, t)
	serves := unix(time.Now())
	require.NoError(t, until(r.ctx, func() bool { return g.metric("gateway_engine_up", victim.url) == 1 }))
	up := unix(time.Now())
	storedSince, credit := g.blocks(victim)
	// The gateway's blocks are half as long as the engine's.
	require.LessOrEqual(t, credit, 2*(storedSince-stored), "up with blocks of its former life")
	// Prompts that are known elsewhere stay there; new ones go to the engine that has less to do.
	others := startAgents(r.ctx, t, "--sessions", "16", "--turns", "6", "--first", "1000", g.url).wait()
	a.stop()
	turns := append(a.wait(), others...)

	host := strings.TrimPrefix(victim.url, "http://")
	failed, down, back := 0, 0, 0
	for _, n := range turns {
		if n.Error != "" {
			failed++
			inFlight := n.Begun < killed && n.Ended > killing && (n.Endpoint == nil || *n.Endpoint == host)
			require.True(t, inFlight, "killed from %.3f to %.3f: %+v", killing, killed, n)
			continue
		}
		if n.Begun > killed && n.Begun < serves {
			down++
		}
		if n.Begun > serves && *n.Endpoint == host {
			back++
		}
	}
	after := [2]float64{g.metric(predicted, victim.url), g.metric(reported, victim.url)}
	r.report.line("%s killed under load, of %d requests %d failed, all in flight on it; %d served while it was down; "+
		"up for the gateway %.1f s after it served again, credited then with %.0f blocks where it was with %.0f; %d served "+
		"there, of which %.0f tokens were expected to be cached and %.0f were", victim.name, len(turns), failed, down,
		up-serves, credit, holdings, back,
		after[0]-before[0], after[1]-before[1])
	require.Positive(t, down)
	require.Positive(t, back)
	require.LessOrEqual(t, failed, 8, "a request of each agent at most")
	// What was there at the pick may be evicted before the engine gets to it, the more as
	// its cache is small for so many agents.
	require.GreaterOrEqual(t, after[1]-before[1], 0.8*(after[0]-before[0]), "sent there for what it does not hold")
}

func unix(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// prefixCache returns how many prompt tokens the engines have looked up in their caches,
// and found there.
func prefixCache(ctx context.Context, t *testing.T, engines ...*engine) (looked, hit float64) {
	t.Helper()
	for _, e := range engines {
		page, err := e.call(ctx, http.MethodGet, "/metrics", nil, nil)
		require.NoError(t, err)
		looked += sample(t, page, "vllm:prefix_cache_queries_total{")
		hit += sample(t, page, "vllm:prefix_cache_hits_total{")
	}
	return looked, hit
}

// sample returns the value of the first line of a metrics page that begins so.
func sample(t *testing.T, page []byte, begin string) float64 {
	t.Helper()
	at := bytes.Index(page, []byte("\n"+begin))
	require.GreaterOrEqual(t, at, 0, "no %s", begin)
	line, _, _ := bytes.Cut(page[at+1:], []byte("\n"))
	v, err := strconv.ParseFloat(string(line[bytes.LastIndexByte(line, ' ')+1:]), 64)
	require.NoError(t, err)
	return v
}

// gatewayProcess is a gateway that runs.
type gatewayProcess struct {
	t          *testing.T
	url, admin string
}

// startGateway starts one, and waits until the engines are up for it. It asks them for
// all else.
func startGateway(ctx context.Context, t *testing.T, bin string, engines ...*engine) *gatewayProcess {
	t.Helper()
	g := &gatewayProcess{t: t, url: "127.0.0.1:" + freePort(t), admin: "127.0.0.1:" + freePort(t)}
	args := []string{"-listen", g.url, "-admin", g.admin, "-drain-delay", "0"}
	g.url, g.admin = "http://"+g.url, "http://"+g.admin
	for _, e := range engines {
		args = append(args, "-endpoint", e.url)
	}
	log, err := os.Create(bin + ".log")
	require.NoError(t, err)
	p := exec.Command(bin, args...)
	p.Stderr = log
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.Wait(), "drained")
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("the gateway:\n%s", said)
		}
	})
	require.NoError(t, until(ctx, func() bool {
		for _, e := range engines {
			if g.metric("gateway_engine_up", e.url) != 1 {
				return false
			}
		}
		return true
	}))
	return g
}

// blocks returns how many blocks an engine is said to have stored ever, and to hold now.
func (g *gatewayProcess) blocks(e *engine) (stored, holdings float64) {
	page := g.page()
	at := fmt.Sprintf("{endpoint=%q,rank=\"0\"}", e.url)
	return sample(g.t, page, "warmroute_subscriber_applier_blocks_stored_total"+at),
		sample(g.t, page, "warmroute_subscriber_applier_blocks_holdings"+at)
}

// metric returns what the gateway says of an engine's URL, or "" of itself; -1 while it
// says nothing.
func (g *gatewayProcess) metric(name, url string) float64 {
	page := g.page()
	if page == nil {
		return -1
	}
	if url == "" {
		return sample(g.t, page, name+" ")
	}
	return sample(g.t, page, fmt.Sprintf("%s{endpoint=%q}", name, url))
}

// page returns the gateway's metrics; nil while it does not listen.
func (g *gatewayProcess) page() []byte {
	resp, err := http.Get(g.admin + "/metrics")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(g.t, err)
	return page
}

// turn is a line of agents.py.
type turn struct {
	Session, Turn int
	Begun, Ended  float64 // Unix time
	Endpoint      *string
	TTFT          float64
	Prompt        int
	Cached        *int
	Error         string
}

// agents are a run of agents.py.
type agents struct {
	t     *testing.T
	stop  func()
	done  chan error
	turns []turn
}

func startAgents(ctx context.Context, t *testing.T, args ...string) *agents {
	t.Helper()
	python := filepath.Join(os.Getenv("WARMROUTE_VLLM"), "bin", "python")
	p := exec.CommandContext(ctx, python, append([]string{"agents.py"}, args...)...)
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	a := &agents{t: t, stop: func() { _ = in.Close() }, done: make(chan error, 1)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n turn
			if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
				t.Errorf("agents.py: %v: %s", err, lines.Text())
			}
			a.turns = append(a.turns, n)
		}
		a.done <- p.Wait()
	}()
	return a
}

// wait returns what the agents did, when all have ended.
func (a *agents) wait() []turn {
	a.t.Helper()
	require.NoError(a.t, <-a.done)
	return a.turns
}
