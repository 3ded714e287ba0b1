package harness

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// Place is where machine code and interpreter part: the first BPF instruction
// whose code does something else.
type Place struct {
	Program bpf.Program
	Kind    bpf.Kind
	Image   *kernelabi.Image
	PC      int    // the BPF instruction, -1 for the prologue and images without a map
	Offset  int    // native instruction to mark, -1 for none
	What    string // what differs behind it: "A", "X", "M[3]", or Next or End
	How     string // "after it A is 0 where the interpreter has 66051"

	// Got is the machine behind that instruction, or where it ended; nil if it
	// did not come to execute anything. Want is the interpreter behind that
	// instruction; nil if its run was over or the machine's was. Needs is what
	// the interpreter went on to read.
	Got   *Native
	Want  *bpf.State
	Needs Needs
}

// Values of [Place.What] that are no registers.
const (
	Next = "next" // which instruction comes next
	End  = "end"  // how the run ended
)

// Native is the state of the machine in front of an instruction of an image.
type Native struct {
	Offset    int    // of the instruction, in the image
	A, X      uint32 // if Known
	M         [bpf.MemWords]uint32
	Known     bool   // that A and X are where they should be
	Cells     uint16 // bit k: M[k] is known
	Names     []string
	Registers []uint64 // by Names
}

// Natives takes states from the steps of traces of an image.
type Natives struct {
	img      *kernelabi.Image
	names    []string // of the registers
	base, sp int      // of them, those that the cells and the stack are counted from; base is -1 if cells are not known
}

// NewNatives returns what takes the states of img.
func NewNatives(img *kernelabi.Image) *Natives {
	t := &Natives{img: img, names: emulator.RegisterNames(img.Profile.Arch), base: -1}
	t.sp = max(slices.Index(t.names, "sp"), slices.Index(t.names, "rsp"))
	if img.Cells != nil {
		t.base = slices.Index(t.names, img.Cells.Register)
	}
	return t
}

// State takes the state from a step. States share Names.
func (t *Natives) State(s *emulator.Step) *Native {
	n := &Native{
		Offset: s.Offset, A: s.A, X: s.X, Known: !t.img.OtherRegisters, Names: t.names, Registers: slices.Clone(s.Registers),
	}
	if t.base < 0 {
		return n
	}
	cells := t.img.Cells
	for k := range n.M {
		at := n.Registers[t.base] + uint64(cells.Offset+k*cells.Stride) - n.Registers[t.sp]
		if at%4 == 0 && at/4 < uint64(len(s.Stack)) {
			n.M[k], n.Cells = s.Stack[at/4], n.Cells|1<<k
		}
	}
	return n
}

// differs finds the first thing that is needed and not as in want.
func (n *Native) differs(want *bpf.State, needs Needs) (what string, got, right uint32, differ bool) {
	if n.Known {
		switch {
		case needs.Registers&bpf.RegA != 0 && n.A != want.A:
			return "A", n.A, want.A, true
		case needs.Registers&bpf.RegX != 0 && n.X != want.X:
			return "X", n.X, want.X, true
		}
	}
	for k := range n.M {
		if needs.Cells&n.Cells>>k&1 != 0 && n.M[k] != want.M[k] {
			return fmt.Sprintf("M[%d]", k), n.M[k], want.M[k], true
		}
	}
	return "", 0, 0, false
}

// Story tells the place in a sentence: where, if that is known, and how both
// sides part.
func (p *Place) Story() string {
	switch {
	case p.PC >= 0:
		return fmt.Sprintf("at instruction %d: %s", p.PC, p.How)
	case len(p.Image.PCMap) > 0:
		return "in the prologue: " + p.How
	}
	return p.How
}

// Print writes the place: what differs, both states, and the program's and the
// machine's instructions.
func (p *Place) Print(w io.Writer) {
	if p.Image.Unfilled {
		fmt.Fprintf(w, "  the kernel used an image that it had allocated and never written: %s\n", p.How)
		return
	}
	if len(p.Image.PCMap) == 0 {
		p.printBare(w)
		return
	}
	fmt.Fprintf(w, "  %s\n", p.Story())
	p.printStates(w)
	listing.SideBySide(w, p.Program, p.Image, func(pc, offset int) bool {
		if p.PC < 0 {
			return offset < p.Image.PCMap[0]
		}
		return pc == p.PC
	}, func(off int) bool { return off == p.Offset })
}

// around is how many bytes of code in front of a place and behind it are shown
// of images that nobody knows the instructions of.
const around = 40

// printBare writes the place in an imported image, whose code belongs to no
// instruction in particular.
func (p *Place) printBare(w io.Writer) {
	fmt.Fprintf(w, "  the image of %s: %s\n", p.Image.Origin, p.How)
	if p.Offset < 0 {
		return
	}
	p.printStates(w)
	listing.SideBySide(w, p.Program, p.Image, func(_, offset int) bool {
		return offset >= p.Offset-around && offset <= p.Offset+around
	}, func(off int) bool { return off == p.Offset })
}

// registersPerLine is how many registers of a machine are shown beside another.
const registersPerLine = 6

// printStates writes what A, X, M[] and the machine's registers are.
func (p *Place) printStates(w io.Writer) {
	if p.Got == nil {
		return
	}
	if want, got := p.Want, p.Got; want != nil && p.Needs != (Needs{}) {
		fmt.Fprintf(w, "    interpreter%s\n", p.values(want.A, want.X, &want.M))
		fmt.Fprintf(w, "    machine    %s\n", p.values(got.A, got.X, &got.M))
	}
	for i := 0; i < len(p.Got.Registers); i += registersPerLine {
		var line []string
		for n := i; n < min(i+registersPerLine, len(p.Got.Registers)); n++ {
			line = append(line, fmt.Sprintf("%s %x", p.Got.Names[n], p.Got.Registers[n]))
		}
		lead := ""
		if i == 0 {
			lead = fmt.Sprintf("at %#x", p.Got.Offset)
		}
		fmt.Fprintf(w, "    %-11s  %s\n", lead, strings.Join(line, "  "))
	}
}

// values are those of A, X and M[] that are still needed, and known of the
// machine.
func (p *Place) values(a, x uint32, m *[bpf.MemWords]uint32) string {
	var b strings.Builder
	if p.Got.Known && p.Needs.Registers&bpf.RegA != 0 {
		fmt.Fprintf(&b, "  A %#x", a)
	}
	if p.Got.Known && p.Needs.Registers&bpf.RegX != 0 {
		fmt.Fprintf(&b, "  X %#x", x)
	}
	for k := range m {
		if p.Needs.Cells&p.Got.Cells>>k&1 != 0 {
			fmt.Fprintf(&b, "  M[%d] %#x", k, m[k])
		}
	}
	return b.String()
}
