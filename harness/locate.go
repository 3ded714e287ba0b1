package harness

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/kernelabi"
)

// KindOf returns the kind of program that an input is for.
func KindOf(input kernelabi.Input) bpf.Kind {
	if _, ok := input.(*kernelabi.Syscall); ok {
		return bpf.Seccomp
	}
	return bpf.Socket
}

// MaxTrace is how many blocks of code a run that is traced may execute: more than
// any program without loops does.
const MaxTrace = 1 << 17

// TraceBudgets are the blocks that such runs are given one after another: first
// what nearly all programs need, so that code that loops is soon over with.
func TraceBudgets() []uint64 { return []uint64{1 << 12, MaxTrace} }

// maxTracers bounds the tracing machines of a Locator; each takes some 50 MiB at
// most.
const maxTracers = 8

// Locator finds the places of divergences. It keeps a machine that traces for
// each of the runners it was asked about last, so it belongs to one goroutine;
// Close frees them. The zero value is ready to use.
type Locator struct{ tracers []tracer }

type tracer struct {
	runner Runner
	guest  *guest
}

// Locate is [Locator.Locate] of a Locator that is used once.
func Locate(r Runner, prog bpf.Program, input kernelabi.Input) (*Place, error) {
	var l Locator
	defer l.Close()
	return l.Locate(r, prog, input)
}

// Locate runs prog on one input, on which r diverges, once more step by step
// beside the interpreter. Runners without machine code have no place.
func (l *Locator) Locate(r Runner, prog bpf.Program, input kernelabi.Input) (*Place, error) {
	imager, ok := r.(Imager)
	if !ok {
		return nil, fmt.Errorf("%s runs no machine code", r.Name())
	}
	kind := KindOf(input)
	img, err := imager.Image(prog, kind)
	if err != nil {
		return nil, err
	}
	reference, err := traceReference(r.Profile(), prog, input)
	if err != nil {
		return nil, err
	}
	tracer := l.tracer(r)
	if err := tracer.load(r.Profile(), img); err != nil {
		return nil, err
	}
	place := &Place{Program: slices.Clone(prog), Kind: kind, Image: img}
	for _, budget := range TraceBudgets() {
		steps, result, err := tracer.machine.Trace(input, budget)
		if err != nil {
			return nil, err
		}
		place.PC, place.Offset = -1, -1
		if place.walk(reference, steps) {
			break
		}
		place.end(steps, &result)
		if result.Fault == nil || result.Fault.Kind != emulator.Timeout {
			break
		}
	}
	return place, nil
}

// tracer returns the tracing machine for the images of r.
func (l *Locator) tracer(r Runner) *guest {
	for _, t := range l.tracers {
		if t.runner == r {
			return t.guest
		}
	}
	if len(l.tracers) == maxTracers {
		l.tracers[0].guest.close()
		l.tracers = slices.Delete(l.tracers, 0, 1)
	}
	options := []emulator.Option{emulator.WithBudget(MaxTrace)}
	if r, ok := r.(interface{ machineOptions() []emulator.Option }); ok {
		options = append(slices.Clone(r.machineOptions()), options...)
	}
	g := &guest{options: append(options, emulator.WithTrace())}
	l.tracers = append(l.tracers, tracer{r, g})
	return g
}

// Close frees the machines.
func (l *Locator) Close() error {
	for _, t := range l.tracers {
		t.guest.close()
	}
	l.tracers = nil
	return nil
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

// walk goes through both traces until they part, and reports whether they do.
// They can be compared where machine code begins a new BPF instruction;
// instructions without code have no such point. Registers and cells count only
// while the rest of the way reads them: what nobody reads may differ.
func (p *Place) walk(reference []bpf.State, steps []emulator.Step) bool {
	starts := map[int]int{} // native offset -> BPF instruction
	pcmap := p.Image.PCMap  // empty for an image that was never written
	for pc := 0; pc+1 < len(pcmap); pc++ {
		if pcmap[pc] < pcmap[pc+1] {
			starts[pcmap[pc]] = pc
		}
	}
	read, natives := NeedsOf(p.Program, reference), NewNatives(p.Image)
	at := 0 // next reference state
	for i := range steps {
		pc, ok := starts[steps[i].Offset]
		if !ok {
			continue
		}
		for at < len(reference) && pcmap[reference[at].PC] == pcmap[reference[at].PC+1] {
			at++
		}
		p.Got, p.Want = natives.State(&steps[i]), nil
		if at == len(reference) {
			p.What, p.How = Next, fmt.Sprintf("the code goes on to instruction %d, the interpreter has returned", pc)
			return true
		}
		want := &reference[at]
		p.Want, p.Needs = want, read[at]
		if pc != want.PC {
			p.What, p.How = Next, fmt.Sprintf("the code goes on to instruction %d, the interpreter to %d", pc, want.PC)
			return true
		}
		if what, got, right, differ := p.Got.differs(want, read[at]); differ {
			p.What, p.How = what, fmt.Sprintf("after it %s is %#x, the interpreter has %#x", what, got, right)
			return true
		}
		p.PC = pc
		at++
	}
	return false
}

// end describes a divergence that shows only in how the run ended.
func (p *Place) end(steps []emulator.Step, result *emulator.Result) {
	p.Want = nil
	if len(steps) > 0 {
		p.Got = NewNatives(p.Image).State(&steps[len(steps)-1])
	}
	switch f := result.Fault; {
	case f != nil:
		p.Offset = f.Offset
		if p.Offset < 0 && len(steps) > 0 {
			p.Offset = steps[len(steps)-1].Offset
		}
		p.What, p.How = End, f.Error()
	case result.Broken != 0:
		p.What, p.How = End, "returns with "+result.Broken.String()
	default:
		p.What, p.How = End, fmt.Sprintf("returns %d", result.Value)
	}
}

// Needs is what the rest of a run reads before it writes it.
type Needs struct {
	Registers bpf.Registers
	Cells     uint16 // bit k: M[k]
}

// NeedsOf returns what is read from each state on, of a run whose states the
// reference gives: one for each, which says what the rest of the run reads.
func NeedsOf(prog bpf.Program, reference []bpf.State) []Needs {
	all := make([]Needs, len(reference))
	var n Needs
	for i := len(reference) - 1; i >= 0; i-- {
		ins := prog[reference[i].PC]
		n.Registers = n.Registers&^ins.Writes() | ins.Reads()
		switch ins.Code {
		case bpf.LdMem, bpf.LdxMem:
			n.Cells |= 1 << ins.K
		case bpf.St, bpf.Stx:
			n.Cells &^= 1 << ins.K
		}
		all[i] = n
	}
	return all
}
