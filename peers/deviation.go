package peers

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Deviation is a known difference of a peer from Linux.
type Deviation struct {
	Name   string // a word or two for tables
	Reason string // a sentence
}

// stop is a deviation that ends the program with 0 in the peer, where Linux
// goes on.
type stop struct {
	Deviation
	at func(bpf.Instruction, bpf.State) bool
}

// registerMoves is the deviation of a peer that has TAX and TXA the wrong way
// round: it does what Linux does with the program that has the other of the two
// in each place.
type registerMoves struct{ Deviation }

var (
	negative = stop{
		Deviation{"negative X+k", "an indirect load at a negative offset finds no byte; Linux counts from the headers"},
		func(ins bpf.Instruction, s bpf.State) bool { return isIndirect(ins) && s.X+ins.K >= bpf.LLOff },
	}
	noWrap = stop{
		Deviation{"X+k wraps", "the offset of an indirect load is a sum of more than 32 bits and so is behind every packet; in Linux it wraps"},
		func(ins bpf.Instruction, s bpf.State) bool {
			return isIndirect(ins) && uint64(s.X)+uint64(ins.K) > 1<<32-1
		},
	}
	shiftsToZero = Deviation{"shift above 31", "a shift by X > 31 leaves 0; Linux takes the count mod 32 since 5.14, and left it to the processor before"}
)

func isIndirect(ins bpf.Instruction) bool {
	return ins.Code == bpf.LdWInd || ins.Code == bpf.LdHInd || ins.Code == bpf.LdBInd
}

// Deviations lists what is known of the peer.
func (p *Peer) Deviations() []Deviation {
	var all []Deviation
	for _, s := range p.stops {
		all = append(all, s.Deviation)
	}
	if p.swapped != nil {
		all = append(all, p.swapped.Deviation)
	}
	return append(all, p.shifts)
}

// Prediction is what a peer has to give for one program and input.
type Prediction struct {
	Value     uint32
	Deviation *Deviation // the first on the way there; nil if there is none

	// Open: the reference cannot follow any more, behind a shift by X > 31 that
	// was not undone. Any value will do.
	Open bool
}

// Predict follows the program as the peer should. Its error is a
// *bpf.CheckError: Linux does not take the program.
func (p *Peer) Predict(prog bpf.Program, kind bpf.Kind, in kernelabi.Input) (Prediction, error) {
	if p.swapped != nil {
		prog = swapMoves(prog)
	}
	m, err := bpf.Compile(prog, kind, p.profile.Rules)
	if err != nil {
		return Prediction{}, err
	}
	var out Prediction
	stopped := false
	res := m.Trace(in.Under(p.profile.Semantics), func(s bpf.State) {
		if stopped || out.Open {
			return
		}
		ins := prog[s.PC]
		note := func(d *Deviation) {
			if out.Deviation == nil {
				out.Deviation = d
			}
		}
		for i := range p.stops {
			if p.stops[i].at(ins, s) {
				stopped = true
				note(&p.stops[i].Deviation)
				return
			}
		}
		switch ins.Code {
		case bpf.Tax, bpf.Txa:
			if p.swapped != nil && s.A != s.X {
				note(&p.swapped.Deviation)
			}
		case bpf.LshX, bpf.RshX:
			// Nothing is left of A = 0 whatever the count.
			if s.X > 31 && s.A != 0 {
				out.Open = true
				note(&p.shifts)
			}
		}
	})
	if !stopped {
		out.Value = res.Value
	}
	return out, nil
}

func swapMoves(prog bpf.Program) bpf.Program {
	prog = slices.Clone(prog)
	for pc := range prog {
		switch prog[pc].Code {
		case bpf.Tax:
			prog[pc].Code = bpf.Txa
		case bpf.Txa:
			prog[pc].Code = bpf.Tax
		}
	}
	return prog
}
