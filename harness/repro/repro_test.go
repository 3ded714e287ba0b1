package repro_test

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

const rest = "-- program --\nld #1\nret a\n-- input.json --\n{\"packet\":\"00\"}\n"

func TestParse(t *testing.T) {
	r, err := repro.Parse("x", []byte("# why\n\njit: linux-3.10-x86_64\ndivergence: value\n"+rest))
	if err != nil {
		t.Fatal(err)
	}
	want := &repro.Repro{
		JIT: "linux-3.10-x86_64", Expect: repro.Diverge, Divergence: judge.Value, Comments: []string{"why"},
		Program: bpf.Program{{Code: bpf.LdImm, K: 1}, {Code: bpf.RetA}}, Input: &kernelabi.Skb{Packet: []byte{0}, Headlen: 1, NetworkHeader: 14},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	const head = "jit: linux-3.10-x86_64\ndivergence: value\n"
	for _, tt := range []struct {
		desc, text string
		line       int
		says       string
	}{
		{"Nothing.", "", 0, "no file program in it"},
		{"Something else.", "\x7fELF\x00\x01", 1, "want a line jit: kind: "},
		{"An unknown key.", "jit: x\ncolour: red\n" + rest, 2, `"colour: red": want a line jit:`},
		{"A key twice.", "jit: x\njit: y\n" + rest, 2, "a second line jit"},
		{"No such kind of program.", "jit: x\nkind: xdp\n" + rest, 2, `kind: kind "xdp"`},
		{"No such divergence.", "divergence: sideways\n" + rest, 1, "want one of [value fault"},
		{"No such expectation.", "expect: hope\n" + rest, 1, "want one of [diverge agree]"},
		{"No JIT.", "divergence: value\n" + rest, 0, "no line jit"},
		{"No divergence.", "jit: x\n" + rest, 0, "no line divergence"},
		{"No program.", head + "-- input.json --\n{}\n", 0, "no file program"},
		{"No input.", head + "-- program --\nret #0\n", 0, "no file input.json"},
		{"A file twice.", head + rest + rest, 0, "program is there twice"},
		{"A program that is none.", head + "-- program --\nhello\n-- input.json --\n{}\n", 0, "program: no program found"},
		{"A packet that is none.", head + "-- program --\nret #0\n-- input.json --\n{\"packet\":\"0\"}\n", 0, "input.json: packet"},
		{"A packet for a filter of system calls.", "kind: seccomp\n" + head + rest, 0, "input.json: "},
		{"An image that is not there.", "jit: image:linux-6.18-x86_64\ndivergence: value\n" + rest, 0, "image.json belongs to"},
		{"An image of an emitter.", head + rest + "-- image.json --\n{}\n", 0, "image.json belongs to"},
		{"An image that is none.", "jit: image:linux-6.18-x86_64\ndivergence: value\n" + rest + "-- image.json --\n{\"result\":\"nojit\"}\n", 0, "a record without image or base"},
		{"Far too much.", head + rest + "-- listing.txt --\n" + strings.Repeat("x", 17<<20), 0, "more than 16 MiB"},
	} {
		_, err := repro.Parse("file", []byte(tt.text))
		var typed *repro.Error
		if !errors.As(err, &typed) || typed.Line != tt.line || !strings.Contains(err.Error(), tt.says) || typed.File != "file" {
			t.Errorf("%s got %v, want line %d: %s", tt.desc, err, tt.line, tt.says)
		}
	}
}

// checkParse: what can be read can be written, and then reads the same. Nothing
// panics.
func checkParse(t *testing.T, data []byte) {
	r, err := repro.Parse("file", data)
	if err != nil {
		var typed *repro.Error
		if !errors.As(err, &typed) {
			t.Fatalf("an error of type %T: %v", err, err)
		}
		return
	}
	text, err := r.Format()
	if err != nil {
		t.Fatal(err)
	}
	again, err := repro.Parse("again", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Fatalf("(-first +again):\n%s\n%s", diff, text)
	}
	if runner, err := r.Open(); err == nil {
		runner.Close()
	}
}

func seeds(t testing.TB) (all [][]byte) {
	findings, err := corpus.Findings()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		all = append(all, f.Data)
	}
	return append(all, []byte(rest), []byte("jit: image:linux-6.18-x86_64\nexpect: agree\n"+rest+
		`-- image.json --`+"\n"+`{"name":"x","kernel":"linux-6.18-x86_64","arch":"x86_64","program":[[6,0,0,0]],"base":"0xffffffffc0000000","image":"c3","result":"ok"}`))
}

func TestParseSeeds(t *testing.T) {
	for _, data := range seeds(t) {
		checkParse(t, data)
		for cut := 0; cut < min(len(data), 400); cut += 7 {
			checkParse(t, data[:cut])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, data := range seeds(f) {
		f.Add(data)
	}
	f.Fuzz(checkParse)
}

// A divergence of an imported image has the image with it.
func TestImage(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-6.18-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	p = p.WithSymbols(map[string]uint64{"bpf_skb_load_helper_8": 0xffffffff81234560}).WithLayout(map[string]int{kernelabi.SkbLen: 112})
	code, _ := hex.DecodeString("8b4770c3") // mov eax, [rdi+0x70]; ret
	r, err := harness.NewImage("image:"+p.Name, &kernelabi.Image{Code: code, Base: 0xffffffffc0123000, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	j := judge.New(r, judge.Options{})
	defer j.Close()
	d, err := j.Judge(bpf.Program{{Code: bpf.RetK, K: 3}}, kernelabi.NewSkb([]byte{1, 2, 3, 4}))
	if err != nil || d == nil {
		t.Fatalf("%v, %v", d, err)
	}
	file := roundTrip(t, repro.New(d))
	checkRuns(t, "image", file)
	if file.Image == nil || file.JIT != "image:linux-6.18-x86_64" {
		t.Errorf("%+v", file)
	}
}

// A seccomp filter, and one that bpf_asm has no words for.
func TestSeccomp(t *testing.T) {
	r := &repro.Repro{
		JIT: "kjit-armv7", Kind: bpf.Seccomp, Expect: repro.Agree, Accesses: true,
		Program: bpf.Program{{Code: bpf.LdWAbs, K: 16, JT: 3}, {Code: bpf.RetA}},
		Input:   &kernelabi.Syscall{Data: seccompdata.Data{Nr: 7, Args: [6]uint64{9}}},
	}
	checkRuns(t, "seccomp", roundTrip(t, r))
}

func TestOpenErrors(t *testing.T) {
	for _, jit := range []string{"nonsense", "exec:x", "mutant:nonsense", "linux-6.18-x86_64"} {
		r := &repro.Repro{JIT: jit}
		if runner, err := r.Open(); err == nil {
			t.Errorf("%s: opened %s", jit, runner.Name())
		}
	}
}

// Write leaves nothing behind but the file, and replaces what was there.
func TestWrite(t *testing.T) {
	r, err := repro.Parse("x", []byte("jit: linux-3.10-x86_64\ndivergence: value\nrule: and-k\n"+rest))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, how := range []string{"one", "two\nlines: of it"} {
		r.How = how
		path, err := repro.Write(dir, r)
		if err != nil || path != filepath.Join(dir, "linux-3.10-x86_64.and-k.value.txtar") {
			t.Fatalf("%s, %v", path, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	again, err := repro.Read(filepath.Join(dir, entries[0].Name()))
	if err != nil || again.How != "two lines: of it" {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := repro.Write(filepath.Join(dir, "none"), r); err == nil {
		t.Error("written into a folder that is not there")
	}
	if _, err := repro.Write(dir, &repro.Repro{}); err == nil {
		t.Error("a program of no instructions is written")
	}
}
