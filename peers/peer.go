package peers

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// Peer is another implementation of classic BPF as a [harness.Runner]. It holds
// nothing that has to be freed.
type Peer struct {
	name    string
	profile *kernelabi.Profile

	// lacks says what of an instruction, that Linux takes, the peer cannot
	// express; "" if nothing.
	lacks func(bpf.Instruction) string

	// words is the order in which the peer loads the words of seccomp data.
	words binary.AppendByteOrder

	// load makes a program ready. An error is the peer's refusal.
	load func(bpf.Program, bpf.Kind) (execute, error)

	stops   []stop         // what ends a program with 0 in the peer only
	swapped *registerMoves // it has TAX and TXA the wrong way round
	shifts  Deviation      // what it does with a count above 31 in X
	scratch [seccompdata.Size]byte
}

// execute runs a program on bytes. An error means that the peer gave no value.
type execute func(data []byte) (uint32, error)

var _ harness.Runner = (*Peer)(nil)

// All returns every peer there is on this host, and for each of the others why
// it is not.
func All() (all []*Peer, missing []error) {
	all = []*Peer{NewXNet(), NewGVisor(), NewGVisorOptimized()}
	pcap, err := NewLibpcap()
	if err != nil {
		return all, []error{err}
	}
	return append(all, pcap), nil
}

// Name returns the import path or the library and version.
func (p *Peer) Name() string { return p.name }

// Profile returns today's Linux: no peer plays an older one.
func (p *Peer) Profile() *kernelabi.Profile { return p.profile }

// Close does nothing.
func (p *Peer) Close() error { return nil }

// Run gives the program to the peer if Linux takes it and the peer can express
// it. A refusal of the peer is the outcome Rejected, which the comparison calls
// a divergence; a panic is the outcome Failed.
func (p *Peer) Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []harness.Outcome) ([]harness.Outcome, error) {
	if err := bpf.Check(prog, kind, p.profile.Rules); err != nil {
		return harness.Declined(err, inputs, out)
	}
	if why := p.Lacks(prog); why != "" {
		return append(out, slices.Repeat([]harness.Outcome{untried(why)}, len(inputs))...), nil
	}
	run, err := p.load(prog, kind)
	if err != nil {
		return harness.Declined(&bpf.CheckError{PC: -1, Reason: p.name + " refuses it: " + err.Error()}, inputs, out)
	}
	for _, in := range inputs {
		out = append(out, p.outcome(run, kind, in))
	}
	return out, nil
}

// Lacks says what of the program the peer cannot express; "" if it can all.
func (p *Peer) Lacks(prog bpf.Program) string {
	for pc, ins := range prog {
		if why := p.lacks(ins); why != "" {
			return fmt.Sprintf("%s has no %s (instruction %d)", p.name, why, pc)
		}
	}
	return ""
}

func (p *Peer) outcome(run execute, kind bpf.Kind, in kernelabi.Input) (o harness.Outcome) {
	data, ok := p.bytes(kind, in)
	if !ok {
		return untried(fmt.Sprintf("a %s program cannot read a %T", kind, in))
	}
	o = harness.Outcome{PC: -1, ShiftPC: -1}
	defer func() {
		if r := recover(); r != nil {
			o.Kind, o.Why = harness.Failed, fmt.Sprintf("%s panicked: %v", p.name, r)
		}
	}()
	value, err := run(data)
	if err != nil {
		o.Kind, o.Why = harness.Failed, p.name+": "+err.Error()
		return o
	}
	o.Value = value
	return o
}

// bytes returns what the peer reads for in. They are valid until the next call.
func (p *Peer) bytes(kind bpf.Kind, in kernelabi.Input) ([]byte, bool) {
	switch in := in.(type) {
	case *kernelabi.Skb:
		return in.Packet, kind == bpf.Socket
	case *kernelabi.Syscall:
		data := p.scratch[:0]
		for off := uint32(0); off < seccompdata.Size; off += 4 {
			word, _ := in.Load(off, 4)
			data = p.words.AppendUint32(data, word)
		}
		return data, kind == bpf.Seccomp
	}
	return nil, false
}

func untried(why string) harness.Outcome {
	return harness.Outcome{Kind: harness.Untried, Why: why, PC: -1, ShiftPC: -1}
}

// lacksLinux is what no peer has: Linux's own additions to the language.
func lacksLinux(ins bpf.Instruction) string {
	switch ins.Code {
	case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdxMsh:
		if ext, ok := ins.Extension(); ok {
			return "ancillary load " + ext.String()
		}
		if ins.K >= bpf.LLOff {
			return fmt.Sprintf("negative offset (%d)", int32(ins.K))
		}
	}
	return ""
}
