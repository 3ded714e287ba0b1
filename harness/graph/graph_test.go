package graph

import (
	"encoding/xml"
	"errors"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness/listing"
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
		if err := g.AddNative(name, img); err != nil {
			t.Fatal(err)
		}
		if g.Native != name || len(g.Entry) == 0 || !strings.HasPrefix(g.Entry[0], "   0: ") {
			t.Errorf("%s: drawn as %s with the entry %q", name, g.Native, g.Entry)
		}
		all := len(g.Entry) + len(g.Rest)
		for _, b := range g.Blocks {
			all += len(b.Native)
			if len(b.Native) == 0 {
				t.Errorf("%s: the block at %d has no code", name, b.Start)
			}
		}
		if n := len(listing.Disassemble(img)); all != n {
			t.Errorf("%s: %d of %d instructions are drawn", name, all, n)
		}
		var svg, dot strings.Builder
		if err := errors.Join(g.WriteSVG(&svg), g.WriteDOT(&dot)); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg.String())
		for _, line := range append(g.Entry, g.Rest...) {
			if !strings.Contains(html.UnescapeString(svg.String()), ">"+line+"</text>") || !strings.Contains(dot.String(), line) {
				t.Errorf("%s: %q is not drawn", name, line)
			}
		}
		if !strings.Contains(svg.String(), ">(entry)<") || !strings.Contains(dot.String(), "entry -> b0") {
			t.Errorf("%s: the entry is no block of its own", name)
		}
		if err := g.AddNative("an import", &kernelabi.Image{Origin: "an import", Profile: profile}); err == nil {
			t.Error("an image without a map was taken")
		}
	}
}

// The signs that a drawing has are explained, and no others; edges have their
// counts, which do not leave the drawing.
func TestSigns(t *testing.T) {
	prog := bpf.Program{
		{Code: bpf.LdBAbs},
		{Code: bpf.JeqK, K: 1, JT: 2},
		{Code: bpf.JeqK, K: 2, JT: 3, JF: 2},
		{Code: bpf.RetK, K: 1},
		{Code: bpf.RetK, K: 2},
		{Code: bpf.RetK, K: 3},
		{Code: bpf.RetK, K: 4},
	}
	g := New("signs", prog)
	draw := func() string {
		var svg strings.Builder
		if err := g.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg.String())
		return svg.String()
	}
	always := []string{"true: the condition holds (jt)", "false: it does not (jf)", "no way leads here"}
	counted := []string{"dashed: no input goes this way", "more colour: more of the inputs come here"}
	never := []string{"jump, whatever the condition", "the next instruction"}
	check := func(svg string, has, hasNot []string) {
		t.Helper()
		for _, text := range has {
			if strings.Count(svg, ">"+text+"<") != 1 {
				t.Errorf("it does not say once: %s", text)
			}
		}
		for _, text := range hasNot {
			if strings.Contains(svg, ">"+text+"<") {
				t.Errorf("it says %s", text)
			}
		}
	}
	check(draw(), always[:2], append(counted, never...))
	m, err := bpf.Compile(prog, bpf.Socket, bpf.RulesLinux4_5)
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for range 12345 {
		inputs = append(inputs, kernelabi.NewSkb([]byte{1}))
	}
	g.Count(m, append(inputs, kernelabi.NewSkb([]byte{3})), kernelabi.Semantics{})
	svg := draw()
	check(svg, append(always[:2], counted...), never)
	counts := regexp.MustCompile(`<text class="soft num" x="(\d+)" y="\d+" text-anchor="(\w+)">(\d+)</text>`).FindAllStringSubmatch(svg, -1)
	var got []string
	for _, c := range counts {
		got = append(got, c[3])
		if x, err := strconv.Atoi(c[1]); err != nil || c[2] == "end" && x < 7*len(c[3]) {
			t.Errorf("the count %s ends at %s", c[3], c[1])
		}
	}
	if diff := cmp.Diff([]string{"12345", "1", "0", "1"}, got); diff != "" {
		t.Errorf("counts of edges: %s", diff)
	}
}
