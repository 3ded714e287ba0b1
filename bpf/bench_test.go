package bpf_test

import (
	"fmt"
	"testing"
	"time"

	xbpf "golang.org/x/net/bpf"

	"github.com/kjit-project/kjit/bpf"
)

// xnet returns the program as golang.org/x/net/bpf runs it; an error if it
// cannot.
func xnet(prog bpf.Program) (*xbpf.VM, error) {
	raw := make([]xbpf.RawInstruction, len(prog))
	for pc, ins := range prog {
		raw[pc] = xbpf.RawInstruction{Op: ins.Code, Jt: ins.JT, Jf: ins.JF, K: ins.K}
	}
	insns, decoded := xbpf.Disassemble(raw)
	if !decoded {
		return nil, fmt.Errorf("x/net/bpf does not know every code")
	}
	return xbpf.NewVM(insns)
}

// BenchmarkInterpreter runs each program on all its packets, here and in
// golang.org/x/net/bpf, and reports how many times faster this one is. Both
// times are those of the fastest of many rounds, taken in turns: other load on
// the machine only ever adds.
func BenchmarkInterpreter(b *testing.B) {
	for _, r := range records[programRecord](b, "testdata/programs.jsonl") {
		if r.Kind != bpf.Socket || r.Errno != 0 || len(r.Program) < 10 {
			continue
		}
		vm, err := xnet(r.Program)
		if err != nil {
			continue
		}
		b.Run(r.Name, func(b *testing.B) {
			m, err := bpf.Compile(r.Program, r.Kind, bpf.RulesCurrent)
			if err != nil {
				b.Fatal(err)
			}
			inputs := make([]bpf.Input, len(r.Inputs))
			packets := make([][]byte, len(r.Inputs))
			executed := 0
			for n, in := range r.Inputs {
				whole := &packet{Packet: in.Input.(*packet).Packet}
				inputs[n], packets[n] = whole, whole.Packet
				executed += m.Run(whole).Executed
			}
			b.ReportAllocs()
			const rounds = 50
			ours, theirs := time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				for range rounds {
					runAll(m, inputs)
				}
				middle := time.Now()
				for range rounds {
					runAllXnet(vm, packets)
				}
				ours = min(ours, middle.Sub(start))
				theirs = min(theirs, time.Since(middle))
			}
			runs := float64(rounds * len(inputs))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(ours.Nanoseconds())/runs, "ns/run")
			b.ReportMetric(float64(theirs.Nanoseconds())/runs, "xnet-ns/run")
			b.ReportMetric(float64(executed)/float64(len(inputs)), "insns/run")
			b.ReportMetric(float64(theirs)/float64(ours), "times-faster")
		})
	}
}

// runAll and runAllXnet are functions of their own because the compiler keeps
// every result inside a b.Loop alive, which costs more than a short program.
func runAll(m *bpf.Machine, inputs []bpf.Input) (sum uint32) {
	for _, in := range inputs {
		sum += m.Run(in).Value
	}
	return sum
}

func runAllXnet(vm *xbpf.VM, packets [][]byte) (sum int) {
	for _, p := range packets {
		n, _ := vm.Run(p)
		sum += n
	}
	return sum
}
