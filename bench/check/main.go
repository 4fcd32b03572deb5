// Command check compares benchmark results with budgets.
//
// It reads the output of "go test -bench", of several counts and from as many runs
// as one likes, takes the median of each figure, and prints a row for each line of
// the budgets file. It exits with 1 if a budget does not hold, was not measured, or
// was measured less than -count times, and with 2 if it cannot tell.
//
//	check [-budgets file] [-count n] [-slack x] [results ...]
//	                                                 judge; without files, read standard input
//	check -table [results ...]                       print medians, judge nothing
//	check -pattern [-budgets file]                   print a -bench pattern that runs what is judged
//
// Most budgets are ratios of two medians of the same run, so that they hold on a
// slow machine as on a fast one. On one that is busy with other things, and of few
// counts, medians of times say little: -slack 3 lets them be three times their budget,
// which still finds what got slower by its design. Bytes and allocations get no slack.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case errors.Is(err, errMiss): // the table says it
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
}

// errMiss means that a budget does not hold, or that it cannot be said to.
var errMiss = errors.New("over budget")

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ExitOnError)
	var (
		budgets = flags.String("budgets", "bench/budgets.txt", "the budgets `file`")
		count   = flags.Int("count", 10, "the fewest `samples` that a row may be judged by")
		slack   = flags.Float64("slack", 1, "by what `factor` a time may exceed its budget")
		medians = flags.Bool("table", false, "print medians and judge nothing")
		names   = flags.Bool("pattern", false, "print the -bench pattern of what has a budget")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !(*slack >= 1) {
		return fmt.Errorf("-slack is %v, want 1 or more", *slack)
	}
	if *medians {
		r, err := readResults(flags.Args(), stdin)
		if err != nil {
			return err
		}
		_, err = io.WriteString(stdout, resultsTable(r))
		return err
	}
	rows, err := readBudgetsFile(*budgets)
	if err != nil {
		return err
	}
	if *names {
		_, err := io.WriteString(stdout, pattern(rows)+"\n")
		return err
	}
	r, err := readResults(flags.Args(), stdin)
	if err != nil {
		return err
	}
	judged := judge(rows, r, *count, *slack)
	if _, err := io.WriteString(stdout, judgementTable(judged, r)); err != nil {
		return err
	}
	if slices.ContainsFunc(judged, func(j judgement) bool { return !j.holds() }) {
		return errMiss
	}
	return nil
}

func readBudgetsFile(name string) (rows []budget, err error) {
	err = readFile(name, func(in io.Reader) (err error) {
		rows, err = readBudgets(in)
		return err
	})
	return rows, err
}

func readResults(files []string, stdin io.Reader) (*results, error) {
	r := newResults()
	if len(files) == 0 {
		if err := r.read(stdin); err != nil {
			return nil, err
		}
	}
	for _, name := range files {
		if err := readFile(name, r.read); err != nil {
			return nil, err
		}
	}
	if len(r.order) == 0 {
		return nil, errors.New("no benchmark results")
	}
	return r, nil
}

func readFile(name string, read func(io.Reader) error) error {
	f, err := os.Open(name) //nolint:gosec // whoever runs the program names its files
	if err != nil {
		return err
	}
	defer f.Close()
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
