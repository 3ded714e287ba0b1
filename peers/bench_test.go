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
// with each runner.
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
	}
}

func benchInputs(b *testing.B) (inputs []kernelabi.Input) {
	packets, err := corpus.Packets()
	if err != nil {
		b.Fatal(err)
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
