package debugview

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/scorer"
)

// functions are what the pages write numbers with.
func functions() template.FuncMap {
	return template.FuncMap{
		"ago":     ago,
		"took":    took,
		"count":   count,
		"bytes":   bytesOf,
		"percent": func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) },
		"since":   func(now, then time.Time) time.Duration { return now.Sub(then) },
		"number": func(v scorer.Value) string {
			if x, known := v.Get(); known {
				return count(x)
			}
			return "–"
		},
		"get":   func(v scorer.Value) float64 { x, _ := v.Get(); return x },
		"known": func(v scorer.Value) bool { _, known := v.Get(); return known },
		"chart": newChart,
		"stack": stack,
		"found": func(reported, predicted uint64) string {
			if reported > predicted {
				return "> 100 %"
			}
			return fmt.Sprintf("%.0f %%", 100*share(reported, predicted))
		},
		"signed": func(x float64) string { return minus(fmt.Sprintf("%+.3f", x)) },
		"abs":    math.Abs,
		"round":  math.Round,
		"minus":  minus,
		"mod":    func(i int) int { return i % colours },
		"scale":  func(x, by float64) float64 { return math.Round(x*by*100) / 100 },
	}
}

// minus writes numbers with a sign that is as wide as a plus, and none before what rounds
// to nothing.
func minus(s string) string {
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return strings.ReplaceAll(s, "-", "−")
}

// ago writes how long something is past: 340 ms, 12 s, 5 min, 3 h.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
}

// took writes how long something lasted, from microseconds to minutes.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < 10*time.Second:
		return fmt.Sprintf("%s ms", count(math.Round(float64(d)/1e6)))
	default:
		return ago(d)
	}
}

// count writes 7000 as 7,000.
func count(n any) string {
	var s string
	switch n := n.(type) {
	case float64:
		if n != math.Trunc(n) || math.Abs(n) > 1e15 {
			return strconv.FormatFloat(n, 'g', 3, 64)
		}
		s = strconv.FormatFloat(n, 'f', 0, 64)
	default:
		s = fmt.Sprint(n)
	}
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func bytesOf(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
}
