// Package chart draws charts as SVG that stand alone: no script, no font file,
// light and dark, with a title and a text for those who cannot see them.
package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bars is a chart of horizontal bars, a group of them for each label.
type Bars struct {
	Title  string
	Desc   string   // what is to be seen, in words
	Series []string // names of the bars in a group
	Groups []Group
}

// Group has a bar for every series.
type Group struct {
	Label  string
	Values []Value
}

// Value is the length of a bar: a share of the longest of its scale. Text tells it in
// numbers. A bar that is not Known is left out.
type Value struct {
	Share float64 // 0 to 1
	Text  string
	Known bool
}

// Lengths in pixels of the drawing, which scales to whatever width it gets.
const (
	width     = 720
	labelX    = 8
	barX      = 250
	barWidth  = 340
	barHeight = 14
	barGap    = 2
	groupGap  = 10
	top       = 44
	legendRow = 18

	titleSize = 15.0
	titleRoom = 78 // letters of that size in a line
)

//go:embed bars.svg.tmpl
var barsText string

// barsTemplate is parsed when it is first needed: most commands draw nothing.
var barsTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("bars").Parse(barsText))
})

// drawn is a chart as the template draws it.
type drawn struct {
	Bars
	ID            string // of title and text, unique in a page
	Width, Height int
	TitleX        int
	TitleSize     float64 // in pixels: a long title fits
	Legend        []mark
	Labels        []label
	Rects         []rect
}

type mark struct {
	Series, X, Y, TextX, TextY int
	Name                       string
}

type label struct {
	X, Y int
	Text string
}

type rect struct {
	Series, X, Y, Width, Height, TextX, TextY int
	Text, Name                                string
}

// WriteSVG draws the chart.
func (b Bars) WriteSVG(w io.Writer) error {
	d := drawn{Bars: b, ID: identifier(b.Title), Width: width, TitleX: labelX, TitleSize: min(titleSize, titleSize*titleRoom/float64(max(1, utf8.RuneCountInString(b.Title))))}
	y := top
	for i, name := range b.Series {
		d.Legend = append(d.Legend, mark{i, labelX, y - 10, labelX + 18, y, name})
		y += legendRow
	}
	y += groupGap / 2
	for _, g := range b.Groups {
		start := y
		for i, v := range g.Values {
			if !v.Known {
				continue
			}
			wide := max(1, int(v.Share*barWidth+0.5))
			d.Rects = append(d.Rects, rect{
				i, barX, y, wide, barHeight, barX + wide + 6, y + barHeight - 3,
				v.Text, fmt.Sprintf("%s, %s", g.Label, b.Series[i]),
			})
			y += barHeight + barGap
		}
		d.Labels = append(d.Labels, label{labelX, (start+y)/2 + 3, g.Label})
		y += groupGap
	}
	d.Height = y
	return barsTemplate().Execute(w, d)
}

// identifier makes a name for an id attribute.
func identifier(title string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(title))
}
