package main

// The verdicts on a row.
const (
	verdictOK       = "ok"
	verdictMoonshot = "moonshot" // better than the budget asks
	verdictSlack    = "slack"    // over budget, but a time, and not by more than the slack
	verdictMiss     = "MISS"
	verdictMissing  = "MISSING" // not measured
	verdictNoBase   = "NO BASE" // its base was not measured
	verdictFew      = "FEW"     // measured, but not often enough to judge
)

// A judgement is a budget beside what was measured.
type judgement struct {
	budget
	samples       int // the fewer of the row's and its base's
	median, ratio float64
	spread        float64 // half of the distance between the quartiles, as a share of the median
	verdict       string
}

func (j *judgement) holds() bool {
	return j.verdict == verdictOK || j.verdict == verdictMoonshot || j.verdict == verdictSlack
}

// judge compares medians. A row with fewer than count samples does not hold.
func judge(rows []budget, r *results, count int, slack float64) []judgement {
	judged := make([]judgement, len(rows))
	for i, row := range rows {
		judged[i] = judgeRow(row, r, count, slack)
	}
	return judged
}

func judgeRow(row budget, r *results, count int, slack float64) judgement {
	j := judgement{budget: row, verdict: verdictMissing}
	own := r.samples[row.quantity]
	if j.samples = len(own); j.samples == 0 {
		return j
	}
	j.median, j.spread = center(own)
	var base float64
	if row.base != nil {
		of := r.samples[*row.base]
		if len(of) == 0 {
			j.verdict = verdictNoBase
			return j
		}
		j.samples = min(j.samples, len(of))
		base, _ = center(of)
		j.ratio = j.median / base
	}
	// Comparisons are written so that a figure that is not a number holds nothing.
	switch {
	case j.samples < count:
		j.verdict = verdictFew
	case row.moonshot != nil && j.median <= row.moonshot.of(base):
		j.verdict = verdictMoonshot
	case j.median <= row.limit.of(base):
		j.verdict = verdictOK
	case slack > 1 && inTime(row.metric) && j.median <= slack*row.limit.of(base):
		j.verdict = verdictSlack
	default:
		j.verdict = verdictMiss
	}
	return j
}

func center(samples []float64) (median, spread float64) {
	lower, median, upper := quartiles(samples)
	if upper > lower {
		spread = (upper - lower) / 2 / median
	}
	return median, spread
}
