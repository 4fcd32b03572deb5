package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are the figures of one or more runs of "go test -bench".
type results struct {
	order   []quantity // as first seen
	samples map[quantity][]float64
	procs   map[string]string // benchmark -> number of processors
	about   []string          // machine and versions, as go test prints them
}

var (
	benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-(\d+))?\s+\d+\s+(.+)$`)
	aboutLine     = regexp.MustCompile(`^(goos|goarch|cpu): `)
	failedLine    = regexp.MustCompile(`^(FAIL\b|--- FAIL|\s+--- FAIL|panic: |fatal error: )`)
)

func newResults() *results {
	return &results{samples: map[quantity][]float64{}, procs: map[string]string{}}
}

// read adds the output of a run. A run that failed is an error: what it did print
// says nothing about what it did not come to.
func (r *results) read(in io.Reader) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := scan.Text()
		switch {
		case failedLine.MatchString(line):
			return fmt.Errorf("the benchmarks failed: %s", line)
		case aboutLine.MatchString(line):
			if !slices.Contains(r.about, line) {
				r.about = append(r.about, line)
			}
		default:
			if m := benchmarkLine.FindStringSubmatch(line); m != nil {
				if err := r.add(m[1], m[2], strings.Fields(m[3])); err != nil {
					return fmt.Errorf("%q: %w", line, err)
				}
			}
		}
	}
	return scan.Err()
}

func (r *results) add(benchmark, procs string, figures []string) error {
	if before, ok := r.procs[benchmark]; ok && before != procs {
		return fmt.Errorf("%s ran with %q and with %q processors: not one figure", benchmark, before, procs)
	}
	r.procs[benchmark] = procs
	if len(figures)%2 != 0 {
		return fmt.Errorf("figures and units do not pair")
	}
	for i := 0; i < len(figures); i += 2 {
		v, err := strconv.ParseFloat(figures[i], 64)
		if err != nil {
			return err
		}
		q := quantity{benchmark, figures[i+1]}
		if r.samples[q] == nil {
			r.order = append(r.order, q)
		}
		r.samples[q] = append(r.samples[q], v)
	}
	return nil
}

// quartiles returns the lower quartile, the median and the upper quartile, between
// neighbours where they fall between two samples; there must be a sample.
func quartiles(samples []float64) (lower, median, upper float64) {
	s := slices.Sorted(slices.Values(samples))
	at := func(share float64) float64 {
		pos := share * float64(len(s)-1)
		i := int(pos)
		if i+1 == len(s) {
			return s[i]
		}
		return s[i] + (pos-float64(i))*(s[i+1]-s[i])
	}
	return at(0.25), at(0.5), at(0.75)
}
