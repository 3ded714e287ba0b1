package peers

import (
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// benchPrograms are those that every peer can run as Linux does: short and
// long, with few and many loads.
var benchPrograms = []string{"posting2011", "ip6-hosts", "many-loads", "long"}

// BenchmarkRun is the time of one packet through Runner.Run, preparing the
// program included, in batches of about 1000: what a replay costs
// with each runner. "Alone" is a loop over the packets with nothing in it but one
// machine, in the language that it is written in.
func BenchmarkRun(b *testing.B) {
	inputs := benchInputs(b)
	runners := []harness.Runner{harness.NewInterpreter(nil)}
	all, missing := All()
	for _, p := range all {
		runners = append(runners, p)
	}
	for _, err := range missing {
		b.Log("left out: ", err)
	}
	for _, name := range []string{"linux-3.10-x86_64", "linux-4.5-armv7"} {
		profile, err := kernelabi.ProfileByName(name)
		if err != nil {
			b.Fatal(err)
		}
		jit, err := harness.NewJIT(profile)
		if err != nil {
			b.Fatal(err)
		}
		defer jit.Close()
		runners = append(runners, jit)
	}
	for _, name := range benchPrograms {
		prog, err := corpus.ProgramByName(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range runners {
			b.Run(name+"/"+r.Name(), func(b *testing.B) { benchRunner(b, r, prog.Program, inputs) })
		}
		for _, l := range loops {
			b.Run(name+"/"+l.name+" alone", func(b *testing.B) { benchLoop(b, l.make, prog.Program, inputs) })
		}
	}
}

func benchInputs(tb testing.TB) (inputs []kernelabi.Input) {
	tb.Helper()
	packets, err := corpus.Packets()
	if err != nil {
		tb.Fatal(err)
	}
	for len(inputs) < 1000 {
		for _, p := range packets {
			inputs = append(inputs, p.Skb)
		}
	}
	return inputs
}

func benchRunner(b *testing.B, r harness.Runner, prog bpf.Program, inputs []kernelabi.Input) {
	var out []harness.Outcome
	var err error
	packets := 0
	for b.Loop() {
		if out, err = r.Run(prog, bpf.Socket, inputs, out[:0]); err != nil {
			b.Fatal(err)
		}
		packets += len(out)
	}
	if out[0].Kind != harness.Value {
		b.Skip("skipped: ", out[0].Kind, ": ", out[0].Why)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
	b.ReportMetric(0, "ns/op")
}

// loops make a function that runs the program on all packets and returns the sum of
// the values.
var loops = []struct {
	name string
	make func(prog bpf.Program, inputs []kernelabi.Input) (func() uint32, error)
}{
	{"interpreter", func(prog bpf.Program, inputs []kernelabi.Input) (func() uint32, error) {
		m, err := bpf.Compile(prog, bpf.Socket, bpf.RulesCurrent)
		views := make([]bpf.Input, len(inputs))
		for i, in := range inputs {
			views[i] = in.Under(kernelabi.Current().Semantics)
		}
		return func() (sum uint32) {
			for _, v := range views {
				sum += m.Run(v).Value
			}
			return sum
		}, err
	}},
	{"golang.org/x/net/bpf", func(prog bpf.Program, inputs []kernelabi.Input) (func() uint32, error) {
		run, err := xnetLoad(prog, bpf.Socket)
		data := packetsOf(inputs)
		return func() (sum uint32) {
			for _, p := range data {
				value, _ := run(p)
				sum += value
			}
			return sum
		}, err
	}},
	{"libpcap in C", func(prog bpf.Program, inputs []kernelabi.Input) (func() uint32, error) {
		return LoopInC(prog, packetsOf(inputs))
	}},
}

func packetsOf(inputs []kernelabi.Input) (data [][]byte) {
	for _, in := range inputs {
		data = append(data, in.(*kernelabi.Skb).Packet)
	}
	return data
}

func benchLoop(b *testing.B, make func(bpf.Program, []kernelabi.Input) (func() uint32, error), prog bpf.Program, inputs []kernelabi.Input) {
	run, err := make(prog, inputs)
	if err != nil {
		b.Skip("skipped: ", err)
	}
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(inputs)), "ns/packet")
	b.ReportMetric(0, "ns/op")
}

// TestLoops: what is timed gives the same values everywhere.
func TestLoops(t *testing.T) {
	inputs := benchInputs(t)
	for _, name := range benchPrograms {
		prog, err := corpus.ProgramByName(name)
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]uint32{}
		for _, l := range loops {
			run, err := l.make(prog.Program, inputs)
			if err != nil {
				t.Logf("left out: %s: %v", l.name, err)
				continue
			}
			sums[l.name] = run()
			if sums[l.name] != sums["interpreter"] {
				t.Errorf("%s: %v", name, sums)
			}
		}
	}
}
