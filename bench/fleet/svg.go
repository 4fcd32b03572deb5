package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// chart is lines over one axis. Each line has its name at its end.
type chart struct {
	title, x, y string // y with its unit
	log         bool   // the y axis
	lines       []line
}

type line struct {
	name   string
	x, y   []float64 // NaN is left out
	strong bool
}

const (
	chartWidth, chartHeight = 760, 400
	plotLeft, plotTop       = 64, 40
	plotRight, plotBottom   = chartWidth - 150, chartHeight - 48
	labelHeight             = 14
	ink, pale               = "#24292f", "#d0d7de"
	strongColour            = "#cf222e"
)

// svg draws the chart.
func (c *chart) svg() string {
	colours := []string{"#0969da", "#1a7f37", "#9a6700", "#8250df", "#0a7f8a", "#6e7781", "#bf3989", "#4d2d00"}
	var b strings.Builder
	x, y := c.axes()
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12" fill="%s">`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight, ink)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	text := func(x, y float64, anchor, more, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n",
			x, y, anchor, more, html.EscapeString(s))
	}
	text(plotLeft, 20, "start", ` font-size="14" font-weight="bold"`, c.title)
	for _, t := range y.ticks {
		at := y.at(t, plotBottom, plotTop)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s"/>`+"\n", plotLeft, at, plotRight, pale)
		text(plotLeft-6, at+4, "end", "", number(t))
	}
	for _, t := range x.ticks {
		text(x.at(t, plotLeft, plotRight), plotBottom+18, "middle", "", number(t))
	}
	text((plotLeft+plotRight)/2, chartHeight-10, "middle", "", c.x)
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		(plotTop+plotBottom)/2, html.EscapeString(c.y))

	type label struct {
		at           float64
		name, colour string
	}
	var labels []label
	for i, l := range c.lines {
		colour, width := colours[i%len(colours)], 1.5
		if l.strong {
			colour, width = strongColour, 3
		}
		var path strings.Builder
		last := math.NaN()
		for k := range l.x {
			if math.IsNaN(l.y[k]) {
				continue
			}
			step := "L"
			if path.Len() == 0 {
				step = "M"
			}
			last = y.at(l.y[k], plotBottom, plotTop)
			fmt.Fprintf(&path, "%s%.1f %.1f", step, x.at(l.x[k], plotLeft, plotRight), last)
		}
		if path.Len() == 0 {
			continue
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="%g"/>`+"\n", &path, colour, width)
		labels = append(labels, label{last, l.name, colour})
	}
	// Names that would overlap are moved down, and then all up as far as there is room.
	slices.SortStableFunc(labels, func(p, q label) int { return int(math.Copysign(1, p.at-q.at)) })
	for i := 1; i < len(labels); i++ {
		labels[i].at = max(labels[i].at, labels[i-1].at+labelHeight)
	}
	for i, floor := len(labels)-1, float64(plotBottom); i >= 0; i-- {
		labels[i].at = min(labels[i].at, floor)
		floor = labels[i].at - labelHeight
	}
	for _, l := range labels {
		text(plotRight+6, l.at+4, "start", ` fill="`+l.colour+`"`, l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis maps numbers to places.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
}

func (a *axis) at(v, from, to float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, low)), math.Log(low), math.Log(high)
	}
	return from + (v-low)/(high-low)*(to-from)
}

func (c *chart) axes() (x, y axis) {
	x, y = axis{low: math.Inf(1), high: math.Inf(-1)}, axis{low: math.Inf(1), high: math.Inf(-1), log: c.log}
	for _, l := range c.lines {
		for k := range l.x {
			if v := l.y[k]; !math.IsNaN(v) {
				x.low, x.high = min(x.low, l.x[k]), max(x.high, l.x[k])
				y.low, y.high = min(y.low, v), max(y.high, v)
			}
		}
	}
	if x.low > x.high {
		x.low, x.high, y.low, y.high = 0, 1, 0, 1
	}
	x.linear()
	if !c.log {
		y.low = min(y.low, 0)
		y.linear()
		return x, y
	}
	y.low = math.Pow(10, math.Floor(math.Log10(y.low)))
	y.high = max(y.high, y.low*10)
	for decade := y.low; decade <= y.high; decade *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if decade*m <= y.high {
				y.ticks = append(y.ticks, decade*m)
			}
		}
	}
	return x, y
}

// linear gives an axis four to nine ticks at round numbers.
func (a *axis) linear() {
	if a.high == a.low {
		a.high++
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/4)))
	for _, m := range []float64{5, 2} {
		if (a.high-a.low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	for t := math.Ceil(a.low/step) * step; t <= a.high+step/1e6; t += step {
		a.ticks = append(a.ticks, t)
	}
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
