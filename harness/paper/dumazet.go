package paper

import (
	"encoding/hex"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness/guestcode"
	"github.com/kjit-project/kjit/kernelabi"
)

// dumazet2011 is the posting of the first BPF JIT: what a packet costs through
// a filter that matches nothing. Seconds are for 10,000,000 packets.
func dumazet2011(m *meter) (*Table, error) {
	p, err := corpus.ProgramByName("posting2011")
	if err != nil {
		return nil, err
	}
	prog := p.Program
	skb, err := udpPacket()
	if err != nil {
		return nil, err
	}
	old, inline := profile("linux-3.0-x86_64"), profile("inline-x86_64")
	interp := m.program(guestcode.Interpreter{}, old, prog, skb, 0)
	helpers := m.program(emitter(old), old, prog, skb, 0)
	inlined := m.program(emitter(inline), inline, prog, skb, 0)

	bytes := func(p *kernelabi.Profile) Value {
		img, err := emitter(p).Compile(prog, bpf.Socket, p)
		if err != nil {
			return None
		}
		return Value(len(img.Code))
	}
	oldBytes := bytes(old)
	const none, withInterp, withJIT = 7.941, 10.165, 9.615
	perPacket := func(seconds Value) Value { return (seconds - none) * 1e9 / 1e7 }
	t := &Table{
		Name:   "dumazet-2011",
		Title:  "A socket filter without and with a JIT",
		Source: "E. Dumazet, net: filter: Just In Time compiler for x86-64, April 2011; Intel E5540 2.53 GHz, 10,000,000 UDP packets through an 18-instruction filter that matches nothing",
		Columns: []Column{
			{"run time", "s", Published, 3},
			{"over no filter, a packet", "ns", Published, 1},
			{"image", "bytes", Published, 0},
			{"executed", "instructions", Counted, 0},
			{"image", "bytes", Counted, 0},
		},
		Rows: []Row{
			{"no filter", []Value{none, 0, None, 0, None}},
			{"interpreter", []Value{withInterp, perPacket(withInterp), None, interp, None}},
			{"JIT, packet loads by helpers (3.0)", []Value{withJIT, perPacket(withJIT), 147, helpers, oldBytes}},
			{"JIT, packet loads inlined (kjit's own)", []Value{None, None, None, inlined, bytes(inline)}},
		},
		Checks: []Check{
			check("the image of Linux 3.0 has the published 147 bytes", oldBytes == 147, "%.0f bytes", oldBytes),
			check("a JIT executes fewer instructions than the interpreter", helpers < interp, "%.0f and %.0f", helpers, interp),
			check("inlined loads execute fewer than loads by helpers", inlined < helpers, "%.0f and %.0f", inlined, helpers),
		},
		Notes: []string{
			"published times hold the sending of the packet and the tap; counts are of the filter alone",
			"the interpreter is kjit's own, in the style of Linux 3.x, compiled with gcc -O2 (ci/guestcode)",
		},
		Plot: Plot{[]int{1, 3}},
	}
	return t, m.err
}

// udpPacket is of the kind that the measurement sent: UDP over IPv4 in a net
// that the filter, "net 192.168.2.0/24", does not select.
func udpPacket() (*kernelabi.Skb, error) {
	frame, err := hex.DecodeString(
		"020000000001" + "020000000002" + "0800" + // Ethernet
			"4500002e000040004011000a0a0000010a000002" + // IPv4 from 10.0.0.1 to 10.0.0.2
			"0009000900120000" + "00000000000000000000") // UDP, 10 bytes
	if err != nil {
		return nil, err
	}
	return kernelabi.NewSkb(frame), nil
}
