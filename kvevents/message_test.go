package kvevents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
)

func TestParseMessage(t *testing.T) {
	topic, seq, payload := []byte("kv@10.0.0.7@m"), unhex("0000000000000102"), []byte("payload")
	f, err := kvevents.ParseMessage([][]byte{topic, seq, payload})
	require.NoError(t, err)
	require.Equal(t, kvevents.Frame{Topic: "kv@10.0.0.7@m", Seq: 258, Payload: payload}, f)
	for name, parts := range map[string][][]byte{
		"0 parts, want 3":             nil,
		"1 parts, want 3":             {payload},
		"2 parts, want 3":             {topic, payload},
		"4 parts, want 3":             {nil, topic, seq, payload},
		"a number of 7 bytes, want 8": {topic, seq[1:], payload},
		"a number of 0 bytes, want 8": {topic, nil, payload},
	} {
		_, err := kvevents.ParseMessage(parts)
		require.ErrorIs(t, err, kvevents.ErrMessage)
		require.ErrorContains(t, err, name)
	}
}

// Replays of old engines lack the topic, and a topic may be empty as well.
func TestParseReplay(t *testing.T) {
	topic, seq, payload := []byte("kv"), unhex("0000000000000102"), []byte("payload")
	last := unhex("ffffffffffffffff")
	for _, c := range []struct {
		name  string
		parts [][]byte
		want  kvevents.Frame
		end   bool
	}{
		{"old", [][]byte{{}, seq, payload}, kvevents.Frame{Seq: 258, Payload: payload}, false},
		{"new", [][]byte{{}, topic, seq, payload}, kvevents.Frame{Topic: "kv", Seq: 258, Payload: payload}, false},
		{"new, no topic", [][]byte{{}, {}, seq, payload}, kvevents.Frame{Seq: 258, Payload: payload}, false},
		{"end of the old", [][]byte{{}, last, {}}, kvevents.Frame{Seq: 1<<64 - 1, Payload: []byte{}}, true},
		{"end of the new", [][]byte{{}, {}, last, {}}, kvevents.Frame{Seq: 1<<64 - 1, Payload: []byte{}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, end, err := kvevents.ParseReplay(c.parts)
			require.NoError(t, err)
			require.Equal(t, c.want, f)
			require.Equal(t, c.end, end)
		})
	}
	for name, parts := range map[string][][]byte{
		"2 parts":             {seq, payload},
		"5 parts":             {{}, topic, seq, payload, payload},
		"begins with 2 bytes": {topic, seq, payload},
		"a number of 2 bytes": {{}, topic, payload},
	} {
		_, _, err := kvevents.ParseReplay(parts)
		require.ErrorIs(t, err, kvevents.ErrMessage)
		require.ErrorContains(t, err, name)
	}
	require.Equal(t, [][]byte{nil, seq}, kvevents.ReplayRequest(258))
}
