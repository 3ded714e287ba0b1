package graph

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// wellFormed reads the XML to its end and counts elements.
func wellFormed(t *testing.T, text string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return counts
		}
		if err != nil {
			t.Fatalf("%v in\n%.2000s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
}

// Every program of the corpus can be drawn in both forms, with counts and
// machine code, and flow is kept: what enters a block leaves it.
func TestCorpus(t *testing.T) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for _, p := range packets {
		inputs = append(inputs, p.Skb)
	}
	for _, p := range programs {
		g := New(`a "<title>" & more`, p.Program)
		m, err := bpf.Compile(p.Program, p.Kind, bpf.RulesLinux4_5)
		if err != nil || p.Kind != bpf.Socket {
			continue
		}
		g.Count(m, inputs, kernelabi.Semantics{})
		into, out := make([]uint64, len(g.Blocks)), make([]uint64, len(g.Blocks))
		for _, e := range g.Edges {
			into[e.To] += e.Count
			out[e.From] += e.Count
		}
		for i, b := range g.Blocks {
			if i > 0 && into[i] != b.Count || out[i] > b.Count {
				t.Errorf("%s: block at %d executed %d times, entered %d times, left %d times", p.Name, b.Start, b.Count, into[i], out[i])
			}
		}
		if g.Blocks[0].Count != uint64(len(inputs)) {
			t.Errorf("%s: the first block was executed %d times on %d inputs", p.Name, g.Blocks[0].Count, len(inputs))
		}
		var svg, dot strings.Builder
		if err := errors.Join(g.WriteSVG(&svg), g.WriteDOT(&dot)); err != nil {
			t.Fatal(err)
		}
		counts := wellFormed(t, svg.String())
		if counts["path"] != len(g.Edges)+1 { // and the tip of the arrows
			t.Errorf("%s: %d paths for %d edges", p.Name, counts["path"], len(g.Edges))
		}
		if strings.Count(dot.String(), " -> ") != len(g.Edges) {
			t.Errorf("%s: edges are missing in\n%s", p.Name, dot.String())
		}
	}
}

// Jumps to one target share a lane; lanes side by side have places of their own.
func TestLanes(t *testing.T) {
	var prog bpf.Program
	for i := range 100 {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, K: uint32(i), JT: uint8(100 - i)})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.RetK}, bpf.Instruction{Code: bpf.RetK, K: 1})
	g := New("chain", prog)
	all, by := g.lanes()
	if len(all) != 1 || all[by[101]].first != 0 || all[by[101]].last != 101 {
		t.Errorf("lanes %+v by target %v", all, by)
	}
}

func TestNative(t *testing.T) {
	p, err := corpus.ProgramByName("posting2011")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"linux-3.10-x86_64", "kjit-armv5"} {
		profile, err := kernelabi.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		var img *kernelabi.Image
		if profile.Arch == kernelabi.X86_64 {
			e, _ := jitx86.ByName(profile.Emitter)
			img, err = e.Compile(p.Program, p.Kind, profile)
		} else {
			e, _ := jitarm.ByName(profile.Emitter)
			img, err = e.Compile(p.Program, p.Kind, profile)
		}
		if err != nil {
			t.Fatal(err)
		}
		g := New(p.Name, p.Program)
		if err := g.AddNative(img); err != nil {
			t.Fatal(err)
		}
		for _, b := range g.Blocks {
			if len(b.Native) == 0 {
				t.Errorf("%s: the block at %d has no code", name, b.Start)
			}
		}
		if err := g.AddNative(&kernelabi.Image{Origin: "an import", Profile: profile}); err == nil {
			t.Error("an image without a map was taken")
		}
	}
}
