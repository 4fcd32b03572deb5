package debugview

import (
	"fmt"
	"strings"
	"time"
)

// chart is the history as paths of an SVG, chartWidth wide and chartHeight high.
type chart struct {
	Predicted, Reported string
	Now, NowReported    float64 // of the last bucket with any, or -1
	Ended, Failed       string  // columns
	Most                uint64  // requests that ended in a bucket, at most
	Scale, HalfScale    string  // of the columns, in requests a second
	From, Middle        string  // of time: how long ago
}

const (
	chartWidth  = 600
	chartHeight = 120
	colours     = 8 // in page.css
)

// fewPoints is what a chart shows if there is no older history.
const fewPoints = buckets / 5

func newChart(points []point) chart {
	for len(points) > fewPoints && points[0].Ended == 0 {
		points = points[1:]
	}
	c := chart{Now: -1, NowReported: -1}
	for i := range points {
		c.Most = max(c.Most, points[i].Ended)
		if points[i].Predicted >= 0 {
			c.Now = points[i].Predicted
		}
		if points[i].Reported >= 0 {
			c.NowReported = points[i].Reported
		}
	}
	from := bucket * time.Duration(len(points))
	c.From, c.Middle = ago(from), ago(from/2)
	perSecond := float64(c.Most) / bucket.Seconds()
	c.Scale, c.HalfScale = fmt.Sprintf("%.3g/s", perSecond), fmt.Sprintf("%.2g/s", perSecond/2)
	c.Predicted = line(points, func(p *point) float64 { return p.Predicted })
	c.Reported = line(points, func(p *point) float64 { return p.Reported })
	c.Ended = columns(points, c.Most, func(p *point) uint64 { return p.Ended })
	c.Failed = columns(points, c.Most, func(p *point) uint64 { return p.Failed })
	return c
}

// line draws shares. Neighbours are joined; one by itself is a short dash.
func line(points []point, of func(*point) float64) string {
	var b strings.Builder
	step := float64(chartWidth) / float64(len(points))
	for i := range points {
		y := of(&points[i])
		if y < 0 {
			continue
		}
		verb := "L"
		if i == 0 || of(&points[i-1]) < 0 {
			verb = "M"
		}
		y = (1 - y) * chartHeight
		fmt.Fprintf(&b, "%s%.1f %.1fL%.1f %.1f", verb, float64(i)*step, y, float64(i+1)*step, y)
	}
	return b.String()
}

// columns draws counts.
func columns(points []point, most uint64, of func(*point) uint64) string {
	var b strings.Builder
	step := float64(chartWidth) / float64(len(points))
	for i := range points {
		if n := of(&points[i]); n > 0 {
			h := chartHeight * float64(n) / float64(most)
			fmt.Fprintf(&b, "M%.1f %dv%.1fh%.1fv%.1fz", float64(i)*step, chartHeight, -h, step-1, h)
		}
	}
	return b.String()
}

// segment is a part of a bar.
type segment struct {
	Scorer       int
	Name         string
	X, Width, By float64
}

// stack lays the parts of a bar one after the other, 0 to 1 being 0 to width.
func stack(parts []float64, names []string, width float64) (list []segment) {
	x := 0.0
	for j, by := range parts {
		if by > 0 {
			list = append(list, segment{j % colours, names[j], x * width, by * width, by})
		}
		x += by
	}
	return list
}
