package policy

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// weights is what a histogram says, by name of the ABI; "" is the native one.
type weights map[string]map[string]float64

func weightsOf(h Histogram) weights {
	out := weights{}
	for abi, calls := range h.Modes {
		name := ""
		if abi != nil {
			name = abi.Name
		}
		out[name] = calls
	}
	return out
}

func TestHistograms(t *testing.T) {
	const head = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n"
	const foot = "------ ----------- ----------- --------- --------- ----------------\n100.00    0.003032         104        12         1 total\n"
	for _, tt := range []struct {
		desc, text string
		want       weights
	}{
		{"strace -c, with and without errors.", head + " 28.00    0.000250          83         3           mprotect\n  0.00    0.000000           0         9         1 access\n" + foot,
			weights{"": {"mprotect": 3, "access": 9}}},
		{"strace -C: the trace goes before.", "read(3, \"\", 0) = 0\ncalls syscall\n+++ exited with 0 +++\n" + head + "100.00    0.000250          83         3           mprotect\n" + foot,
			weights{"": {"mprotect": 3}}},
		{"strace -c -U: columns in another order.", "syscall              calls    errors\n---------------- --------- ---------\nread                     4          \naccess                   1         1\n---------------- --------- ---------\ntotal                    5         1\n",
			weights{"": {"read": 4, "access": 1}}},
		{"Old strace had no usecs/call.", "% time     seconds     calls    errors syscall\n------ ----------- --------- --------- ----------------\n100.00    0.000250         3           mprotect\n",
			weights{"": {"mprotect": 3}}},
		{"Several ABIs, a table each.", "System call usage summary for 64 bit mode:\n" + head + "100.00    0.000250          83         3           mprotect\n" + foot + "System call usage summary for 32 bit mode:\n" + head + "100.00    0.000250          83         7           read\n" + foot + "System call usage summary for x32 mode:\n" + head + "100.00    0.000250          83         2           write\n" + foot,
			weights{"x86_64": {"mprotect": 3}, "aarch64": {"mprotect": 3}, "i386": {"read": 7}, "arm": {"read": 7}, "x32": {"write": 2}}},
		{"Two tables are added up.", head + "100.00    0.000250          83         3           mprotect\n" + foot + head + "100.00    0.000250          83         4           mprotect\n" + foot,
			weights{"": {"mprotect": 7}}},
		{"Names and counts.", "# my service\nread 1000\nwrite 2.5e3 # about\n\nread 1\n", weights{"": {"read": 1001, "write": 2500}}},
		{"Counts and names, as of uniq -c.", "   1000 read\r\n      3 write\r\n", weights{"": {"read": 1000, "write": 3}}},
	} {
		h, err := ParseHistogram("h", []byte(tt.text))
		if err != nil {
			t.Errorf("%s %v", tt.desc, err)
		} else if diff := cmp.Diff(tt.want, weightsOf(h)); diff != "" {
			t.Errorf("%s\n%s", tt.desc, diff)
		}
	}
}

// What strace 6.1 printed for true and for cat.
func TestRecordedHistograms(t *testing.T) {
	for _, tt := range []struct {
		file  string
		calls float64 // as its last line says
	}{{"strace-c.txt", 29}, {"strace-c-w.txt", 118}, {"strace-C.txt", 29}} {
		data, err := os.ReadFile("testdata/" + tt.file)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ParseHistogram(tt.file, data)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for name, weight := range h.Modes[nil] {
			if _, ok := seccompdata.X86_64.Number(name); !ok {
				t.Errorf("%s: no call is named %q", tt.file, name)
			}
			sum += weight
		}
		if sum != tt.calls {
			t.Errorf("%s: %v calls, want %v", tt.file, sum, tt.calls)
		}
	}
}

func TestHistogramErrors(t *testing.T) {
	for _, tt := range []struct{ desc, text, want string }{
		{"Nothing is no histogram.", "\n\n", "h: it has no system calls"},
		{"One word is no line.", "read 1\nwrite\n", `h:2: "write": want a name and a count`},
		{"A count is a number.", "read many\n", `h:1: "many" is no count`},
		{"It is not negative.", "read -1\n", `"-1" is no count`},
		{"Nor infinite.", "read inf\n", `"inf" is no count`},
		{"A row has the columns of its table.", "% time     seconds  usecs/call     calls    errors syscall\n------ -------\n 28.00 3 mprotect\n", "h:3: 3 fields"},
	} {
		_, err := ParseHistogram("h", []byte(tt.text))
		var typed *HistogramError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q in a *HistogramError", tt.desc, err, tt.want)
		}
	}
}

func TestExpectedCost(t *testing.T) {
	prog := bpf.Program{
		{Code: bpf.LdWAbs, K: seccompdata.OffNr},
		{Code: bpf.JeqK, JF: 1, K: 39}, // getpid
		{Code: bpf.RetK, K: 1},
		{Code: bpf.JeqK, JF: 1, K: 0}, // read
		{Code: bpf.RetK, K: 2},
		{Code: bpf.RetK, K: 3},
	}
	h := Histogram{}
	h.add(nil, "getpid", 6)
	h.add(nil, "read", 3)
	h.add(seccompdata.X86_64, "write", 1)
	h.add(seccompdata.I386, "read", 1000)
	h.add(nil, "waitpid", 5)
	got, err := ExpectedCost(prog, seccompdata.X86_64, h)
	if err != nil {
		t.Fatal(err)
	}
	want := Cost{ABI: seccompdata.X86_64, Mean: (6*3 + 3*4 + 1*4) / 10.0, Weight: 10, Unknown: []string{"waitpid"}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(x, y *seccompdata.ABI) bool { return x == y })); diff != "" {
		t.Error(diff)
	}
	if _, err := ExpectedCost(prog[:1], seccompdata.X86_64, h); err == nil {
		t.Error("a program without a return has a cost")
	}
}

// With a histogram each layout costs at most what it costs without, and best
// costs what the cheapest does.
func TestHistogramsPay(t *testing.T) {
	p := docker(t, Options{}, seccompdata.X86_64)
	h := Histogram{}
	for i, name := range []string{"futex", "read", "write", "epoll_wait", "clock_nanosleep", "statx"} {
		h.add(nil, name, float64(int(100)>>i))
	}
	mean := func(o CompileOptions) float64 {
		c, err := Compile(p, o)
		if err != nil {
			t.Fatal(err)
		}
		cost, err := ExpectedCost(c.Program, seccompdata.X86_64, h)
		if err != nil {
			t.Fatal(err)
		}
		return cost.Mean
	}
	least := 1e9
	for _, layout := range []Layout{Linear, Chain, Tree, Ranges} {
		blind, seeing := mean(CompileOptions{Layout: layout}), mean(CompileOptions{Layout: layout, Histogram: h})
		if seeing > blind || layout != Tree && seeing == blind {
			t.Errorf("%s costs %.2f, and with the histogram %.2f", layout, blind, seeing)
		}
		least = min(least, seeing)
	}
	if got := mean(CompileOptions{Layout: Best, Histogram: h}); got != least {
		t.Errorf("best costs %.2f, the cheapest %.2f", got, least)
	}
}
