package picker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/scorer"
)

func ExampleParseOptions() {
	options, err := picker.ParseOptions([]byte(`{
		"scorers": [
			{"kind": "prefix", "weight": 2, "floor": 2048},
			{"kind": "queue", "weight": 5, "norm": "to-least", "half": 8}
		],
		"filters": [{"kind": "label", "all": ["decode"]}],
		"caps": [{"kind": "max-in-flight", "max": 64}],
		"stale_after": "10s"
	}`), picker.Names{Labels: map[string]uint64{"prefill": 1, "decode": 2}})
	if err != nil {
		panic(err)
	}
	options.Seed = 1 // and Index, Ledger
	if _, err := picker.New(options); err != nil {
		panic(err)
	}

	_, err = picker.ParseOptions([]byte(`{
		"scorers": [{"kind": "queue", "wait": 5}]
	}`), picker.Names{})
	fmt.Println(err)
	// Output: picker: policy refused: 2:15: scorers[0] has no weight
}

func TestParseOptions(t *testing.T) {
	mine := scorer.Func(func(*scorer.Input, []float64) {})
	only := picker.FilterFunc(func(*scorer.Input, []bool) {})
	o, err := picker.ParseOptions([]byte(`{
		"scorers": [
			{"kind": "prefix", "weight": 1, "cpu_weight": 0.7, "disk_weight": 0.2, "gap_weight": 0.6, "stale_weight": -1, "floor": 100, "norm": "relative"},
			{"kind": "queue", "weight": 2, "norm": "to-least", "half": 3},
			{"kind": "memory", "weight": 3},
			{"kind": "load-requests", "weight": 4, "half": 5},
			{"kind": "load-tokens", "weight": 5, "norm": "absolute", "half": 9000},
			{"kind": "cost", "weight": 6, "horizon": "20s", "per_waiting": "50ms", "prefill_rate": 9000},
			{"kind": "session", "weight": 7},
			{"kind": "adapter", "weight": 8},
			{"kind": "signal", "name": "running", "weight": 9, "field": "own-2", "best": 1, "worst": -1},
			{"kind": "mine", "weight": 0}
		],
		"filters": [
			{"kind": "label", "all": ["a"], "any": ["b", "c"], "none": ["d"]},
			{"kind": "affinity-gate", "share": 0.5, "max_tokens": 20000, "max_requests": 8},
			{"kind": "only"}
		],
		"caps": [
			{"kind": "max-in-flight", "max": 64},
			{"kind": "max-signal", "name": "kv", "field": "cache-use", "max": 0.95}
		],
		"select": {"band": 0.02, "home_band": 0.05, "temperature": 0.1, "max_ratio": 3, "bound": 1.25, "bound_floor": 8},
		"stale_after": "-1s",
		"min_prompt_tokens": 512
	}`), picker.Names{
		Labels:  map[string]uint64{"a": 1, "b": 2, "c": 4, "d": 8},
		Scorers: map[string]scorer.Scorer{"mine": mine},
		Filters: map[string]picker.Filter{"only": only},
	})
	require.NoError(t, err)
	require.NotNil(t, o.Scorers[9].Scorer)
	o.Scorers[9].Scorer, o.Filters[2].Filter = nil, nil
	require.Equal(t, picker.Options{
		Scorers: []picker.Weighted{
			{"prefix", scorer.Prefix{CPUWeight: 0.7, DiskWeight: 0.2, GapWeight: 0.6, StaleWeight: -1, Floor: 100, Norm: scorer.Relative}, 1},
			{"queue", scorer.Queue{Norm: scorer.ToLeast, Half: 3}, 2},
			{"memory", scorer.Memory{}, 3},
			{"load-requests", scorer.LoadRequests{Half: 5}, 4},
			{"load-tokens", scorer.LoadTokens{Half: 9_000}, 5},
			{"cost", scorer.Cost{Horizon: 20 * time.Second, PerWaiting: 50 * time.Millisecond, PrefillRate: 9_000}, 6},
			{"session", scorer.Session{}, 7},
			{"adapter", scorer.Adapter{}, 8},
			{"running", scorer.Signal{Field: scorer.Own + 2, Best: 1, Worst: -1}, 9},
			{"mine", nil, 0},
		},
		Filters: []picker.Named{
			{"label", picker.Label{All: 1, Any: 6, None: 8}},
			{"affinity-gate", picker.AffinityGate{Share: 0.5, MaxTokens: 20_000, MaxRequests: 8}},
			{"only", nil},
		},
		Caps: []picker.Named{
			{"max-in-flight", picker.MaxInFlight(64)},
			{"kv", picker.MaxSignal{Field: scorer.CacheUse, Max: 0.95}},
		},
		Select:          picker.Select{Band: 0.02, HomeBand: 0.05, Temperature: 0.1, MaxRatio: 3, Bound: 1.25, BoundFloor: 8},
		StaleAfter:      -time.Second,
		MinPromptTokens: 512,
	}, o)

	o, err = picker.ParseOptions([]byte(`{}`), picker.Names{})
	require.NoError(t, err)
	require.Equal(t, picker.Options{}, o)
}

// A host's "prefix" is not passed over for the library's.
func TestKindsOfTheHostComeFirst(t *testing.T) {
	own := scorer.Signal{Best: 1}
	o, err := picker.ParseOptions([]byte(`{
		"scorers": [{"kind": "prefix", "weight": 1}], "caps": [{"kind": "max-in-flight"}]
	}`), picker.Names{
		Scorers: map[string]scorer.Scorer{"prefix": own},
		Filters: map[string]picker.Filter{"max-in-flight": picker.MaxInFlight(3)},
	})
	require.NoError(t, err)
	require.Equal(t, own, o.Scorers[0].Scorer)
	require.Equal(t, picker.MaxInFlight(3), o.Caps[0].Filter)
}

func TestParseOptionsSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		``:                            `1:1 is not JSON: EOF`,
		`[]`:                          `1:1 is a list; it must be an object`,
		`{} {}`:                       `1:4 has something after the policy`,
		`{"scorers": [}`:              `is not JSON`,
		"{\n  \"scorer\": 1}":         `2:13: scorer is not known here; known are caps, filters, min_prompt_tokens, scorers, select, stale_after`,
		`{"stale_after": 5}`:          `1:17: stale_after is a number; it must be a string`,
		`{"stale_after": "5"}`:        `1:17: stale_after is "5"; it must be a duration such as "5s"`,
		`{"min_prompt_tokens": 1.5}`:  `1:23: min_prompt_tokens is 1.5; it must be a whole number`,
		`{"min_prompt_tokens": -1}`:   `MinPromptTokens is -1`,
		`{"min_prompt_tokens": 1e99}`: `must be a whole number`,
		`{"min_prompt_tokens": null}`: `is true, false or null; it must be a number`,
		`{"stale_after": "1s", "stale_after": "2s"}`: `1:38: stale_after is given twice`,
		`{"scorers": {}}`:                                                               `1:13: scorers is an object; it must be a list`,
		`{"scorers": []}`:                                                               `1:13: scorers is empty`,
		`{"scorers": [1]}`:                                                              `1:14: scorers[0] is a number; it must be an object`,
		`{"scorers": [{"weight": 1}]}`:                                                  `1:14: scorers[0] has no kind`,
		`{"scorers": [{"kind": "queue"}]}`:                                              `1:14: scorers[0] has no weight`,
		`{"scorers": [{"kind": "queu", "weight": 1}]}`:                                  `1:23: scorers[0].kind is "queu"; known are prefix, queue, memory`,
		`{"scorers": [{"kind": "queue", "weight": "1"}]}`:                               `1:42: scorers[0].weight is a string; it must be a number`,
		`{"scorers": [{"kind": "queue", "weight": -1}]}`:                                `1:42: scorers[0].weight is -1; it must not be negative`,
		`{"scorers": [{"kind": "queue", "weight": 1, "haf": 2}]}`:                       `1:52: scorers[0].haf is not known here; known are half, kind, name, norm, weight`,
		`{"scorers": [{"kind": "queue", "weight": 1, "half": -2}]}`:                     `1:14: scorers[0] scorer: invalid option: Queue.Half is -2`,
		`{"scorers": [{"kind": "queue", "weight": 1, "norm": "max"}]}`:                  `1:53: scorers[0].norm is "max"; known are absolute, relative, to-least`,
		`{"scorers": [{"kind": "queue", "weight": 1}, {"kind": "queue", "weight": 1}]}`: `Scorers[1].Name is "queue", which another one has`,
		`{"scorers": [{"kind": "signal", "weight": 1, "best": 1}]}`:                     `scorers[0] has no field`,
		`{"filters": [{"kind": "label", "all": ["x"]}]}`:                                `1:40: filters[0].all[0] is "x"; known labels are a, b`,
		`{"filters": [{"kind": "label"}]}`:                                              `1:14: filters[0] picker: invalid option: Label is empty`,
		`{"caps": [{"kind": "max-in-flight"}]}`:                                         `1:11: caps[0] picker: invalid option: MaxInFlight is 0`,
		`{"caps": [{"kind": "max-in-flight", "max": 1, "name": "skipped"}]}`:            `Caps[0].Name is "skipped"`,
		`{"caps": [{"kind": "queue"}]}`:                                                 `caps[0].kind is "queue"; known are label, max-in-flight`,
		`{"select": {"band": 2}}`:                                                       `1:12: select picker: invalid option: Options.Select.Band is 2`,
		`{"select": {"bands": 2}}`:                                                      `1:22: select.bands is not known here; known are band, bound`,
		strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat(`}`, 30):                     `is nested more than 8 deep`,
		strings.Repeat(`[`, 100_000):                                                    `is nested more than 8 deep`,
	} {
		_, err := picker.ParseOptions([]byte(text), picker.Names{Labels: map[string]uint64{"a": 1, "b": 2}})
		require.ErrorIs(t, err, picker.ErrPolicy, text)
		require.ErrorContains(t, err, want, text)
	}
}

// No text makes the reader panic, and what it accepts New accepts.
func FuzzParseOptions(f *testing.F) {
	f.Add([]byte(`{"scorers": [{"kind": "prefix", "weight": 2}], "caps": [{"kind": "max-signal", "field": "waiting", "max": 20}]}`))
	f.Add([]byte(`{"select": {"temperature": 1e-300, "max_ratio": 1}, "filters": [{"kind": "label", "any": ["a"]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := picker.ParseOptions(text, picker.Names{Labels: map[string]uint64{"a": 1}})
		if err != nil {
			require.ErrorIs(t, err, picker.ErrPolicy)
			return
		}
		pk, err := picker.New(o)
		require.NoError(t, err)
		_, _ = pk.Pick(&picker.Call{Candidates: endpoints(3)})
	})
}
