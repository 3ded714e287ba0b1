package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/judge"
)

// Map says of every opcode and ancillary load what the targets of a campaign
// have shown of it.
type Map struct {
	Targets []string
	Bands   []Band
	Seen    []string // by target: "62 of 64"

	External bool   // there is a JIT of its user's, whose forms nobody knows
	Ran      [2]int // opcodes that some target ran, by kind of program
	Width    int    // of the picture
	Height   int
	Desc     string
}

// Band is a group of entries that stand side by side.
type Band struct {
	Name    string
	Y       int
	Columns []Column
	Rows    []MapRow
}

// Column is an entry: an opcode or an ancillary load.
type Column struct {
	Name   string
	X, Y   int
	Ran    string // by which kinds of programs
	States []Cell // by target
}

// MapRow is a target in a band.
type MapRow struct {
	Name  string
	Y     int
	Cells []Cell
}

// Cell is what a target has shown of an entry.
type Cell struct {
	X, Y  int
	State string // a class of the style sheet: seen, bad, unseen, none
	Mark  string // in the cell
	Words string
	Heat  float64 // of the forms, 0 to 1
}

// Shade is how much of its colour a cell has: text on it stays readable.
func (c Cell) Shade() float64 { return 0.45 * c.Heat }

// The states of a [Cell].
const (
	stateSeen   = "seen"
	stateBad    = "bad"
	stateUnseen = "unseen"
	stateNone   = "none"
)

// Lengths of the picture in pixels.
const (
	mapLabel  = 190
	mapCell   = 34
	mapRow    = 20
	mapNames  = 62 // above a band, for names that stand upright
	mapBetter = 16 // between bands
)

// bands are the entries in groups. Ancillary loads follow from 256 on.
var bands = []struct {
	name  string
	codes []uint16
}{
	{"loads and stores", []uint16{
		bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdWInd, bpf.LdHInd, bpf.LdBInd, bpf.LdImm, bpf.LdMem, bpf.LdLen,
		bpf.LdxImm, bpf.LdxMem, bpf.LdxLen, bpf.LdxMsh, bpf.St, bpf.Stx, bpf.Tax, bpf.Txa,
	}},
	{"arithmetic", []uint16{
		bpf.AddK, bpf.AddX, bpf.SubK, bpf.SubX, bpf.MulK, bpf.MulX, bpf.DivK, bpf.DivX, bpf.ModK, bpf.ModX, bpf.AndK, bpf.AndX,
		bpf.OrK, bpf.OrX, bpf.XorK, bpf.XorX, bpf.LshK, bpf.LshX, bpf.RshK, bpf.RshX, bpf.Neg,
	}},
	{"jumps and returns", []uint16{
		bpf.Ja, bpf.JeqK, bpf.JeqX, bpf.JgtK, bpf.JgtX, bpf.JgeK, bpf.JgeX, bpf.JsetK, bpf.JsetX, bpf.RetK, bpf.RetA,
	}},
	{"ancillary loads", nil},
}

// instructions returns those of a band, with operands that all checkers take.
func instructions(codes []uint16) (all []bpf.Instruction) {
	if codes == nil {
		for n := range bpf.Extension(bpf.NumExtensions) {
			all = append(all, bpf.Instruction{Code: bpf.LdWAbs, K: bpf.ADOff + uint32(4*n)})
		}
	}
	for _, code := range codes {
		ins := bpf.Instruction{Code: code}
		if code == bpf.DivK || code == bpf.ModK {
			ins.K = 1
		}
		all = append(all, ins)
	}
	return all
}

// covered is what is known of a target by entry.
type covered struct {
	shown map[uint32]bool            // it was compiled
	forms map[uint32]map[uint32]bool // forms of its code, in programs of the corpus
	blame map[string]bool            // rules of findings
	takes func(bpf.Instruction) bool // nil: nobody knows
}

// newCovered asks the JIT of a name what it takes; refused is what is known of one
// that is not here, nil for nothing.
func newCovered(name string, features engine.TargetFeatures, s *campaign.State, refused []uint32) *covered {
	c := &covered{shown: map[uint32]bool{}, forms: map[uint32]map[uint32]bool{}, blame: map[string]bool{}}
	for _, n := range features.Entries {
		c.shown[n] = true
	}
	for _, f := range s.Findings() {
		if f.Target == name {
			c.blame[f.Rule] = true
		}
	}
	if refused != nil {
		c.takes = func(ins bpf.Instruction) bool { return !slices.Contains(refused, engine.EntryOf(ins, bpf.Socket)) }
	}
	p, err := harness.ProfileByName(name)
	if err != nil {
		return c
	}
	t, err := engine.ProfileTarget(p)
	if err != nil {
		return c
	}
	for _, e := range s.Corpus() {
		if bpf.Check(e.Program, e.Kind, p.Rules) != nil {
			continue
		}
		img, err := t.Compiler.Compile(e.Program, e.Kind, p)
		if err != nil {
			continue
		}
		engine.Forms(img, e.Program, e.Kind, func(entry, rule uint32) {
			if c.forms[entry] == nil {
				c.forms[entry] = map[uint32]bool{}
			}
			c.forms[entry][rule] = true
		})
	}
	c.takes = func(ins bpf.Instruction) bool {
		// What the instruction may need is in front of it.
		prog := bpf.Program{{Code: bpf.LdImm, K: 4}, {Code: bpf.St}, {Code: bpf.Tax}, ins, {Code: bpf.RetK}}
		if bpf.IsRet(ins.Code) {
			prog = prog[:4]
		}
		for _, kind := range []bpf.Kind{bpf.Socket, bpf.Seccomp} {
			if bpf.Check(prog, kind, p.Rules) != nil {
				continue
			}
			if _, err := t.Compiler.Compile(prog, kind, p); err == nil {
				return true
			}
		}
		return false
	}
	return c
}

// cell judges an instruction.
func (c *covered) cell(ins bpf.Instruction) Cell {
	entry := engine.EntryOf(ins, bpf.Socket)
	forms := len(c.forms[entry])
	switch {
	case c.blame[judge.RuleOf(ins, bpf.Socket)], ins.Code == bpf.LdWAbs && entry < 256 && c.blame[judge.RuleOf(ins, bpf.Seccomp)]:
		return Cell{State: stateBad, Mark: "!", Words: "diverges"}
	case c.shown[entry] && forms == 0:
		return Cell{State: stateSeen, Mark: "✓", Words: "compiled", Heat: 0.2}
	case c.shown[entry]:
		// The commonest have hundreds of forms, the rarest one.
		return Cell{State: stateSeen, Mark: fmt.Sprint(forms), Words: count(forms, "form"), Heat: min(1, 0.12+math.Log2(float64(forms))/10)}
	case c.takes != nil && !c.takes(ins):
		return Cell{State: stateNone, Mark: "–", Words: "left to the interpreter"}
	}
	return Cell{State: stateUnseen, Mark: "·", Words: "not seen"}
}

// newMap makes the map of a campaign. refused is what its external JITs leave to
// the interpreter, by name.
func newMap(settings *campaign.Settings, s *campaign.State, refused map[string][]uint32) *Map {
	m := &Map{Width: mapLabel}
	features := s.Features()
	var all []*covered
	for i, name := range settings.JITs {
		m.Targets = append(m.Targets, line(name))
		m.External = m.External || strings.HasPrefix(name, pluginPrefix)
		all = append(all, newCovered(name, features[i], s, refused[name]))
	}
	seen, taken := make([]int, len(all)), make([]int, len(all))
	numEntries := uint32(256 + bpf.NumExtensions)
	for _, n := range s.Opcodes {
		m.Ran[min(n/numEntries, 1)]++
	}
	y := 0
	for _, b := range bands {
		band := Band{Name: b.name, Y: y + 14}
		y += mapNames
		for i := range all {
			band.Rows = append(band.Rows, MapRow{Name: shorten(m.Targets[i], 30), Y: y + i*mapRow + 14})
		}
		for n, ins := range instructions(b.codes) {
			x := mapLabel + n*mapCell
			col := Column{Name: judge.RuleOf(ins, bpf.Socket), X: x + mapCell/2, Y: y - 6, Ran: ranIn(s.Opcodes, engine.EntryOf(ins, bpf.Socket), numEntries)}
			for i, c := range all {
				cell := c.cell(ins)
				cell.X, cell.Y = x, y+i*mapRow
				switch cell.State {
				case stateSeen, stateBad:
					seen[i]++
					taken[i]++
				case stateUnseen:
					taken[i]++
				}
				col.States = append(col.States, cell)
				band.Rows[i].Cells = append(band.Rows[i].Cells, cell)
			}
			band.Columns = append(band.Columns, col)
			m.Width = max(m.Width, x+mapCell+4)
		}
		y += len(all)*mapRow + mapBetter
		m.Bands = append(m.Bands, band)
	}
	m.Height = y
	var words []string
	for i, name := range m.Targets {
		m.Seen = append(m.Seen, fmt.Sprintf("%d of %d", seen[i], taken[i]))
		words = append(words, fmt.Sprintf("%s: %s", name, m.Seen[i]))
	}
	m.Desc = "Opcodes and ancillary loads that each target compiled, of those that it takes. " + strings.Join(words, "; ") + ". The table below says the same."
	return m
}

// ranIn says in which kinds of programs some target ran an entry.
func ranIn(opcodes engine.Numbers, entry, numEntries uint32) string {
	var kinds []string
	for kind := range uint32(2) {
		if _, ok := slices.BinarySearch(opcodes, kind*numEntries+entry); ok {
			kinds = append(kinds, bpf.Kind(kind).String())
		}
	}
	if kinds == nil {
		return "–"
	}
	return strings.Join(kinds, ", ")
}

// shorten keeps both ends of a name.
func shorten(name string, most int) string {
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2+1:])
}
