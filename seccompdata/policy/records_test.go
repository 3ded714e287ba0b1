package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/seccompdata"
)

// newerThanLibseccomp254 are the calls of the Docker default profile that
// libseccomp 2.5.4, which made the recorded filters, does not know. (The ninth
// that it does not know is riscv_hwprobe.)
var newerThanLibseccomp254 = []string{
	"getxattrat", "listmount", "listxattrat", "mseal", "removexattrat", "setxattrat", "statmount", "uretprobe",
}

// asLibseccomp254 is the Docker default profile without them.
func asLibseccomp254(t testing.TB, o Options) *Policy {
	p, err := DockerDefault(o)
	if err != nil {
		t.Fatal(err)
	}
	p.Rules = slices.DeleteFunc(p.Rules, func(r Rule) bool { return slices.Contains(newerThanLibseccomp254, r.Call) })
	return p
}

type vector struct {
	Filter string   `json:"filter"`
	Arch   uint32   `json:"arch"`
	Nr     int64    `json:"nr"`
	Args   []string `json:"args"`
	IP     string   `json:"ip"`
	Ret    uint32   `json:"ret"`
}

func (v vector) call(t testing.TB) seccompdata.Data {
	d := seccompdata.Data{Nr: uint32(v.Nr), Arch: v.Arch}
	for i, text := range v.Args {
		arg, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		d.Args[i] = arg
	}
	return d
}

func readVectors(t testing.TB, file string, each func(vector)) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		each(v)
	}
}

// The filter that libseccomp 2.5.4 made of the Docker default profile, and ours,
// say the same to all that its rules are about and to what was recorded.
func TestDockerDefaultIsLibseccomps(t *testing.T) {
	p := asLibseccomp254(t, Options{ABIs: []*seccompdata.ABI{seccompdata.X86_64}})
	data, err := os.ReadFile("testdata/docker-x64-opt1.ddd")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := bpftext.ParseAs(bpftext.DDD, "docker-x64-opt1.ddd", data)
	if err != nil {
		t.Fatal(err)
	}
	reference := machine(t, theirs.Program)
	var calls []seccompdata.Data
	readVectors(t, "testdata/docker-x64-opt1.jsonl", func(v vector) {
		d := v.call(t)
		if got := reference.Run(&d).Value; got != v.Ret {
			t.Fatalf("the record itself: %+v gives %#x, not %#x", d, got, v.Ret)
		}
		calls = append(calls, d)
	})
	calls = append(calls, p.Boundaries()...)
	for nr := range uint32(1024) {
		calls = append(calls, seccompdata.Data{Nr: nr, Arch: seccompdata.ArchX86_64})
	}
	if len(calls) < 10000 {
		t.Fatalf("only %d calls", len(calls))
	}
	for _, layout := range Layouts() {
		c, err := Compile(p, CompileOptions{Layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		ours := machine(t, c.Program)
		for i := range calls {
			if got, want := ours.Run(&calls[i]).Value, reference.Run(&calls[i]).Value; got != want {
				t.Fatalf("%s: %+v: got %s, libseccomp gives %s", layout, calls[i], seccompdata.FormatRet(got), seccompdata.FormatRet(want))
			}
		}
	}
}

// All recorded verdicts of libseccomp's filters, of all ABIs.
func TestSharedVectors(t *testing.T) {
	const file = "../../../shared/data/seccomp/vectors.jsonl"
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		t.Skip("skipped: the shared records are not there: ", err)
	}
	arm := Options{Native: seccompdata.X86_64, ABIs: []*seccompdata.ABI{seccompdata.AARCH64, seccompdata.ARM}} // the recorded one has the rules of an x86_64 machine
	policies := map[string]*Policy{
		"docker-x64-opt1":    asLibseccomp254(t, Options{ABIs: []*seccompdata.ABI{seccompdata.X86_64}}),
		"docker-3arch-opt1":  asLibseccomp254(t, Options{}),
		"docker-3arch-opt2":  asLibseccomp254(t, Options{}),
		"docker-arm-opt1":    asLibseccomp254(t, Options{Native: seccompdata.ARM}),
		"docker-a64arm-opt1": asLibseccomp254(t, arm),
	}
	compared, wide := 0, 0
	readVectors(t, file, func(v vector) {
		p := policies[v.Filter]
		if p == nil {
			return
		}
		d := v.call(t)
		if seccompdata.ABIOf(d.Arch, d.Nr) == seccompdata.X32 {
			// To libseccomp x32 has arguments of 32 bits; the kernel takes 64,
			// and so do we.
			for i := range d.Args {
				if d.Args[i]>>32 != 0 {
					wide++
				}
				d.Args[i] = uint64(uint32(d.Args[i]))
			}
		}
		compared++
		if got := p.Verdict(&d, CompileOptions{}); got.Ret != v.Ret {
			t.Errorf("%s: %+v: got %s, want %s", v.Filter, d, seccompdata.FormatRet(got.Ret), seccompdata.FormatRet(v.Ret))
		}
	})
	if compared < 5000 || wide == 0 {
		t.Errorf("only %d verdicts were compared, %d of x32 calls with wide arguments", compared, wide)
	}
}

// The means that were recorded for libseccomp's filter come out again: over the
// 368 names that it knows, and over those of them that it allows.
func TestExpectedCostOfRecords(t *testing.T) {
	data, err := os.ReadFile("testdata/docker-x64-opt1.ddd")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := bpftext.ParseAs(bpftext.DDD, "docker-x64-opt1.ddd", data)
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t, theirs.Program)
	var named, allowed Histogram
	for _, nr := range seccompdata.X86_64.Numbers() {
		name, _ := seccompdata.X86_64.Call(nr)
		if nr > 456 || nr == 335 || nr == 336 {
			continue
		}
		named.add(nil, name, 1)
		if m.Run(&seccompdata.Data{Nr: nr, Arch: seccompdata.ArchX86_64}).Value == uint32(seccompdata.Allow) {
			allowed.add(nil, name, 1)
		}
	}
	for _, tt := range []struct {
		desc  string
		h     Histogram
		calls float64
		want  string
	}{{"all", named, 368, "183.6"}, {"allowed", allowed, 301, "156.2"}} {
		got, err := ExpectedCost(theirs.Program, seccompdata.X86_64, tt.h)
		if err != nil {
			t.Fatal(err)
		}
		if text := strconv.FormatFloat(got.Mean, 'f', 1, 64); text != tt.want || got.Weight != tt.calls || len(got.Unknown) > 0 {
			t.Errorf("%s: %v calls cost %s, want %s", tt.desc, got.Weight, text, tt.want)
		}
	}
}
