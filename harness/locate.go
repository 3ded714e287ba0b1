package harness

import (
	"fmt"
	"io"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// Place is where machine code and interpreter part: the first BPF instruction
// whose code does something else.
type Place struct {
	Program bpf.Program
	Image   *kernelabi.Image
	PC      int    // the BPF instruction, -1 for the prologue
	Offset  int    // native instruction to mark, -1 for none
	How     string // "A is 0 where the interpreter has 66051"
}

// Print writes the place with the program's and the machine's instructions.
func (p *Place) Print(w io.Writer) {
	if p.Image.Unfilled {
		fmt.Fprintf(w, "  the kernel used an image that it had allocated and never written: %s\n", p.How)
		return
	}
	where := "in the prologue"
	if p.PC >= 0 {
		where = fmt.Sprintf("at instruction %d", p.PC)
	}
	if len(p.Image.PCMap) == 0 {
		p.printBare(w)
		return
	}
	fmt.Fprintf(w, "  %s: %s\n", where, p.How)
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
	listing.SideBySide(w, p.Program, p.Image, func(_, offset int) bool {
		return offset >= p.Offset-around && offset <= p.Offset+around
	}, func(off int) bool { return off == p.Offset })
}

// KindOf returns the kind of program that an input is for.
func KindOf(input kernelabi.Input) bpf.Kind {
	if _, ok := input.(*kernelabi.Syscall); ok {
		return bpf.Seccomp
	}
	return bpf.Socket
}

// traceBudget is how many blocks the rerun may execute: more than any program
// without loops needs, and soon over where code loops.
const traceBudget = 1 << 17

// Locate runs prog on one input, on which r diverges, once more step by step
// beside the interpreter. Runners without machine code have no place.
func Locate(r Runner, prog bpf.Program, input kernelabi.Input) (*Place, error) {
	imager, ok := r.(Imager)
	if !ok {
		return nil, fmt.Errorf("%s runs no machine code", r.Name())
	}
	img, err := imager.Image(prog, KindOf(input))
	if err != nil {
		return nil, err
	}
	reference, err := traceReference(r.Profile(), prog, input)
	if err != nil {
		return nil, err
	}
	machine, err := emulator.New(r.Profile().WithBase(img.Base), emulator.WithTrace(), emulator.WithBudget(traceBudget))
	if err != nil {
		return nil, err
	}
	defer machine.Close()
	if err := machine.Load(img); err != nil {
		return nil, err
	}
	steps, result, err := machine.Trace(input)
	if err != nil {
		return nil, err
	}
	place := &Place{Program: prog, Image: img, PC: -1, Offset: -1}
	place.find(reference, steps, result)
	return place, nil
}

// traceReference returns the interpreter's states before each instruction.
func traceReference(p *kernelabi.Profile, prog bpf.Program, input kernelabi.Input) ([]bpf.State, error) {
	m, err := bpf.Compile(prog, KindOf(input), p.Rules)
	if err != nil {
		return nil, err
	}
	var states []bpf.State
	m.Trace(input.Under(p.Semantics), func(s bpf.State) { states = append(states, s) })
	return states, nil
}

// find walks both traces. They can be compared where machine code begins a new
// BPF instruction; instructions without code have no such point. A register
// counts only while the rest of the way reads it: what nobody reads may differ.
func (p *Place) find(reference []bpf.State, steps []emulator.Step, result emulator.Result) {
	starts := map[int]int{} // native offset -> BPF instruction
	pcmap := p.Image.PCMap  // empty for an image that was never written
	for pc := 0; pc+1 < len(pcmap); pc++ {
		if pcmap[pc] < pcmap[pc+1] {
			starts[pcmap[pc]] = pc
		}
	}
	live := p.live(reference)
	at := 0 // next reference state
	for _, step := range steps {
		pc, ok := starts[step.Offset]
		if !ok {
			continue
		}
		for at < len(reference) && pcmap[reference[at].PC] == pcmap[reference[at].PC+1] {
			at++
		}
		if at == len(reference) {
			p.How = fmt.Sprintf("the code goes on to instruction %d, the interpreter has returned", pc)
			return
		}
		want := &reference[at]
		switch {
		case pc != want.PC:
			p.How = fmt.Sprintf("the code goes on to instruction %d, the interpreter to %d", pc, want.PC)
			return
		case p.Image.OtherRegisters:
		case live[at]&bpf.RegA != 0 && step.A != want.A:
			p.How = fmt.Sprintf("after it A is %#x, the interpreter has %#x", step.A, want.A)
			return
		case live[at]&bpf.RegX != 0 && step.X != want.X:
			p.How = fmt.Sprintf("after it X is %#x, the interpreter has %#x", step.X, want.X)
			return
		}
		p.PC = pc
		at++
	}
	switch f := result.Fault; {
	case f != nil:
		p.Offset = f.Offset
		if p.Offset < 0 && len(steps) > 0 {
			p.Offset = steps[len(steps)-1].Offset
		}
		p.How = f.Error()
	case result.Broken != 0:
		p.How = "returns with " + result.Broken.String()
	default:
		p.How = fmt.Sprintf("returns %d", result.Value)
	}
}

// live returns, for each state, the registers that the way from there on reads
// before it writes them.
func (p *Place) live(reference []bpf.State) []bpf.Registers {
	live := make([]bpf.Registers, len(reference))
	var after bpf.Registers
	for i := len(reference) - 1; i >= 0; i-- {
		ins := p.Program[reference[i].PC]
		after = after&^ins.Writes() | ins.Reads()
		live[i] = after
	}
	return live
}
