package corpus

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/kernelabi"
)

// allRules are the checkers that a program may be marked as refused by.
var allRules = bpf.AllRules()

func programs(t *testing.T) []Program {
	t.Helper()
	all, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func packets(t *testing.T) []Packet {
	t.Helper()
	all, err := Packets()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestProgramsSayWhatTheyAre(t *testing.T) {
	seen := map[string]string{}
	for _, p := range programs(t) {
		if len(p.Comments) == 0 {
			t.Errorf("%s does not say what it shows", p.Name)
		}
		for _, name := range p.Refused {
			if !slices.ContainsFunc(allRules, func(r bpf.Rules) bool { return r.Name == name }) {
				t.Errorf("%s is refused by %q, which is no checker", p.Name, name)
			}
		}
		if strings.HasPrefix(p.Name, "fault-") != (p.Mutant != "") {
			t.Errorf("%s: fault-* programs, and no others, name the fault they show; this has %q", p.Name, p.Mutant)
		}
		text := fmt.Sprint(p.Kind, p.Program)
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s are the same program", p.Name, other)
		}
		seen[text] = p.Name
	}
}

func TestCheckersAcceptAsMarked(t *testing.T) {
	for _, p := range programs(t) {
		for _, rules := range allRules {
			err := bpf.Check(p.Program, p.Kind, rules)
			if (err != nil) != p.RefusedBy(rules) {
				t.Errorf("%s: checker %s says %v, the file says refused by %q", p.Name, rules.Name, err, p.Refused)
			}
		}
	}
}

// Every socket program runs on every packet under every kernel that takes it,
// returns what its file says, and gives the same however the packet is split.
func TestProgramsRunOnPackets(t *testing.T) {
	kernels := append(kernelabi.Profiles(), kernelabi.Current())
	for _, p := range programs(t) {
		if p.Kind != bpf.Socket {
			continue
		}
		for _, kernel := range kernels {
			if p.RefusedBy(kernel.Rules) {
				continue
			}
			machine, err := bpf.Compile(p.Program, p.Kind, kernel.Rules)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			for _, packet := range packets(t) {
				got := machine.Run(packet.Skb.Under(kernel.Semantics))
				if p.Returns != nil && got.Value != *p.Returns {
					t.Errorf("%s on %s under %s: got %#x, the file says %#x", p.Name, packet.Name, kernel.Name, got.Value, *p.Returns)
				}
				if readsAlikeWhenSplit(p.Program, kernel.Semantics) {
					for _, head := range []int{0, 1, 14, 23, len(packet.Skb.Packet) - 1} {
						split := machine.Run(packet.Skb.Split(head, 5, 17).Under(kernel.Semantics))
						if split != got {
							t.Errorf("%s on %s under %s with %d bytes linear: got %+v, flat %+v", p.Name, packet.Name, kernel.Name, head, split, got)
						}
					}
				}
			}
		}
	}
}

// readsAlikeWhenSplit: negative offsets of older kernels and searches for
// netlink attributes see the linear part only.
func readsAlikeWhenSplit(prog bpf.Program, sem kernelabi.Semantics) bool {
	return !slices.ContainsFunc(prog, func(ins bpf.Instruction) bool {
		if ext, ok := ins.Extension(); ok {
			return ext == bpf.ExtNlattr || ext == bpf.ExtNlattrN
		}
		load := ins.Class() == bpf.ClassLd || ins.Class() == bpf.ClassLdx
		return load && ins.K >= bpf.LLOff-64 && !sem.NegativeOffsetsReachFrags
	})
}

// No instruction of the corpus is idle: some packet reaches each that is
// reachable at all. Left out are programs that show what ends a program early,
// or that return early only when a comparison is wrong.
func TestPacketsReachEveryInstruction(t *testing.T) {
	exempt := []string{"div-x-zero", "mod-x-zero", "ind-past-end", "ind-largest", "abs-past-end", "neg-below", "jump-signed"}
	all := packets(t)
	current := kernelabi.Current()
	for _, p := range programs(t) {
		if p.Kind != bpf.Socket || p.RefusedBy(current.Rules) || p.Mutant != "" || slices.Contains(exempt, p.Name) {
			continue
		}
		machine, err := bpf.Compile(p.Program, p.Kind, current.Rules)
		if err != nil {
			t.Fatal(err)
		}
		reached := make([]bool, len(p.Program))
		for _, packet := range all {
			machine.Trace(packet.Skb.Under(current.Semantics), func(s bpf.State) { reached[s.PC] = true })
		}
		flow := bpf.Flow(p.Program)
		for pc, hit := range reached {
			if !hit && flow.Reachable(pc) {
				t.Errorf("%s: no packet reaches instruction %d", p.Name, pc)
			}
		}
	}
}

func TestFiltersAccept(t *testing.T) {
	for _, test := range []struct {
		program string
		accepts string // packet names
	}{
		{"posting2011", "arp-request arp-reply rarp tcp-syn-out tcp-synack-in tcp-data-in tcp-fin-out tcp-options tcp-full " +
			"udp-dns-out udp-dns-in udp-multicast udp-high-ports icmp-echo igmp sctp fragment-first fragment-later ip-options ip-options-full gre-ip gre-ethernet ip-in-ip runt-33 runt-34 runt-37"},
		{"tcp-syn", "tcp-syn-out tcp-options tcp-ssh-nearby ip-options"},
		{"udp-dns", "udp-dns-out udp-dns-in fragment-first ip-options-full ip6-udp"},
		{"arp-who-has", "arp-request"},
		{"vlan-100", "vlan-100 qinq vlan-vlan"},
		{"ip6-hosts", "ip6-tcp ip6-local ip6-udp ip6-hop-by-hop ip6-fragment"},
	} {
		t.Run(test.program, func(t *testing.T) {
			p, err := ProgramByName(test.program)
			if err != nil {
				t.Fatal(err)
			}
			machine, err := bpf.Compile(p.Program, p.Kind, bpf.RulesCurrent)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, packet := range packets(t) {
				if machine.Run(packet.Skb.Under(kernelabi.Semantics{})).Value != 0 {
					got = append(got, packet.Name)
				}
			}
			if diff := cmp.Diff(strings.Fields(test.accepts), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNetlinkSearches(t *testing.T) {
	all := packets(t)
	i := slices.IndexFunc(all, func(p Packet) bool { return p.Name == "netlink" })
	for program, want := range map[string]uint32{"anc-nlattr": 56, "anc-nlattr-nest": 48} {
		p, err := ProgramByName(program)
		if err != nil {
			t.Fatal(err)
		}
		machine, err := bpf.Compile(p.Program, p.Kind, bpf.RulesLinux3_0)
		if err != nil {
			t.Fatal(err)
		}
		if got := machine.Run(all[i].Skb.Under(kernelabi.Semantics{})).Value; got != want {
			t.Errorf("%s: got %d, want %d", program, got, want)
		}
	}
}

func TestPosting2011IsWrittenAsTcpdumpDoes(t *testing.T) {
	p, err := ProgramByName("posting2011")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open("programs/posting2011.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	listing, err := bpftext.Format(bpftext.D, p.Program)
	if err != nil {
		t.Fatal(err)
	}
	if p.Form != bpftext.D || len(p.Program) != 18 || !strings.HasSuffix(string(file), string(listing)) {
		t.Errorf("form %s, %d instructions; tcpdump prints\n%s", p.Form, len(p.Program), listing)
	}
}

// Every code that Linux accepts in socket filters, and every ancillary load,
// is in some program.
func TestCorpusCoversTheLanguage(t *testing.T) {
	codes, extensions := map[uint16]bool{}, map[bpf.Extension]bool{}
	for _, p := range programs(t) {
		for _, ins := range p.Program {
			codes[ins.Code] = true
			if ext, ok := ins.Extension(); ok {
				extensions[ext] = true
			}
		}
	}
	for code := range uint16(0x100) {
		if bpf.RulesCurrent.Accepts(code, bpf.Socket) && !codes[code] {
			t.Errorf("no program has code %#02x", code)
		}
	}
	for n := range bpf.Extension(bpf.NumExtensions) {
		if !extensions[4*n] {
			t.Errorf("no program has ancillary load %s", 4*n)
		}
	}
}

func TestUnknownProgram(t *testing.T) {
	for name, want := range map[string]string{
		"alu-q":     "do you mean alu-k, alu-x?",
		"zzz":       "there are abs-edges",
		"../gen/x":  "there are ",
		"alu-k.txt": "alu-k",
	} {
		if _, err := ProgramByName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("program %q: got error %v, want one with %q", name, err, want)
		}
	}
}

func TestPacketsAreManyAndValid(t *testing.T) {
	all := packets(t)
	if len(all) < 30 {
		t.Errorf("%d packets, want 30 at least", len(all))
	}
	names := map[string]bool{}
	for _, p := range all {
		if err := p.Skb.Check(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if names[p.Name] || p.About == "" {
			t.Errorf("%s has a name that is taken, or says nothing", p.Name)
		}
		names[p.Name] = true
	}
}
