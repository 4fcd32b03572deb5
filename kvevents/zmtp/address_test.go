package zmtp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

func TestRankAddress(t *testing.T) {
	for _, c := range []struct {
		address string
		rank    int
		want    string // "": an error
	}{
		{"tcp://10.0.0.7:5557", 0, "tcp://10.0.0.7:5557"},
		{"tcp://10.0.0.7:5557", 3, "tcp://10.0.0.7:5560"},
		{"tcp://engine.example.com:5557", 7, "tcp://engine.example.com:5564"},
		{"tcp://[2001:db8::1]:5557", 1, "tcp://[2001:db8::1]:5558"},
		{"tcp://*:5557", 2, "tcp://*:5559"},
		{"tcp://10.0.0.7:65535", 0, "tcp://10.0.0.7:65535"},
		{"ipc:///run/kv", 0, "ipc:///run/kv"},
		{"tcp://10.0.0.7:65535", 1, ""},
		{"tcp://10.0.0.7:5557", 1 << 30, ""},
		{"tcp://10.0.0.7:5557", -1, ""},
		{"tcp://10.0.0.7:0", 1, ""},
		{"ipc:///run/kv", 1, ""},
		{"10.0.0.7:5557", 0, ""},
		{"tcp://10.0.0.7", 0, ""},
		{"tcp://10.0.0.7:65536", 0, ""},
		{"tcp://10.0.0.7:-1", 0, ""},
		{"tcp://10.0.0.7:http", 0, ""},
		{"tcp://2001:db8::1:5557", 0, ""},
		{"tcp://10.0.0.7/x:5557", 0, ""},
		{"udp://10.0.0.7:5557", 0, ""},
		{"inproc://kv", 0, ""},
		{"ipc://", 0, ""},
		{"", 0, ""},
	} {
		got, err := zmtp.RankAddress(c.address, c.rank)
		if c.want == "" {
			require.ErrorIs(t, err, zmtp.ErrAddress, "%q", c.address)
			require.ErrorContains(t, err, c.address)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestRanks(t *testing.T) {
	base := zmtp.RankAddresses{Address: "tcp://h:5557", ReplayAddress: "tcp://h:5657", Topic: "kv", BlockTokens: 16}
	ranks, err := zmtp.Ranks(base, 2)
	require.NoError(t, err)
	require.Equal(t, []zmtp.RankAddresses{
		base,
		{Rank: 1, Address: "tcp://h:5558", ReplayAddress: "tcp://h:5658", Topic: "kv", BlockTokens: 16},
	}, ranks)

	// The second node of two: ports go by the global rank.
	base.Rank = 8
	ranks, err = zmtp.Ranks(base, 1)
	require.NoError(t, err)
	require.Equal(t, "tcp://h:5565", ranks[0].Address)

	// Port and port+1 do for one rank, and collide from two on.
	adjacent := zmtp.RankAddresses{Address: "tcp://h:5556", ReplayAddress: "tcp://h:5557"}
	_, err = zmtp.Ranks(adjacent, 1)
	require.NoError(t, err)
	_, err = zmtp.Ranks(adjacent, 2)
	require.ErrorIs(t, err, zmtp.ErrAddress)
	require.ErrorContains(t, err, "rank 0 would replay where rank 1 publishes")

	for _, n := range []int{-1, 0, 1 << 20} {
		_, err = zmtp.Ranks(base, n)
		require.ErrorIs(t, err, zmtp.ErrAddress)
	}
	_, err = zmtp.Ranks(zmtp.RankAddresses{Address: "tcp://h:65000"}, 1000)
	require.ErrorContains(t, err, "past 65535")
}

func TestSourceOptions(t *testing.T) {
	good := func() zmtp.SourceOptions { return zmtp.SourceOptions{Address: "tcp://127.0.0.1:5557"} }
	for field, spoil := range map[string]func(o *zmtp.SourceOptions){
		"Address: ":                            func(o *zmtp.SourceOptions) { o.Address = "" },
		"Address: zmtp: bad address \"tcp://*": func(o *zmtp.SourceOptions) { o.Address = "tcp://*:5557" },
		"port is 0":                            func(o *zmtp.SourceOptions) { o.Address, o.Listen = "tcp://*:0", true },
		"ReplayAddress: ":                      func(o *zmtp.SourceOptions) { o.ReplayAddress = "tcp://127.0.0.1" },
		"want another than Address":            func(o *zmtp.SourceOptions) { o.ReplayAddress = o.Address },
		"with Listen and no Topic": func(o *zmtp.SourceOptions) {
			o.Listen, o.ReplayAddress = true, "tcp://127.0.0.1:5558"
		},
		"Topic has 5000 bytes":           func(o *zmtp.SourceOptions) { o.Topic = string(make([]byte, 5000)) },
		"HandshakeTimeout is 1ms":        func(o *zmtp.SourceOptions) { o.HandshakeTimeout = 1e6 },
		"ReplayTimeout is -1ns":          func(o *zmtp.SourceOptions) { o.ReplayTimeout = -1 },
		"Heartbeat is 1ns":               func(o *zmtp.SourceOptions) { o.Heartbeat = 1 },
		"IdleTimeout is 1ns":             func(o *zmtp.SourceOptions) { o.IdleTimeout = 1 },
		"IdleTimeout is 5s, want more":   func(o *zmtp.SourceOptions) { o.IdleTimeout = 5e9 },
		"BackoffMin is 10s, want":        func(o *zmtp.SourceOptions) { o.BackoffMin = 10e9 },
		"BackoffMax is 2h0m0s, want":     func(o *zmtp.SourceOptions) { o.BackoffMax = 7200e9 },
		"Healthy is -1ns":                func(o *zmtp.SourceOptions) { o.Healthy = -1 },
		"MaxMessageBytes is 1, want":     func(o *zmtp.SourceOptions) { o.MaxMessageBytes = 1 },
		"QueueFrames is -1, want":        func(o *zmtp.SourceOptions) { o.QueueFrames = -1 },
		"QueueBytes is 1, want":          func(o *zmtp.SourceOptions) { o.QueueBytes = 1 },
		"ReplayAddress: zmtp: bad addre": func(o *zmtp.SourceOptions) { o.ReplayAddress = "tcp://0.0.0.0:1" },
	} {
		o := good()
		spoil(&o)
		_, err := zmtp.NewSource(o)
		require.ErrorIs(t, err, zmtp.ErrOptions, field)
		require.ErrorContains(t, err, field)
	}
	for _, o := range []zmtp.SourceOptions{
		{Address: "tcp://*:5557", Listen: true},
		{Address: "tcp://*:5557", Listen: true, Topic: "kv@pod-1@m", ReplayAddress: "tcp://127.0.0.1:5558"},
		{Address: "ipc:///nowhere", Heartbeat: -1, IdleTimeout: -1},
	} {
		// A transport that does nothing: addresses are not to be opened here.
		o.Transport = &fakeTransport{}
		s, err := zmtp.NewSource(o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}

	for _, n := range []int{-1, 0, 1 << 20} {
		_, err := zmtp.NewLimiter(n)
		require.ErrorIs(t, err, zmtp.ErrOptions)
	}
	_, err := zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://*:1", Connect: true})
	require.ErrorIs(t, err, zmtp.ErrOptions)
	_, err = zmtp.NewPublisher(zmtp.PublisherOptions{Address: "tcp://127.0.0.1:0", HWM: -1})
	require.ErrorContains(t, err, "HWM is -1")
	_, err = zmtp.NewRouter(zmtp.RouterOptions{Address: "x"})
	require.ErrorIs(t, err, zmtp.ErrAddress)
}
