package enginemetrics_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/scorer"
	"github.com/warmroute/warmroute/scorer/enginemetrics"
)

// plainSample is a second reading of the format, by regular expressions.
var (
	plainSample = regexp.MustCompile(`^[ \t]*([a-zA-Z0-9_:]+)[ \t]*(?:\{((?:[^"]|"(?:[^"\\]|\\.)*")*)\})?[ \t]*([^ \t]+)(?:[ \t]+([-+]?[0-9]{1,18}))?[ \t]*$`)
	plainLabels = regexp.MustCompile(`^[ \t]*(?:([a-zA-Z0-9_:]+)[ \t]*=[ \t]*"((?:[^"\\]|\\[\\n"])*)"[ \t]*(?:,|$)[ \t]*)`)
)

// plain returns the three gauges of vLLM as a page has them; bad is the number of
// malformed lines of those.
func plain(page string) (s scorer.Signals, bad int) {
	values := map[string]map[string]float64{}
	for line := range strings.SplitSeq(page, "\n") {
		name := strings.TrimLeft(line, " \t")
		if i := strings.IndexFunc(name, func(c rune) bool {
			return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':')
		}); i >= 0 {
			name = name[:i]
		}
		switch name {
		case "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc":
		default:
			continue
		}
		m := plainSample.FindStringSubmatch(line)
		if len(m) == 0 || m[1] != name {
			bad++
			continue
		}
		engine, ok := plainEngine(m[2])
		v, err := strconv.ParseFloat(m[3], 64)
		if !ok || err != nil || strings.ContainsAny(m[3], "xXpP_") {
			bad++
			continue
		}
		if values[name] == nil {
			values[name] = map[string]float64{}
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if old, seen := values[name][engine]; !seen || v > old {
			values[name][engine] = v
		}
	}
	total := func(name string, of func(sum, v float64) float64) scorer.Value {
		if len(values[name]) == 0 {
			return scorer.Value{}
		}
		sum := math.Inf(-1)
		for _, v := range values[name] {
			sum = of(sum, v)
		}
		return scorer.Known(sum)
	}
	add := func(sum, v float64) float64 {
		if math.IsInf(sum, -1) {
			return v
		}
		return sum + v
	}
	return scorer.Signals{
		Waiting:  total("vllm:num_requests_waiting", add),
		Running:  total("vllm:num_requests_running", add),
		CacheUse: total("vllm:kv_cache_usage_perc", math.Max),
	}, bad
}

// plainEngine returns the first label engine.
func plainEngine(labels string) (engine string, ok bool) {
	found := false
	for strings.Trim(labels, " \t") != "" {
		m := plainLabels.FindStringSubmatch(labels)
		if m == nil {
			return "", false
		}
		if m[1] == "engine" && !found {
			engine, found = m[2], true
		}
		labels = labels[len(m[0]):]
	}
	return engine, true
}

func FuzzScan(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	for _, file := range files {
		page, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(page))
	}
	f.Add("vllm:num_requests_waiting{engine=\"0\",a=\"\\\\\\\"\\n\"} 1e3 17\nvllm:num_requests_waiting{engine=\"1\"} -.5\n")
	f.Add("vllm:num_requests_waiting{engine=\"0\",} NaN\nvllm:num_requests_running{}Inf\nvllm:kv_cache_usage_perc 0x1p-2\n")
	f.Fuzz(func(t *testing.T, page string) {
		var s enginemetrics.Scanner
		var r enginemetrics.Report
		switch err := s.Scan([]byte(page), &r); {
		case page != "" && !strings.HasSuffix(page, "\n"):
			require.ErrorIs(t, err, enginemetrics.ErrTruncated)
			return
		case err != nil:
			require.ErrorIs(t, err, enginemetrics.ErrForeign)
		case r.Engine != enginemetrics.VLLM || r.Clipped > 0 ||
			strings.Contains(page, "vllm:gpu") || strings.Count(page, "engine") > 2:
			return // not what plain reads, or a sum that depends on its order
		}
		want, bad := plain(page)
		if err == nil {
			require.Equal(t, want, r.Signals)
		} else {
			require.Equal(t, scorer.Signals{}, want)
		}
		if !strings.Contains(page, "vllm:c") && !strings.Contains(page, "vllm:e") && !strings.Contains(page, "vllm:l") &&
			!strings.Contains(page, "sglang") && !strings.Contains(page, "trt") && !strings.Contains(page, "process") {
			require.Equal(t, bad, r.BadLines)
		}
	})
}
