package graph

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"sync"
	"unicode/utf8"
)

// Lengths of the drawing in pixels.
const (
	charWidth  = 7.3 // of the monospaced font at its size
	lineHeight = 16
	padding    = 8  // inside a block
	gap        = 18 // between blocks
	laneWidth  = 9
	margin     = 16
	headHeight = 56

	hottest = 0.45 // opacity of the heat of a block that every run executes: text stays readable
)

//go:embed graph.svg.tmpl
var svgText string

// svgTemplate is parsed when it is first needed: most commands draw nothing.
var svgTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("graph").Parse(svgText))
})

// drawing is a graph with its places.
type drawing struct {
	*Graph
	Width, Height int
	Desc          string
	Boxes         []box
	Natives       []box
	Lines         []line
}

type box struct {
	X, Y, Width, Height int
	Texts               []text
	Heat                float64
	Dead                bool
	Name                string
	Count               string
	CountX, CountY      int
}

type text struct {
	X, Y int
	Text string
}

type line struct {
	Path string
	Kind string
	Name string
	Cold bool // never taken, though runs were counted
}

// WriteSVG draws the graph: blocks in the order of the program, machine code to
// their right, jumps to their left.
func (g *Graph) WriteSVG(w io.Writer) error {
	all, by := g.lanes()
	lanes := 0
	for _, l := range all {
		lanes = max(lanes, l.place+1)
	}
	d := &drawing{Graph: g, Desc: g.describe()}
	left := margin + (lanes+1)*laneWidth
	wide, wideNative := g.widths()
	nativeX := left + wide + 90 // room for the counts
	y := headHeight
	for i := range g.Blocks {
		b := &g.Blocks[i]
		rows := max(len(b.Lines), len(b.Native))
		height := rows*lineHeight + 2*padding
		name := fmt.Sprintf("block at instruction %d", b.Start)
		own := box{
			X: left, Y: y, Width: wide, Height: height, Heat: hottest * g.Heat(b), Dead: !b.Reachable,
			Texts: texts(b.Lines, left, y), Name: name, CountX: left + wide + 8, CountY: y + padding + 12,
		}
		if g.Runs > 0 {
			own.Count = times(b.Count)
		}
		d.Boxes = append(d.Boxes, own)
		if len(b.Native) > 0 {
			d.Natives = append(d.Natives, box{
				X: nativeX, Y: y, Width: wideNative, Height: height, Texts: texts(b.Native, nativeX, y), Name: "machine code of the " + name,
			})
		}
		y += height + gap
	}
	for _, e := range g.Edges {
		d.Lines = append(d.Lines, d.route(e, all, by))
	}
	d.Width, d.Height = left+wide+90+margin, y
	if g.Native != "" {
		d.Width = nativeX + wideNative + margin
	}
	return svgTemplate().Execute(w, d)
}

// widths are those of the widest blocks.
func (g *Graph) widths() (bpf, native int) {
	pixels := func(lines []string, wide int) int {
		for _, l := range lines {
			wide = max(wide, int(float64(utf8.RuneCountInString(l))*charWidth)+2*padding)
		}
		return wide
	}
	for _, b := range g.Blocks {
		bpf, native = pixels(b.Lines, bpf), pixels(b.Native, native)
	}
	return bpf, native
}

func texts(lines []string, x, y int) []text {
	var out []text
	for i, l := range lines {
		out = append(out, text{x + padding, y + padding + 12 + i*lineHeight, l})
	}
	return out
}

// route draws an edge: straight down to the next block, or through the lane of
// its target. Jumps of both kinds leave a block at places of their own.
func (d *drawing) route(e Edge, all []lane, by map[int]int) line {
	from, to := &d.Boxes[e.From], &d.Boxes[e.To]
	l := line{Kind: e.Kind.String(), Cold: d.Runs > 0 && e.Count == 0}
	l.Name = fmt.Sprintf("%s: from instruction %d to %d", e.Kind, d.lastPC(e.From), d.Blocks[e.To].Start)
	if d.Runs > 0 {
		l.Name += ", " + times(e.Count)
	}
	bottom := from.Y + from.Height
	if d.plain(e) {
		x := from.X + 40
		if e.Kind == False {
			x += 14
		}
		l.Path = fmt.Sprintf("M%d %dV%d", x, bottom, to.Y)
		return l
	}
	x := from.X - (all[by[e.To]].place+1)*laneWidth
	leave, enter := bottom-padding-4, to.Y+padding
	if e.Kind == False {
		leave += 6
	}
	l.Path = fmt.Sprintf("M%d %dH%dV%dH%d", from.X, leave, x, enter, to.X)
	return l
}

func (g *Graph) lastPC(block int) int {
	b := &g.Blocks[block]
	return b.Start + len(b.Lines) - 1
}

// describe says in words what is to be seen.
func (g *Graph) describe() string {
	insns := 0
	for _, b := range g.Blocks {
		insns += len(b.Lines)
	}
	s := fmt.Sprintf("%d instructions in %d blocks with %d ways between them", insns, len(g.Blocks), len(g.Edges))
	if g.Runs > 0 {
		s += fmt.Sprintf("; executed on %d inputs", g.Runs)
	}
	if g.Native != "" {
		s += "; machine code: " + g.Native
	}
	return s
}
