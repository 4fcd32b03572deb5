package zmtp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

func TestParseKVEventSources(t *testing.T) {
	ranks, err := zmtp.ParseKVEventSources([]byte(`[
		{"data_parallel_rank":1,"endpoint":"tcp://*:5558","replay_endpoint":"tcp://*:5658","topic":"kv","new":{}},
		{"data_parallel_rank":0,"endpoint":"tcp://10.0.0.1:5557","replay_endpoint":null,"topic":""}
	]`), "10.0.0.9")
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{
		{Rank: 0, Address: "tcp://10.0.0.1:5557"},
		{Rank: 1, Address: "tcp://10.0.0.9:5558", ReplayAddress: "tcp://10.0.0.9:5658", Topic: "kv"},
	}, ranks)

	// As vLLM 0.32.0 answers.
	ranks, err = zmtp.ParseKVEventSources([]byte(`{"0":{"enable_kv_cache_events":true,"publisher":"zmq",
		"endpoint":"tcp://127.0.0.1:44489","replay_endpoint":"tcp://127.0.0.1:46245","buffer_steps":10000,
		"hwm":100000,"max_queue_size":100000,"topic":""}}`), "10.0.0.9")
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{
		{Address: "tcp://127.0.0.1:44489", ReplayAddress: "tcp://127.0.0.1:46245"},
	}, ranks)
	ranks, err = zmtp.ParseKVEventSources([]byte(
		` {"10":{"endpoint":"tcp://*:5567","replay_endpoint":null},"9":{"endpoint":"tcp://*:5566","topic":"kv"}}`), "h")
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{
		{Rank: 9, Address: "tcp://h:5566", Topic: "kv"},
		{Rank: 10, Address: "tcp://h:5567"},
	}, ranks)

	for body, want := range map[string]error{
		`[]`:                                zmtp.ErrNoEvents,
		`null`:                              zmtp.ErrNoEvents,
		`{}`:                                zmtp.ErrNoEvents,
		`{"0":{}}`:                          zmtp.ErrDiscovery,
		`{"0":null}`:                        zmtp.ErrDiscovery,
		`{"rank":{"endpoint":"tcp://h:1"}}`: zmtp.ErrDiscovery,
		`{"-1":{"endpoint":"tcp://h:1"}}`:   zmtp.ErrDiscovery,
		``:                                  zmtp.ErrDiscovery,
		`[{"data_parallel_rank":0}]`:        zmtp.ErrDiscovery,
		`[{"data_parallel_rank":0,"endpoint":"tcp://h:0"}]`:                                                 zmtp.ErrAddress,
		`[{"data_parallel_rank":0,"endpoint":"tcp://h:99999"}]`:                                             zmtp.ErrAddress,
		`[{"data_parallel_rank":-1,"endpoint":"tcp://h:1"}]`:                                                zmtp.ErrDiscovery,
		`[{"data_parallel_rank":0,"endpoint":"tcp://h:1"},{"data_parallel_rank":0,"endpoint":"tcp://h:2"}]`: zmtp.ErrDiscovery,
		`[{"data_parallel_rank":0,"endpoint":"tcp://h:1","replay_endpoint":"http://h:2"}]`:                  zmtp.ErrAddress,
		`[` + strings.Repeat(`{"endpoint":"tcp://h:1"},`, 5000) + `{"endpoint":"tcp://h:1"}]`:               zmtp.ErrDiscovery,
	} {
		_, err := zmtp.ParseKVEventSources([]byte(body), "h")
		require.ErrorIs(t, err, want, "%.80s", body)
	}
	_, err = zmtp.ParseKVEventSources([]byte(`[{"endpoint":"tcp://*:1"}]`), "")
	require.ErrorContains(t, err, "no host to put in its place")
}

func TestParseServerInfo(t *testing.T) {
	ranks, err := zmtp.ParseServerInfo([]byte(`{"version":"x","kv_events":{"publisher":"zmq","endpoint_host":"*",
		"endpoint_port_base":5557,"topic":"kv","block_size":64,"dp_size":2}}`), "10.0.0.9")
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{
		{Rank: 0, Address: "tcp://10.0.0.9:5557", Topic: "kv", BlockTokens: 64},
		{Rank: 1, Address: "tcp://10.0.0.9:5558", Topic: "kv", BlockTokens: 64},
	}, ranks)

	ranks, err = zmtp.ParseServerInfo([]byte(`{"kv_events":{"publisher":"zmq","endpoint_host":"::1",
		"endpoint_port_base":5557,"replay_endpoint_host":"*","replay_endpoint_port_base":5657,"replay_buffer_steps":10}}`), "h")
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{{Address: "tcp://[::1]:5557", ReplayAddress: "tcp://h:5657"}}, ranks)

	ranks, err = zmtp.ParseServerInfo([]byte(`{"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,
		"replay_endpoint_host":"*","replay_endpoint_port_base":5657,"dp_size":8,"publishers":[
		{"dp_rank":4,"endpoint":"tcp://10.0.0.2:5561"},{"dp_rank":0,"endpoint":"tcp://10.0.0.1:5557"}]}}`), "h")
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{
		{Rank: 0, Address: "tcp://10.0.0.1:5557", ReplayAddress: "tcp://10.0.0.1:5657"},
		{Rank: 4, Address: "tcp://10.0.0.2:5561", ReplayAddress: "tcp://10.0.0.2:5661"},
	}, ranks)

	for body, want := range map[string]error{
		`{}`:                 zmtp.ErrNoEvents,
		`{"kv_events":null}`: zmtp.ErrNoEvents,
		`{"kv_events":{"publisher":"zmq","publishers":[{"dp_rank":0}]}}`:                         zmtp.ErrAddress,
		`{"kv_events":{"publisher":"zmq","publishers":[` + strings.Repeat(`{},`, 4096) + `{}]}}`: zmtp.ErrDiscovery,
		`{"kv_events":{"publisher":"x"}}`:                                                        zmtp.ErrNoEvents,
		`[]`:                                                                                     zmtp.ErrDiscovery,
		`{"kv_events":{"publisher":"zmq"}}`:                                                      zmtp.ErrAddress,
		`{"kv_events":{"publisher":"zmq","endpoint_host":"h","endpoint_port_base":65535,"dp_size":2}}`:                                                            zmtp.ErrAddress,
		`{"kv_events":{"publisher":"zmq","endpoint_host":"h","endpoint_port_base":1,"dp_size":1000000000}}`:                                                       zmtp.ErrAddress,
		`{"kv_events":{"publisher":"zmq","endpoint_host":"h","endpoint_port_base":5556,"dp_size":2,"replay_endpoint_host":"h","replay_endpoint_port_base":5557}}`: zmtp.ErrAddress,
	} {
		_, err := zmtp.ParseServerInfo([]byte(body), "h")
		require.ErrorIs(t, err, want, "%.80s", body)
	}
}

func TestDiscover(t *testing.T) {
	vllm := http.NewServeMux()
	vllm.HandleFunc("GET /kv_event_sources", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"0":{"endpoint":"tcp://*:5557","topic":""}}`))
	})
	sglang := http.NewServeMux()
	sglang.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557}}`))
	})
	broken := http.NewServeMux()
	broken.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	flood := func(pattern string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			for range 17 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 1<<20)))
			}
		})
		return mux
	}
	for name, c := range map[string]struct {
		handler http.Handler
		err     string
	}{
		"vllm":    {vllm, ""},
		"sglang":  {sglang, ""},
		"neither": {http.NewServeMux(), "not found"},
		"broken":  {broken, "status 503"},
		"flood":   {flood("/"), "more than 1048576 bytes"},
		"flood 2": {flood("/server_info"), "more than 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			ranks, err := zmtp.Discover(t.Context(), server.Client(), server.URL)
			if c.err != "" {
				require.ErrorIs(t, err, zmtp.ErrDiscovery)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []zmtp.RankAddresses{{Address: "tcp://127.0.0.1:5557"}}, ranks)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = zmtp.Discover(ctx, server.Client(), server.URL)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
	for _, bad := range []string{"", "10.0.0.1:8000", "ftp://h", "http://", "http://h:x"} {
		_, err := zmtp.Discover(t.Context(), nil, bad)
		require.ErrorIs(t, err, zmtp.ErrDiscovery, bad)
	}
}
