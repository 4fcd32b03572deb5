package enginemetrics_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

func scan(t testing.TB, page string) enginemetrics.Report {
	t.Helper()
	var s enginemetrics.Scanner
	var r enginemetrics.Report
	require.NoError(t, s.Scan([]byte(page), &r))
	return r
}

func signals(waiting, running, use float64) scorer.Signals {
	return scorer.Signals{Waiting: scorer.Known(waiting), Running: scorer.Known(running), CacheUse: scorer.Known(use)}
}

func TestPages(t *testing.T) {
	adapted := signals(3, 21, 0.4375390625)
	adapted.Adapters = scorer.NewAdapters(4)
	adapted.Adapters.AddRunning("sql-v2")
	adapted.Adapters.AddRunning(`say "hi"`)
	adapted.Adapters.AddWaiting("legal")
	for file, want := range map[string]enginemetrics.Report{
		"vllm.txt": {
			Engine: enginemetrics.VLLM, Signals: adapted,
			BlockTokens: 16, Blocks: 27648 + 27640, Ranks: 2, Asleep: 1, Started: 1.75930182034e+09,
			Adapters: enginemetrics.Adapters{
				Known: true, Slots: 4, Running: []string{"sql-v2", `say "hi"`}, Waiting: []string{"legal"},
			},
		},
		"vllm-0.8.txt": {
			Engine: enginemetrics.VLLM, Signals: signals(2, 1, 0.125), BlockTokens: 32, Ranks: 1,
		},
		"sglang.txt": {
			Engine: enginemetrics.SGLang, Signals: signals(30, 302, 0.31),
			BlockTokens: 64, Blocks: 62500, Ranks: 2,
		},
		"trtllm.txt": {
			Engine: enginemetrics.TensorRT, Signals: signals(1, 7, 0.5), BlockTokens: 32, Blocks: 4096, Ranks: 1,
		},
		"triton.txt": {
			Engine: enginemetrics.Triton, Signals: signals(5, 8, 0.0625), BlockTokens: 64, Blocks: 6239, Ranks: 1,
		},
	} {
		t.Run(file, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			require.Equal(t, want, scan(t, string(page)))
		})
	}
}

// What a scanner saw before changes nothing, and it keeps nothing of a page.
func TestScannerIsReused(t *testing.T) {
	var s enginemetrics.Scanner
	var r enginemetrics.Report
	var page []byte
	for _, file := range []string{"vllm.txt", "sglang.txt", "vllm-0.8.txt", "triton.txt", "vllm.txt", "vllm.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		page = append(page[:0], text...)
		require.NoError(t, s.Scan(page, &r))
		clear(page)
		require.Equal(t, scan(t, string(text)), r, file)
	}
}

func TestEngineTestsPage(t *testing.T) {
	engine, err := enginetest.New(enginetest.Options{Blocks: 100, Adapters: []string{"a", "b"}})
	require.NoError(t, err)
	defer engine.Close()
	page := func() enginemetrics.Report {
		rec := httptest.NewRecorder()
		engine.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		return scan(t, rec.Body.String())
	}
	r := page()
	started := r.Started
	require.Positive(t, started)
	r.Started = 0
	require.Equal(t, enginemetrics.Report{
		Engine: enginemetrics.VLLM, Signals: signals(0, 0, 0), BlockTokens: 16, Blocks: 100, Ranks: 1,
	}, r)

	_, err = engine.Generate(t.Context(), enginetest.Request{Model: "a", Prompt: make([]uint32, 16), MaxTokens: 1})
	require.NoError(t, err)
	require.Equal(t, enginemetrics.Adapters{Known: true, Slots: 2}, page().Adapters)

	require.NoError(t, engine.Restart())
	r = page()
	require.Greater(t, r.Started, started)
	require.False(t, r.Adapters.Known)
}

const three = "vllm:num_requests_waiting 1\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n"

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want float64 // of waiting
		bad  int
		nan  int
	}{
		"bare":                   {line: `vllm:num_requests_waiting 7`, want: 7},
		"no labels":              {line: `vllm:num_requests_waiting{} 7`, want: 7},
		"blanks":                 {line: "\t vllm:num_requests_waiting \t{ engine = \"0\" ,\tx=\"\" , }\t 7 \t", want: 7},
		"no blank before value":  {line: `vllm:num_requests_waiting{engine="0"}7`, want: 7},
		"timestamp":              {line: `vllm:num_requests_waiting 7 1700000000000`, want: 7},
		"exponent":               {line: `vllm:num_requests_waiting 7e0`, want: 7},
		"plus":                   {line: `vllm:num_requests_waiting +7.`, want: 7},
		"point first":            {line: `vllm:num_requests_waiting .5`, want: 0.5},
		"negative":               {line: `vllm:num_requests_waiting -7`, want: -7},
		"many digits":            {line: `vllm:num_requests_waiting 7.000000000000000000001`, want: 7},
		"large":                  {line: `vllm:num_requests_waiting 1e300`, want: 1e300},
		"escapes":                {line: `vllm:num_requests_waiting{a="\\",b="\"} 9",c="\n",d="{,}"} 7`, want: 7},
		"other letters":          {line: `vllm:num_requests_waiting{a="日本語"} 7`, want: 7},
		"NaN":                    {line: `vllm:num_requests_waiting NaN`, want: math.NaN(), nan: 1},
		"Inf":                    {line: `vllm:num_requests_waiting +Inf`, want: math.NaN(), nan: 1},
		"no value":               {line: `vllm:num_requests_waiting`, want: math.NaN(), bad: 1},
		"no value, labels":       {line: `vllm:num_requests_waiting{a="b"}`, want: math.NaN(), bad: 1},
		"text":                   {line: `vllm:num_requests_waiting seven`, want: math.NaN(), bad: 1},
		"hexadecimal":            {line: `vllm:num_requests_waiting 0x7p0`, want: math.NaN(), bad: 1},
		"underscore":             {line: `vllm:num_requests_waiting 1_0`, want: math.NaN(), bad: 1},
		"bad timestamp":          {line: `vllm:num_requests_waiting 7 soon`, want: math.NaN(), bad: 1},
		"too many words":         {line: `vllm:num_requests_waiting 7 1 1`, want: math.NaN(), bad: 1},
		"carriage return":        {line: "vllm:num_requests_waiting 7\r", want: math.NaN(), bad: 1},
		"brace open":             {line: `vllm:num_requests_waiting{a="b" 7`, want: math.NaN(), bad: 1},
		"quote open":             {line: `vllm:num_requests_waiting{a="b} 7`, want: math.NaN(), bad: 1},
		"no quotes":              {line: `vllm:num_requests_waiting{a=b} 7`, want: math.NaN(), bad: 1},
		"no equals":              {line: `vllm:num_requests_waiting{a} 7`, want: math.NaN(), bad: 1},
		"no label name":          {line: `vllm:num_requests_waiting{="b"} 7`, want: math.NaN(), bad: 1},
		"unknown escape":         {line: `vllm:num_requests_waiting{a="\t"} 7`, want: math.NaN(), bad: 1},
		"escape at the end":      {line: `vllm:num_requests_waiting{a="\`, want: math.NaN(), bad: 1},
		"comma alone":            {line: `vllm:num_requests_waiting{,} 7`, want: math.NaN(), bad: 1},
		"longer name":            {line: `vllm:num_requests_waiting_by_reason 7`, want: math.NaN()},
		"longer name than any":   {line: strings.Repeat("vllm:num_requests_waiting", 9) + ` 7`, want: math.NaN()},
		"comment":                {line: `#vllm:num_requests_waiting 7`, want: math.NaN()},
		"duplicate":              {line: "vllm:num_requests_waiting 3\nvllm:num_requests_waiting 7\nvllm:num_requests_waiting 7", want: 7},
		"one bad of two":         {line: "vllm:num_requests_waiting{engine=\"0\"} 7\nvllm:num_requests_waiting{engine=\"1\"} x", want: 7, bad: 1},
		"one NaN of two":         {line: "vllm:num_requests_waiting{engine=\"0\"} 7\nvllm:num_requests_waiting{engine=\"1\"} NaN", want: 7, nan: 1},
		"ranks with other names": {line: "vllm:num_requests_waiting{engine=\"a\"} 3\nvllm:num_requests_waiting 4", want: 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := scan(t, "vllm:num_requests_running 2\n"+c.line+"\n")
			want := scorer.Known(c.want)
			require.Equal(t, want, r.Signals.Waiting)
			require.Equal(t, c.bad, r.BadLines)
			require.Equal(t, c.nan, r.NotNumbers)
		})
	}
}

func TestRefusedPages(t *testing.T) {
	var s enginemetrics.Scanner
	var r enginemetrics.Report
	for page, want := range map[string]error{
		"":                               enginemetrics.ErrForeign,
		"\n":                             enginemetrics.ErrForeign,
		"<html></html>\n":                enginemetrics.ErrForeign,
		"process_start_time_seconds 1\n": enginemetrics.ErrForeign,
		"vllm:num_requests_waiting 1\nvllm:num_requests_running 1": enginemetrics.ErrTruncated,
	} {
		require.ErrorIs(t, s.Scan([]byte(page), &r), want, page)
	}
	// Wherever a page is cut, what is read of it is not wrong.
	for n := range len(three) {
		if s.Scan([]byte(three[:n]), &r) == nil {
			w, known := r.Signals.Waiting.Get()
			require.True(t, !known || w == 1)
			require.Equal(t, 3-strings.Count(three[:n], "\n"), r.Missing)
		}
	}
}

func TestMissingFamilies(t *testing.T) {
	r := scan(t, "sglang:num_queue_reqs 1\nvllm:kv_cache_usage_perc NaN\nvllm:num_requests_running 3\n")
	require.Equal(t, enginemetrics.VLLM, r.Engine, "it has more of the three")
	require.Equal(t, 1, r.Missing, "NaN is there")
	require.Equal(t, scorer.Signals{Running: scorer.Known(3)}, r.Signals)
}

func TestNewerNameOfCacheUseCounts(t *testing.T) {
	r := scan(t, "vllm:gpu_cache_usage_perc 0.25\nvllm:kv_cache_usage_perc 0.75\n")
	require.Equal(t, scorer.Known(0.75), r.Signals.CacheUse)
}

func TestOldestTimestamp(t *testing.T) {
	r := scan(t, "vllm:num_requests_waiting 1 1700000000500\nvllm:num_requests_running 2 1700000000000\n"+
		"vllm:kv_cache_usage_perc 0.5\nvllm:prompt_tokens_total 2 5\n")
	require.Equal(t, int64(1700000000000), r.Oldest)
}

func TestRanksAreBounded(t *testing.T) {
	var page strings.Builder
	for i := range 300 {
		fmt.Fprintf(&page, "vllm:num_requests_waiting{engine=\"%d\"} 1\n", i)
	}
	r := scan(t, page.String())
	require.Equal(t, scorer.Known(256), r.Signals.Waiting)
	require.Equal(t, 44, r.Clipped)
}

// A list of thousands of adapters is one line.
func TestLongLine(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf(`adapter-\\%d`, i))
	}
	r := scan(t, three+`vllm:lora_requests_info{running_lora_adapters="`+strings.Join(names, ",")+`"} 1`+"\n")
	require.Len(t, r.Adapters.Running, 5000)
	require.Equal(t, `adapter-\4999`, r.Adapters.Running[4999])
}

func TestScanAllocatesNothing(t *testing.T) {
	for _, file := range []string{"vllm.txt", "vllm-0.8.txt", "sglang.txt", "trtllm.txt", "triton.txt"} {
		page, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		var s enginemetrics.Scanner
		var r enginemetrics.Report
		require.Zero(t, testing.AllocsPerRun(20, func() { _ = s.Scan(page, &r) }), file)
	}
}
