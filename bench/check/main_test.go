package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const budgetsText = `
# comment
Hash            ns/op     4x      3x    Floor   # more comment
Hash            allocs/op 0       -
Match/owners=64 p99-ns    5x      2x    :idle-ns
GC              gc-ns     2x+5ms  -     :empty-ns
Memory          B/block   80      60
`

// output is what ten good runs print, with the time of Hash as given.
func output(hash float64) string {
	var b strings.Builder
	b.WriteString("goos: linux\ngoarch: amd64\npkg: example.com/bench\ncpu: Some CPU\n")
	for i := range 10 {
		noise := 1 + float64(i)/100
		fmt.Fprintf(&b, "BenchmarkFloor-2 \t 300000\t %.1f ns/op\t 12000.00 MB/s\t 0 B/op\t 0 allocs/op\n", 3500*noise)
		fmt.Fprintf(&b, "BenchmarkHash-2 \t 100000\t %.1f ns/op\t 0 B/op\t 0 allocs/op\n", hash*noise)
		fmt.Fprintf(&b, "BenchmarkMatch/owners=64-2 \t 1\t 200.0 idle-ns\t 700.0 p99-ns\n")
		fmt.Fprintf(&b, "BenchmarkGC-2 \t 50\t 500000 empty-ns\t 5900000 gc-ns\n")
		fmt.Fprintf(&b, "BenchmarkMemory-2 \t 1\t 59.5 B/block\n")
	}
	b.WriteString("PASS\nok  \texample.com/bench\t12.3s\n")
	return b.String()
}

// check runs the program on text and returns what it prints.
func check(t *testing.T, text string, flags ...string) (string, error) {
	t.Helper()
	budgets := filepath.Join(t.TempDir(), "budgets.txt")
	require.NoError(t, os.WriteFile(budgets, []byte(budgetsText), 0o600))
	var out bytes.Buffer
	err := run(append([]string{"-budgets", budgets}, flags...), strings.NewReader(text), &out)
	return out.String(), err
}

func TestWithinBudget(t *testing.T) {
	out, err := check(t, output(12_000))
	require.NoError(t, err)
	require.Equal(t, `goos: linux
goarch: amd64
cpu: Some CPU

benchmark        metric     median   spread  ratio  budget  moonshot  verdict   n
Hash             ns/op      12.5 µs  2%      3.43x  4x      3x        ok        10
Hash             allocs/op  0        0%             0                 ok        10
Match/owners=64  p99-ns     700 ns   0%      3.5x   5x      2x        ok        10
GC               gc-ns      5.9 ms   0%      11.8x  2x+5ms            ok        10
Memory           B/block    59.5     0%             80      60        moonshot  10

5 of 5 rows hold, 1 of them reach the moonshot.
`, out)
}

func TestSlowDownFails(t *testing.T) {
	out, err := check(t, output(2*12_000))
	require.ErrorIs(t, err, errMiss)
	require.Regexp(t, `Hash +ns/op .* 6\.86x +4x +3x +MISS +10\n`, out)
	require.Contains(t, out, "4 of 5 rows hold")
}

func TestSlackIsForTimesAlone(t *testing.T) {
	out, err := check(t, output(2*12_000), "-slack", "2")
	require.NoError(t, err)
	require.Regexp(t, `Hash +ns/op .* 6\.86x +4x +3x +slack +10\n`, out)
	_, err = check(t, output(2*12_000), "-slack", "1.5")
	require.ErrorIs(t, err, errMiss)
	large := strings.ReplaceAll(output(12_000), "59.5 B/block", "81 B/block")
	_, err = check(t, large, "-slack", "9")
	require.ErrorIs(t, err, errMiss)
	for _, bad := range []string{"0", "0.9", "NaN", "-1"} {
		_, err = check(t, output(12_000), "-slack", bad)
		require.ErrorContains(t, err, "-slack")
	}
}

func TestSlowMachinePasses(t *testing.T) {
	slow := strings.NewReplacer("BenchmarkFloor-2 \t 300000\t 3", "BenchmarkFloor-2 \t 300000\t 13").
		Replace(output(4 * 12_000))
	out, err := check(t, slow)
	require.NoError(t, err, out)
}

func TestOneAllocationFails(t *testing.T) {
	text := output(12_000)
	for i := range 10 { // six of the ten counts, so that the median is 1
		if i < 6 {
			at := strings.Index(text, "ns/op\t 0 B/op\t 0 allocs")
			text = text[:at] + "ns/op\t 16 B/op\t 1 allocs" + text[at+len("ns/op\t 0 B/op\t 0 allocs"):]
		}
	}
	out, err := check(t, text)
	require.ErrorIs(t, err, errMiss)
	require.Regexp(t, `Hash +allocs/op +1 .* MISS`, out)
}

func TestMissingFails(t *testing.T) {
	for _, test := range []struct{ name, without, row string }{
		{"row", "BenchmarkMemory", `Memory +B/block .* MISSING +0`},
		{"base", "BenchmarkFloor", `Hash +ns/op .* NO BASE +10`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var kept []string
			for line := range strings.SplitSeq(output(12_000), "\n") {
				if !strings.HasPrefix(line, test.without) {
					kept = append(kept, line)
				}
			}
			out, err := check(t, strings.Join(kept, "\n"))
			require.ErrorIs(t, err, errMiss)
			require.Regexp(t, test.row, out)
		})
	}
}

func TestTooFewCountsFail(t *testing.T) {
	out, err := check(t, output(12_000), "-count", "11")
	require.ErrorIs(t, err, errMiss)
	require.Contains(t, out, "0 of 5 rows hold")
	require.Contains(t, out, verdictFew)
}

func TestBaseOfZeroOrNaNFails(t *testing.T) {
	for _, base := range []string{"0", "NaN"} {
		out, err := check(t, strings.ReplaceAll(output(12_000), "200.0 idle-ns", base+" idle-ns"))
		require.ErrorIs(t, err, errMiss, out)
	}
}

func TestUnusableInput(t *testing.T) {
	for _, test := range []struct{ name, text, says string }{
		{"empty", "", "no benchmark results"},
		{"failed", output(12_000) + "--- FAIL: BenchmarkMatch\n", "benchmarks failed"},
		{"not built", "FAIL\texample.com/bench [build failed]\n", "benchmarks failed"},
		{"processors", output(12_000) + "BenchmarkFloor-4 \t 1\t 3500 ns/op\n", "processors"},
		{"cut off", "BenchmarkFloor-2 \t 1\t 3500\n", "do not pair"},
		{"garbled", "BenchmarkFloor-2 \t 1\t many ns/op\n", "invalid syntax"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := check(t, test.text)
			require.NotErrorIs(t, err, errMiss)
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestUnusableBudgets(t *testing.T) {
	for _, test := range []struct{ name, text, says string }{
		{"empty", "# nothing\n", "no budgets"},
		{"columns", "Hash ns/op 4x\n", "3 columns"},
		{"number", "Hash ns/op fast -\n", `"fast"`},
		{"negative", "Hash ns/op -1 -\n", "0 or more"},
		{"duration of bytes", "Memory B/block 5ms -\n", "0 or more"},
		{"no base", "Hash ns/op 4x -\n", "no base"},
		{"no base for the moonshot", "Hash ns/op 4 3x\n", "no base"},
		{"base without a multiple", "Hash ns/op 4 - Floor\n", "no multiple"},
		{"own base", "Hash ns/op 4x - Hash\n", "its own base"},
		{"twice", "Hash ns/op 4 -\nHash ns/op 5 -\n", "line 2: Hash ns/op has a budget on line 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readBudgets(strings.NewReader(test.text))
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestPattern(t *testing.T) {
	out, err := check(t, "", "-pattern")
	require.NoError(t, err)
	require.Equal(t, "^BenchmarkHash$|^BenchmarkFloor$|^BenchmarkMatch$/^owners=64$|^BenchmarkGC$|^BenchmarkMemory$\n", out)
}

func TestTable(t *testing.T) {
	out, err := check(t, output(12_000), "-table")
	require.NoError(t, err)
	require.Regexp(t, `Match/owners=64 +10 +idle 200 ns +p99 700 ns\n`, out)
	require.Regexp(t, `Floor +10 +3\.66 µs/op ±2% +12000 MB/s +0 B/op +0 allocs/op\n`, out)
}

// The budgets that the project judges by must be readable too.
func TestProjectBudgets(t *testing.T) {
	_, err := readBudgetsFile("../budgets.txt")
	require.NoError(t, err)
}

func TestQuartiles(t *testing.T) {
	for _, test := range []struct {
		samples              []float64
		lower, median, upper float64
	}{
		{[]float64{7}, 7, 7, 7},
		{[]float64{2, 1}, 1.25, 1.5, 1.75},
		{[]float64{5, 1, 4, 2, 3}, 2, 3, 4},
	} {
		lower, median, upper := quartiles(test.samples)
		require.Equal(t, []float64{test.lower, test.median, test.upper}, []float64{lower, median, upper})
	}
}
