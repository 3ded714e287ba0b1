package graph

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// Lengths of the drawing in pixels.
const (
	charWidth  = 7.3 // of the monospaced font at its size
	headChar   = 6.6 // of that of the head, on average
	lineHeight = 16
	padding    = 8  // inside a block
	gap        = 24 // between blocks: the count of an edge has room
	laneWidth  = 9
	margin     = 16
	headHeight = 56
	countSide  = 90 // beside a block, for its count

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
	Legend        []key
	Boxes         []box // of the blocks
	Natives       []box
	Others        []box // of code that belongs to no instruction
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
	Path           string
	Kind           string
	Name           string
	Cold           bool   // never taken, though runs were counted
	Count          string // on the line
	CountX, CountY int
	Anchor         string // of the count: "start", "end"
}

// key explains a sign of the drawing.
type key struct {
	X, Y, TextX, TextY int
	Class              string // of the style sheet
	Box                bool   // the sign is a box, not a line
	Heat               float64
	Text               string
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
	left := margin + (lanes+1)*laneWidth + g.countRoom()
	wide, wideNative := g.widths()
	nativeX := left + wide + countSide
	d.Width = nativeX + margin
	if g.Native != "" {
		d.Width += wideNative
	}
	d.Width = max(d.Width, 2*margin+int(headChar*float64(utf8.RuneCountInString(d.Desc))), 2*margin+int(1.3*headChar*float64(utf8.RuneCountInString(g.Title))))
	y := d.legend(headHeight + 2)
	// row is a block with its machine code.
	row := func(own box, lines, native []string) box {
		own.X, own.Y, own.Width, own.Height = left, y, wide, max(len(lines), len(native))*lineHeight+2*padding
		own.Texts, own.CountX, own.CountY = texts(lines, left, y), left+wide+8, y+padding+12
		if len(native) > 0 {
			d.Natives = append(d.Natives, box{
				X: nativeX, Y: y, Width: wideNative, Height: own.Height, Texts: texts(native, nativeX, y), Name: "machine code of the " + own.Name,
			})
		}
		y += own.Height + gap
		return own
	}
	if len(g.Entry) > 0 {
		own := row(box{Name: "entry, in front of the first instruction"}, []string{entryLine}, g.Entry)
		d.Others = append(d.Others, own)
		d.Lines = append(d.Lines, line{Kind: Next.String(), Name: "from the entry to instruction 0", Path: fmt.Sprintf("M%d %dV%d", left+plainX, own.Y+own.Height, y)})
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		own := box{Heat: hottest * g.Heat(b), Dead: !b.Reachable, Name: fmt.Sprintf("block at instruction %d", b.Start)}
		if g.Runs > 0 {
			own.Count = times(b.Count)
		}
		d.Boxes = append(d.Boxes, row(own, b.Lines, b.Native))
	}
	if len(g.Rest) > 0 {
		d.Others = append(d.Others, row(box{Name: "rest, behind the last instruction"}, []string{restLine}, g.Rest))
	}
	for _, e := range g.Edges {
		d.Lines = append(d.Lines, d.route(e, all, by))
	}
	d.Height = y
	return svgTemplate().Execute(w, d)
}

// legend explains the signs that the drawing has, and returns where it ends.
func (d *drawing) legend(y int) int {
	const sign, space = 22, 18 // pixels
	x := margin
	add := func(has bool, k key) {
		if !has {
			return
		}
		wide := sign + 6 + int(headChar*float64(utf8.RuneCountInString(k.Text)))
		if x > margin && x+wide > d.Width-margin {
			x, y = margin, y+lineHeight
		}
		d.Width = max(d.Width, x+wide+margin)
		k.X, k.Y, k.TextX, k.TextY = x, y, x+sign+6, y+4
		d.Legend = append(d.Legend, k)
		x += wide + space
	}
	for kind, text := range edgeTexts {
		kind := EdgeKind(kind)
		add(slices.ContainsFunc(d.Edges, func(e Edge) bool { return e.Kind == kind }), key{Class: "way " + kind.String(), Text: text})
	}
	cold := slices.ContainsFunc(d.Edges, func(e Edge) bool { return d.cold(e) })
	add(cold, key{Class: "way next cold", Text: "dashed: no input goes this way"})
	add(d.Runs > 0, key{Class: "hot", Box: true, Heat: hottest, Text: "more colour: more of the inputs come here"})
	add(slices.ContainsFunc(d.Blocks, func(b Block) bool { return !b.Reachable }), key{Class: "block dead", Box: true, Text: "no way leads here"})
	if len(d.Legend) == 0 {
		return y
	}
	return y + lineHeight + 6
}

// edgeTexts explain the kinds of edges, by EdgeKind.
var edgeTexts = [...]string{"the next instruction", "true: the condition holds (jt)", "false: it does not (jf)", "jump, whatever the condition"}

// cold reports whether no input took an edge.
func (g *Graph) cold(e Edge) bool { return g.Runs > 0 && e.Count == 0 }

// countRoom is the room between blocks and lanes for the counts of edges.
func (g *Graph) countRoom() int {
	if g.Runs == 0 {
		return 0
	}
	most := uint64(0)
	for _, e := range g.Edges {
		if !g.plain(e) {
			most = max(most, e.Count)
		}
	}
	return 4 + len(fmt.Sprint(most))*7
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
	if len(g.Entry) > 0 {
		bpf = pixels([]string{entryLine}, bpf)
	}
	if len(g.Rest) > 0 {
		bpf = pixels([]string{restLine}, bpf)
	}
	return bpf, pixels(g.Rest, pixels(g.Entry, native))
}

func texts(lines []string, x, y int) []text {
	var out []text
	for i, l := range lines {
		out = append(out, text{x + padding, y + padding + 12 + i*lineHeight, l})
	}
	return out
}

// plainX is where an edge to the next block leaves, from its left side on.
const plainX = 40

// route draws an edge: straight down to the next block, or through the lane of
// its target. Jumps of both kinds leave a block at places of their own, with
// their counts above and below.
func (d *drawing) route(e Edge, all []lane, by map[int]int) line {
	from, to := &d.Boxes[e.From], &d.Boxes[e.To]
	l := line{Kind: e.Kind.String(), Cold: d.cold(e)}
	l.Name = fmt.Sprintf("%s: from instruction %d to %d", e.Kind, d.lastPC(e.From), d.Blocks[e.To].Start)
	if d.Runs > 0 {
		l.Count = fmt.Sprint(e.Count)
		l.Name += ", " + times(e.Count)
	}
	bottom := from.Y + from.Height
	if d.plain(e) {
		x := from.X + plainX
		if e.Kind == False {
			x += 14
		}
		l.Path = fmt.Sprintf("M%d %dV%d", x, bottom, to.Y)
		l.CountX, l.CountY, l.Anchor = x+7, bottom+gap/2+4, "start"
		return l
	}
	x := from.X - d.countRoom() - (all[by[e.To]].place+1)*laneWidth
	leave, enter := bottom-padding-4, to.Y+padding
	l.CountX, l.CountY, l.Anchor = from.X-4, leave-3, "end"
	if e.Kind == False {
		leave += 6
		l.CountY = leave + 11
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
