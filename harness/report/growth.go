package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Growth is a chart of what the targets of a campaign had shown by when.
type Growth struct {
	ID, Title, Desc string
	Lines           []Curve // the one that ends highest first
	Across, Up      []Tick
}

// Curve is that of a target.
type Curve struct {
	Series int
	Dash   bool // it has the colour of another
	Name   string
	Points string // of a polyline
	EndY   int
	Value  string // at its end
}

// Tick is a value on an axis.
type Tick struct {
	At   int
	Text string
}

// Places of the chart in pixels.
const (
	growthLeft, growthRight = 56, 340
	growthTop, growthBottom = 44, 250
	growthSeries            = 4  // colours
	growthLines             = 12 // how many curves are drawn
)

// maxHistory is how many rows of the history the table has.
const maxHistory = 40

// growth makes the charts of rules and edges, and the table of the same.
func growth(jits []string, history []campaign.Point) (charts []*Growth, rows []HistoryRow) {
	if len(history) < 2 {
		return nil, table(history)
	}
	for _, chart := range []struct {
		id, title string
		value     func(campaign.Growth) int
	}{
		{"edges", "Native edges", func(g campaign.Growth) int { return g.Edges }},
		{"rules", "Forms of emission rules", func(g campaign.Growth) int { return g.Rules }},
	} {
		g := &Growth{ID: chart.id, Title: chart.title + " seen, by programs run"}
		most := 1
		for _, p := range history {
			for _, t := range p.Targets {
				most = max(most, chart.value(t))
			}
		}
		first, last := float64(max(history[0].Programs, 1)), float64(max(history[len(history)-1].Programs, 2))
		// Epochs double at first: a logarithmic axis shows all of them.
		x := func(programs uint64) int {
			return growthLeft + int(math.Log(float64(programs)/first)/math.Log(max(last/first, 1.01))*(growthRight-growthLeft)+0.5)
		}
		y := func(value int) int {
			return growthBottom - int(float64(value)/float64(most)*(growthBottom-growthTop)+0.5)
		}
		for i, name := range jits {
			if i == growthLines {
				break
			}
			var b strings.Builder
			end := 0
			for _, p := range history {
				end = chart.value(p.Targets[i])
				fmt.Fprintf(&b, "%d,%d ", x(p.Programs), y(end))
			}
			g.Lines = append(g.Lines, Curve{
				Series: i % growthSeries, Dash: i/growthSeries%2 == 1, Name: shorten(line(name), 40), Points: strings.TrimSpace(b.String()),
				EndY: y(end), Value: thousands(end),
			})
		}
		slices.SortStableFunc(g.Lines, func(a, b Curve) int { return cmp.Compare(a.EndY, b.EndY) })
		lastX := -100
		for i, p := range history {
			if at := x(p.Programs); at-lastX >= 70 && (i == len(history)-1 || x(last64(history))-at >= 50) {
				g.Across = append(g.Across, Tick{at, thousands(p.Programs)})
				lastX = at
			}
		}
		for _, share := range []int{0, 1, 2} {
			g.Up = append(g.Up, Tick{y(most * share / 2), thousands(most * share / 2)})
		}
		var words []string
		for _, l := range g.Lines {
			words = append(words, l.Name+": "+l.Value)
		}
		g.Desc = fmt.Sprintf("After %s programs %s. The table below says the same.", thousands(last64(history)), strings.Join(words, "; "))
		charts = append(charts, g)
	}
	return charts, table(history)
}

func last64(history []campaign.Point) uint64 { return history[len(history)-1].Programs }

// table has the points of a history as text, of many some.
func table(history []campaign.Point) (rows []HistoryRow) {
	step := (len(history) + maxHistory - 1) / maxHistory
	for i, p := range history {
		if i != len(history)-1 && i%max(step, 1) != 0 {
			continue
		}
		row := HistoryRow{Programs: thousands(p.Programs), Corpus: thousands(p.Corpus), Findings: thousands(p.Findings)}
		for _, t := range p.Targets {
			row.Targets = append(row.Targets, fmt.Sprintf("%s / %s", thousands(t.Rules), thousands(t.Edges)))
		}
		rows = append(rows, row)
	}
	return rows
}
