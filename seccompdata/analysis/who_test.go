package analysis

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// vector is a recorded verdict.
type vector struct {
	Filter   string   `json:"filter"`
	Arch     uint32   `json:"arch"`
	Nr       int64    `json:"nr"`
	Args     []string `json:"args"`
	IP       string   `json:"ip"`
	Ret      uint32   `json:"ret"`
	Executed int      `json:"executed"`
	PC       int      `json:"pc"`
}

func (v vector) data(t *testing.T) seccompdata.Data {
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil && text != "" {
			t.Fatal(err)
		}
		return n
	}
	d := seccompdata.Data{Arch: v.Arch, Nr: uint32(v.Nr), IP: number(v.IP)}
	for i, arg := range v.Args {
		d.Args[i] = number(arg)
	}
	return d
}

// holdVectors checks recorded verdicts against Who and against the model.
func holdVectors(t *testing.T, file, profiles string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	filters := map[string]*seccompdata.Filter{}
	models := map[string]*model{}
	n := 0
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		var v vector
		if err := json.Unmarshal(scanner.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if filters[v.Filter] == nil {
			filters[v.Filter] = readFilterFile(t, filepath.Join(profiles, v.Filter+".ddd"))
			m, err := newModel(newSpace(), one(filters[v.Filter]))
			if err != nil {
				t.Fatal(err)
			}
			models[v.Filter] = m
		}
		n++
		d := v.data(t)
		got, err := Who(one(filters[v.Filter]), d)
		if err != nil {
			t.Fatal(err)
		}
		if got.Ret != v.Ret || got.PC != v.PC || got.Runs[0].Executed != v.Executed || len(got.Runs[0].Steps) != v.Executed {
			t.Errorf("%s %s: got %#x at %d, %d executed; want %#x at %d, %d executed",
				v.Filter, CallText(&d), got.Ret, got.PC, got.Runs[0].Executed, v.Ret, v.PC, v.Executed)
		}
		in := wordsOf(&d)
		found := 0
		for _, verdict := range models[v.Filter].verdicts {
			if models[v.Filter].Holds(verdict.cond, in) {
				found++
				if ret := verdict.value.Eval(in); ret != v.Ret {
					t.Errorf("%s %s: the model says %#x, want %#x", v.Filter, CallText(&d), ret, v.Ret)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s %s: in %d verdicts of the model", v.Filter, CallText(&d), found)
		}
	}
	if n == 0 {
		t.Error("no vectors")
	}
	t.Logf("%d vectors of %d filters", n, len(filters))
}

func wordsOf(d *seccompdata.Data) paths.Words {
	in := paths.Words{}
	for off := uint32(0); off < seccompdata.Size; off += 4 {
		in[off], _ = d.Load(off, 4)
	}
	return in
}

func TestVectors(t *testing.T) { holdVectors(t, "testdata/vectors.jsonl", "testdata") }

const shared = "../../../shared/data/seccomp"

func TestAllVectors(t *testing.T) {
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the folder with all recorded verdicts is not here")
	}
	holdVectors(t, filepath.Join(shared, "vectors.jsonl"), filepath.Join(shared, "profiles"))
}

// Every recorded filter is within the limits of the analysis, and fast.
func TestAllProfiles(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(shared, "profiles", "*.ddd"))
	if len(files) == 0 {
		files, _ = filepath.Glob("testdata/*.ddd")
	}
	for _, file := range files {
		f := one(readFilterFile(t, file))
		start := time.Now()
		if _, err := Lint(f, nil); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		d, err := Diff(f, f)
		if err != nil || !d.Equal || !d.Exact {
			t.Errorf("%s is not equal to itself: %v, %v", file, d, err)
		}
		if calls, err := Inputs(f, InputOptions{Calls: seccompdata.ABIs()}); err != nil || len(calls) < 100 {
			t.Errorf("%s: %d inputs, %v", file, len(calls), err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", file, took)
		}
	}
}

func TestWho(t *testing.T) {
	docker, elastic := readFilter(t, "docker-x64-opt1"), readFilter(t, "elastic-docker")
	socket := seccompdata.Data{Arch: seccompdata.ArchX86_64, Nr: 41}
	got, err := Who([]*seccompdata.Filter{docker, elastic}, socket)
	if err != nil {
		t.Fatal(err)
	}
	if got.Filter != 1 || got.Ret != 0x50001 || got.PC != got.Runs[1].PC || got.Runs[0].Ret != uint32(seccompdata.Allow) {
		t.Errorf("got %#x of filter %d at %d", got.Ret, got.Filter, got.PC)
	}
	uprobe, err := Who(one(docker), seccompdata.Data{Arch: seccompdata.ArchX86_64, Nr: 336})
	if err != nil || !uprobe.Exempt {
		t.Errorf("uprobe is asked about: %+v, %v", uprobe, err)
	}
	allowed, err := Who([]*seccompdata.Filter{docker, docker}, socket)
	if err != nil || allowed.Filter != -1 || allowed.PC != -1 || allowed.Ret != uint32(seccompdata.Allow) {
		t.Errorf("a call that two filters allow: %+v, %v", allowed, err)
	}
}

func TestSteps(t *testing.T) {
	f := assemble(t, "ld [0]; st M[3]; ldx M[3]; jeq x, same; ret #0; same: jgt #5, big; ret #1; big: ret a")
	got, err := Who(one(f), seccompdata.Data{Nr: 4})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range got.Runs[0].Steps {
		lines = append(lines, fmt.Sprintf("%d A=%d X=%d cell=%d jump=%v taken=%v", s.PC, s.A, s.X, s.Cell, s.Jump, s.Taken))
	}
	want := []string{
		"0 A=0 X=0 cell=0 jump=false taken=false",
		"1 A=4 X=0 cell=0 jump=false taken=false",
		"2 A=4 X=0 cell=4 jump=false taken=false",
		"3 A=4 X=4 cell=0 jump=true taken=true",
		"5 A=4 X=4 cell=0 jump=true taken=false",
		"6 A=4 X=4 cell=0 jump=false taken=false",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Inputs reach every return that can be reached, both ways of every comparison
// of an argument, and are the same each time.
func TestInputs(t *testing.T) {
	for _, name := range []string{"docker-x64-opt1", "argcmp-same-arg-two-rules", "argcmp-ge-0", "masked-nr", "ip-window", "deny-x32-jset", "docker-3arch-opt2"} {
		f := readFilter(t, name)
		start := time.Now()
		calls, err := Inputs(one(f), InputOptions{})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		again, _ := Inputs(one(f), InputOptions{})
		if !slices.Equal(calls, again) {
			t.Errorf("%s: other inputs the second time", name)
		}
		s := newSpace()
		m, err := s.Explore(f.Program(), paths.Options{Within: possible(s)})
		if err != nil {
			t.Fatal(err)
		}
		edges := map[[2]int]bool{}
		for i := range calls {
			if abi := seccompdata.ABIOf(calls[i].Arch, calls[i].Nr); abi != nil && abi.Bits == 32 && calls[i].Args[0]>>32 != 0 {
				t.Errorf("%s: %s, which %s cannot make", name, CallText(&calls[i]), abi)
			}
			path := f.Path(&calls[i])
			for n := range path[1:] {
				edges[[2]int{path[n], path[n+1]}] = true
			}
		}
		for pc, ins := range f.Program() {
			if m.Reach[pc] == paths.Never || !bpf.IsCondJump(ins.Code) {
				continue
			}
			targets, _ := f.Program().Targets(pc)
			for _, target := range targets {
				if edges[[2]int{pc, target}] || !feasible(s, m, pc, target) {
					continue
				}
				t.Errorf("%s: no input goes from %d to %d", name, pc, target)
			}
		}
		t.Logf("%s: %d inputs in %v", name, len(calls), took)
	}
}

// feasible reports whether any input goes from pc to target.
func feasible(s *paths.Space, m *paths.Map, pc, target int) bool {
	for _, test := range m.Tests {
		taken := test.Taken
		if target != pc+1+int(m.Program[pc].JT) {
			taken = s.Not(taken)
		}
		if test.PC == pc && s.And(test.Reach, taken) != paths.Never {
			return true
		}
	}
	return false
}
