package peers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// eachPeer runs test for every peer of this host.
func eachPeer(t *testing.T, test func(*testing.T, *Peer)) {
	all, missing := All()
	for _, p := range all {
		t.Run(p.Name(), func(t *testing.T) { test(t, p) })
	}
	for _, err := range missing {
		t.Run("missing", func(t *testing.T) { t.Skip("skipped: ", err) })
	}
}

// tally counts the runs of one peer by what became of them.
type tally struct {
	agree, notRun int
	known         map[string]int // by deviation
	lacking       map[string]int // programs not run, by what the peer lacks
}

func newTally() *tally { return &tally{known: map[string]int{}, lacking: map[string]int{}} }

// log prints the tally as a table, the known deviations with their reasons.
func (c *tally) log(t *testing.T, p *Peer) {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nagree\t%d\t\n", c.agree)
	for _, d := range p.Deviations() {
		fmt.Fprintf(w, "%s\t%d\t%s\n", d.Name, c.known[d.Name], d.Reason)
	}
	fmt.Fprintf(w, "not run\t%d\t\n", c.notRun)
	for _, why := range slices.Sorted(maps.Keys(c.lacking)) {
		fmt.Fprintf(w, "  no %s\t%d programs\t\n", why, c.lacking[why])
	}
	w.Flush()
	t.Log(s.String())
}

// judge runs one program on all inputs and fails for every outcome that is
// neither the reference's nor that of a known deviation.
func (c *tally) judge(t *testing.T, p *Peer, name string, prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input) {
	t.Helper()
	want, err := harness.NewInterpreter(p.Profile()).Run(prog, kind, inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Run(prog, kind, inputs, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(got) != len(inputs) {
		t.Fatalf("%s: %d outcomes for %d inputs", name, len(got), len(inputs))
	}
	if why := p.Lacks(prog); why != "" && want[0].Kind != harness.Rejected {
		for _, ins := range prog {
			if why := p.lacks(ins); why != "" {
				c.lacking[strings.SplitN(why, " (", 2)[0]]++
				break
			}
		}
	}
	for n, in := range inputs {
		verdict := harness.Compare(want[n], got[n])
		if verdict == harness.NotRun {
			c.notRun++
			continue
		}
		if got[n].Kind != harness.Value {
			t.Errorf("%s, input %d: %s (%s)\n%v", name, n, got[n], got[n].Why, prog)
			continue
		}
		expect, err := p.Predict(prog, kind, in)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		case !expect.Open && got[n].Value != expect.Value:
			t.Errorf("%s, input %d: got %#x, predicted %#x by %+v, the reference gives %#x\n%v",
				name, n, got[n].Value, expect.Value, expect.Deviation, want[n].Value, prog)
		case verdict == harness.Agree:
			c.agree++
		case expect.Deviation == nil:
			t.Errorf("%s, input %d: got %#x, the reference gives %#x, and nothing explains it\n%v", name, n, got[n].Value, want[n].Value, prog)
		default:
			c.known[expect.Deviation.Name]++
		}
	}
}

func TestCorpus(t *testing.T) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[bpf.Kind][]kernelabi.Input{bpf.Seccomp: systemCalls(rand.New(rand.NewPCG(1, 0)), 50)}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		inputs[bpf.Socket] = append(inputs[bpf.Socket], p.Skb, p.Skb.Split(14, 5, 17))
	}
	eachPeer(t, func(t *testing.T, p *Peer) {
		count := newTally()
		for _, prog := range programs {
			count.judge(t, p, prog.Name, prog.Program, prog.Kind, inputs[prog.Kind])
		}
		count.log(t, p)
		if count.agree < 1000 {
			t.Errorf("only %d runs were compared and agree", count.agree)
		}
	})
}

func TestRandomPrograms(t *testing.T) {
	for _, kind := range []bpf.Kind{bpf.Socket, bpf.Seccomp} {
		t.Run(kind.String(), func(t *testing.T) {
			eachPeer(t, func(t *testing.T, p *Peer) {
				rng, count, n := jittest.Seeded(t), newTally(), jittest.Rounds(30000)
				for i := range n {
					prog := randomProgram(rng, kind)
					inputs := systemCalls(rng, 4)
					if kind == bpf.Socket {
						inputs = packets(rng, 4)
					}
					count.judge(t, p, fmt.Sprint("random program ", i), prog, kind, inputs)
					if t.Failed() {
						break
					}
				}
				count.log(t, p)
				if !t.Failed() && count.agree < n {
					t.Errorf("of %d programs so few could run that only %d runs agree", n, count.agree)
				}
			})
		})
	}
}

// randomProgram makes a program in which ancillary loads and negative offsets,
// which no peer can express, are rare.
func randomProgram(rng *rand.Rand, kind bpf.Kind) bpf.Program {
	prog := jittest.RandomProgram(rng, kind, []bpf.Extension{bpf.ExtMark, bpf.ExtXorX})
	for pc := range prog {
		if kind == bpf.Socket && lacksLinux(prog[pc]) != "" && rng.IntN(20) > 0 {
			prog[pc].K = rng.Uint32N(60)
		}
	}
	return prog
}

func packets(rng *rand.Rand, n int) (inputs []kernelabi.Input) {
	for range n {
		packet := make([]byte, rng.IntN(100))
		for i := range packet {
			packet[i] = byte(rng.Uint32())
		}
		inputs = append(inputs, kernelabi.NewSkb(packet).Split(rng.IntN(len(packet)+1), 7))
	}
	return inputs
}

func systemCalls(rng *rand.Rand, n int) (inputs []kernelabi.Input) {
	for range n {
		call := seccompdata.Data{Nr: rng.Uint32N(400), Arch: 0xc000003e, IP: rng.Uint64()}
		for i := range call.Args {
			call.Args[i] = rng.Uint64() >> rng.IntN(64)
		}
		inputs = append(inputs, &kernelabi.Syscall{Data: call})
	}
	return inputs
}

// Every deviation that is listed shows on a program made for it: the lists hold
// nothing that a newer peer has mended.
func TestDeviationsAreReal(t *testing.T) {
	ret := bpf.Instruction{Code: bpf.RetA}
	shows := map[string]bpf.Program{
		negative.Name: {{Code: bpf.LdxImm, K: bpf.LLOff}, {Code: bpf.LdBInd, K: 0}, {Code: bpf.LdImm, K: 7}, ret},
		noWrap.Name:   {{Code: bpf.LdxImm, K: 0xffffffff}, {Code: bpf.LdBInd, K: 1}, {Code: bpf.LdImm, K: 7}, ret},
		"TAX is TXA":  {{Code: bpf.LdImm, K: 7}, {Code: bpf.Tax}, ret},
		// Today's Linux gives 2 for 1 << 33.
		shiftsToZero.Name: {{Code: bpf.LdImm, K: 1}, {Code: bpf.LdxImm, K: 33}, {Code: bpf.LshX}, ret},
	}
	inputs := []kernelabi.Input{kernelabi.NewSkb(make([]byte, 60))}
	eachPeer(t, func(t *testing.T, p *Peer) {
		for _, d := range p.Deviations() {
			prog, ok := shows[d.Name]
			if !ok {
				t.Fatalf("no program shows %q", d.Name)
			}
			want, err := harness.NewInterpreter(nil).Run(prog, bpf.Socket, inputs, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Run(prog, bpf.Socket, inputs, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Kind != harness.Value || got[0].Value != 0 || want[0].Value == 0 {
				t.Errorf("%s: got %s, the reference gives %s; want 0 and another value", d.Name, got[0].Long(), want[0].Long())
			}
		}
	})
}

func TestNotRunIsSaidWhy(t *testing.T) {
	ret := bpf.Instruction{Code: bpf.RetA}
	packet := []kernelabi.Input{kernelabi.NewSkb(make([]byte, 60))}
	call := []kernelabi.Input{&kernelabi.Syscall{}}
	for _, test := range []struct {
		desc   string
		prog   bpf.Program
		kind   bpf.Kind
		inputs []kernelabi.Input
		want   harness.Kind
		why    string
	}{
		{"An ancillary load is Linux's own.", bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtMark.K()}, ret}, bpf.Socket, packet, harness.Untried, "ancillary load mark (instruction 0)"},
		{"A negative offset is Linux's own.", bpf.Program{{Code: bpf.LdBAbs, K: bpf.NetOff + 9}, ret}, bpf.Socket, packet, harness.Untried, "negative offset (-1048567)"},
		{"So it is in LDXB.", bpf.Program{{Code: bpf.LdxMsh, K: bpf.NetOff}, ret}, bpf.Socket, packet, harness.Untried, "negative offset (-1048576)"},
		{"What Linux does not take, no peer gets.", bpf.Program{{Code: bpf.LdMem}, ret}, bpf.Socket, packet, harness.Rejected, "M[0] is loaded"},
		{"A loop is among that.", bpf.Program{{Code: bpf.Ja, K: 0xffffffff}, ret}, bpf.Socket, packet, harness.Rejected, "jump goes back"},
		{"An empty program too.", nil, bpf.Socket, packet, harness.Rejected, "empty"},
		{"A socket filter reads no system call.", bpf.Program{ret}, bpf.Socket, call, harness.Untried, "cannot read"},
		{"A seccomp filter reads no packet.", bpf.Program{ret}, bpf.Seccomp, packet, harness.Untried, "cannot read"},
	} {
		eachPeer(t, func(t *testing.T, p *Peer) {
			got, err := p.Run(test.prog, test.kind, test.inputs, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Kind != test.want || !strings.Contains(got[0].Why, test.why) {
				t.Errorf("%s Got %s (%s), want %s with %q", test.desc, got[0].Kind, got[0].Why, test.want, test.why)
			}
		})
	}
}

// The virtual machine of x/net has no NEG and no LDX LEN; the others do.
func TestXNetLacks(t *testing.T) {
	for _, code := range []uint16{bpf.Neg, bpf.LdxLen} {
		prog := bpf.Program{{Code: code}, {Code: bpf.RetA}}
		if NewXNet().Lacks(prog) == "" || NewGVisor().Lacks(prog) != "" {
			t.Errorf("code %#x: x/net %q, gVisor %q", code, NewXNet().Lacks(prog), NewGVisor().Lacks(prog))
		}
	}
}
