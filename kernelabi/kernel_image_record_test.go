package kernelabi

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kjit-project/kjit/bpf"
)

// imageRecords are some records of each of five kernels.
const imageRecords = "testdata/kernel-image-records.jsonl"

func TestKernelImageRecordRoundTrip(t *testing.T) {
	for _, record := range readRecords[KernelImageRecord](t, imageRecords) {
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		var again KernelImageRecord
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(record, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("a record changed by writing and reading it:\n%s", diff)
		}
	}
}

// The addresses, the base and the processor that the records state are what the
// code says.
func TestKernelImageCode(t *testing.T) {
	if n := checkKernelImageCode(t, imageRecords); n < 50 {
		t.Errorf("%d images are too few for the subset of records", n)
	}
}

func TestSharedKernelImageCode(t *testing.T) {
	for _, name := range []string{"6.18-x86_64", "6.1-amd64", "6.1-armv7", "6.1-armv6", "6.1-armv5"} {
		t.Logf("%s: %d images", name, checkKernelImageCode(t, shared(t, "kernel-images/"+name+".jsonl")))
	}
}

func checkKernelImageCode(t *testing.T, path string) (images int) {
	inferred := 0
	defer func() {
		if inferred < images/4 {
			t.Errorf("only %d layouts were inferred from %d images", inferred, images)
		}
	}()
	for _, r := range readRecords[KernelImageRecord](t, path) {
		img, err := r.Code()
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		if img == nil {
			continue
		}
		images++
		found, err := NewSymbolTable(img.Profile.Symbols).Resolve(img)
		if err != nil || !maps.Equal(found, img.Profile.Symbols) {
			t.Errorf("%s %s: found %v (%v), the record has %v", r.Kernel, r.Name, found, err, r.Symbols)
		}
		needs, err := img.Needs()
		slices.Sort(r.CPU.Features)
		if diff := cmp.Diff(r.CPU.Features, needs, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s %s: error %v, (-record +found):\n%s", r.Kernel, r.Name, err, diff)
		}
		if lacks, err := img.Lacks(); err != nil || len(lacks) > 0 {
			t.Errorf("%s %s: its own processor lacks %v (%v)", r.Kernel, r.Name, lacks, err)
		}
		if img.Profile.Arch == X86_64 {
			checkSolved(t, &r, img)
		}
		if found, ok := img.InferLayout(); ok {
			inferred++
			for field, off := range found {
				if img.Profile.Layout[field] != off {
					t.Errorf("%s %s: %s seems to be at %d, it is at %d", r.Kernel, r.Name, field, off, img.Profile.Layout[field])
				}
			}
		} else if r.Kind == bpf.Socket && slices.ContainsFunc(r.Program, func(ins bpf.Instruction) bool {
			_, ext := ins.Extension()
			return loadCalls[ins.Code] != "" && !ext
		}) {
			t.Errorf("%s %s: the packet's length and data were not found", r.Kernel, r.Name)
		}
	}
	return images
}

// checkSolved: the base follows from the program and the whole kernel's symbols.
func checkSolved(t *testing.T, r *KernelImageRecord, img *Image) {
	kernel, err := ProfileByName(img.Profile.Name)
	if err != nil {
		t.Fatal(err)
	}
	symbols := NewSymbolTable(kernel.Symbols)
	base, err := SolveBase(img, r.Program, r.Kind, symbols, 0)
	var none *NoBaseError
	switch {
	case r.Base == nil:
		if !errors.As(err, &none) || !none.NoCalls {
			t.Errorf("%s %s: base %#x (%v), want none for lack of calls", r.Kernel, r.Name, base, err)
		}
	case err != nil || base != uint64(*r.Base):
		t.Errorf("%s %s: base %#x (%v), want %#x", r.Kernel, r.Name, base, err, uint64(*r.Base))
	}
	// Without the program it may be ambiguous, but never wrong.
	base, err = SolveBase(img, nil, r.Kind, symbols, 0)
	var several *AmbiguousBaseError
	switch {
	case errors.As(err, &several):
		if r.Base == nil || !slices.Contains(several.Candidates, uint64(*r.Base)) {
			t.Errorf("%s %s: the base is none of %#x", r.Kernel, r.Name, several.Candidates)
		}
		// What a log prints has the low 6 bits of the base.
		if base, err = SolveBase(img, nil, r.Kind, symbols, 0xff29d6e0d7f7c000|uint64(*r.Base)&63); err == nil && base != uint64(*r.Base) {
			t.Errorf("%s %s: with the printed address base %#x", r.Kernel, r.Name, base)
		}
	case err == nil && (r.Base == nil || base != uint64(*r.Base)):
		t.Errorf("%s %s: without the program base %#x", r.Kernel, r.Name, base)
	}
}

func TestKernelImageRecordErrors(t *testing.T) {
	const good = `{"name":"n","kind":"socket","program":[[6,0,0,0]],"kernel":"6.1-amd64","base":"0xffffffffc0000000","image":"31c0c3","flen":3,"symbols":{},"layout":{},"cpu":{"arch":"x86-64","features":[]},"inputs":[{"packet":"00"}],"results":[0]}`
	for _, tt := range []struct{ desc, old, new, want string }{
		{"An unknown field is named.", `"flen"`, `"flan"`, `unknown field "flan"`},
		{"An input of the other kind is named.", `{"packet":"00"}`, `{"nr":1}`, `input 0: packet record: unknown field "nr"`},
		{"An input that is no packet is named.", `"00"`, `"0"`, "input 0: packet: character 1"},
		{"Every input has a result.", `"results":[0]`, `"results":[]`, "0 results for 1 inputs"},
		{"A record has an image or an errno.", `"31c0c3"`, `null`, "neither an image nor an errno"},
		{"It has not both.", `"flen":3`, `"errno":22`, "an image, and errno 22"},
		{"An image has bytes.", `"31c0c3"`, `""`, "the image is empty"},
		{"Image results go with the mark.", `"results":[0]`, `"results":[0],"image_results":[1]`, "image_results go with"},
		{"A kernel has a name.", `"6.1-amd64"`, `""`, "kernel is missing"},
		{"A program is there.", `[[6,0,0,0]]`, `[]`, "program is missing"},
	} {
		var r KernelImageRecord
		if err := json.Unmarshal([]byte(good), &r); err != nil {
			t.Fatal(err)
		}
		err := json.Unmarshal([]byte(strings.Replace(good, tt.old, tt.new, 1)), &r)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q", tt.desc, err, tt.want)
		}
	}
}

// Kernels without a profile of their own get the conventions of their
// processor and the layout of the record alone.
func TestProfileOfOtherKernels(t *testing.T) {
	r := KernelImageRecord{Kernel: "6.16.3-generic", CPU: &CPURecord{Arch: "x86-64"}, Layout: Layout{"len": 7}}
	p, err := r.Profile()
	if err != nil || p.Arch != X86_64 || !cmp.Equal(p.Layout, Layout{SkbLen: 7}) || !p.Semantics.NegativeOffsetsReachFrags || p.Name != "linux-6.16.3-generic" {
		t.Errorf("%+v, %v", p, err)
	}
	r.Kernel = "6.12"
	if p, err := r.Profile(); err != nil || p.Semantics.NegativeOffsetsReachFrags {
		t.Errorf("%+v, %v", p, err)
	}
	r.CPU.Arch = "s390x"
	if _, err := r.Profile(); err == nil || !strings.Contains(err.Error(), "6.12") {
		t.Errorf("a kernel of another architecture: %v", err)
	}
}

// A record that does not know its base gets it from its calls.
func TestKernelImageCodeFindsBase(t *testing.T) {
	solved := 0
	for _, r := range readRecords[KernelImageRecord](t, imageRecords) {
		if r.Base == nil || r.Image == nil || r.CPU.Arch != "x86-64" {
			continue
		}
		want := uint64(*r.Base)
		r.Base = nil
		if img, err := r.Code(); err != nil || !img.BaseKnown || img.Base != want {
			t.Errorf("%s %s: %+v (%v), want base %#x", r.Kernel, r.Name, img, err, want)
		}
		solved++
	}
	if solved == 0 {
		t.Error("no record has a base")
	}
}

// FuzzKernelImageRecord: any bytes give a record that survives a round trip and
// whose code can be looked at, or an error.
func FuzzKernelImageRecord(f *testing.F) {
	f.Add([]byte(`{"name":"n","kind":"seccomp","program":[[6,0,0,0]],"kernel":"6.1-armv5","base":null,"image":"f04b2de9","inputs":[],"results":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again KernelImageRecord
		if json.Unmarshal(data, &r) != nil {
			return
		}
		text, err := json.Marshal(r)
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil {
			t.Fatalf("%s became %s: %v", data, text, err)
		}
		if img, err := r.Code(); err == nil && img != nil {
			img.Needs()
			img.References()
			SolveBase(img, r.Program, r.Kind, NewSymbolTable(img.Profile.Symbols), 0)
		}
	})
}

// A load that needs a call is in front of a call.
func TestCalledBy(t *testing.T) {
	prog := bpf.Program{
		{Code: bpf.LdWAbs, K: 0}, {Code: bpf.LdBInd}, {Code: bpf.LdxMsh}, {Code: bpf.LdHAbs, K: bpf.NetOff},
		{Code: bpf.LdWAbs, K: bpf.ExtMark.K()}, {Code: bpf.LdWAbs, K: bpf.ExtCPU.K()}, {Code: bpf.LdLen}, {Code: bpf.RetA},
	}
	want := []string{"bpf_skb_load_helper_32", "bpf_skb_load_helper_8", "bpf_skb_load_helper_8", "bpf_skb_load_helper_16", "bpf_get_raw_cpu_id"}
	if diff := cmp.Diff(want, calledBy(prog, bpf.Socket)); diff != "" {
		t.Error(diff)
	}
	if got := calledBy(prog, bpf.Seccomp); got != nil {
		t.Errorf("a seccomp filter calls %v", got)
	}
}
