package livekernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// open returns the running kernel, or skips the test.
func open(t *testing.T) harness.Runner {
	t.Helper()
	r, err := Open()
	skipUnavailable(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func skipUnavailable(t *testing.T, err error) {
	t.Helper()
	var none *UnavailableError
	if errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func packet(n int, change func(*kernelabi.Skb)) *kernelabi.Skb {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + 1)
	}
	skb := kernelabi.NewSkb(p)
	if change != nil {
		change(skb)
	}
	return skb
}

func TestPackets(t *testing.T) {
	r := open(t)
	for _, test := range []struct {
		desc string
		prog string
		skb  *kernelabi.Skb
		want string // a value, or the kind and why
	}{
		{"A value below the packet's length is seen at once.", "ret #5", packet(60, nil), "5"},
		{"A filter that drops the packet returned 0.", "ret #0", packet(60, nil), "0"},
		{"A value above the length is read in slices.", "ret #0xfedcba98", packet(60, nil), "4275878552"},
		{"A long packet shows 16 bits at a time.", "ret #0xfedcba98", packet(70000, nil), "4275878552"},
		{"A packet of one byte shows one bit at a time.", "ret #0xfedcba98", packet(1, nil), "4275878552"},
		{"An empty packet arrives or does not.", "ret #0x80000001", packet(0, nil), "2147483649"},
		{"An empty packet that is dropped is 0.", "ret #0", packet(0, nil), "0"},
		{"The value is just the length.", "ld len; ret a", packet(60, nil), "60"},
		{"What is in A comes out.", "ld [0]; neg; ret a", packet(60, nil), "4277661930"},
		{"Returns of constants and of A live together.", "ldb [0]; jeq #1, yes; ret a; yes: jset #2, no; ret #0x10000; no: ret #0x20000", packet(60, nil), "65536"},
		{"A failed load is 0.", "ld [57]; ret #0x10000", packet(60, nil), "0"},
		{"Division by X = 0 is 0.", "ld #7; ldx #0; div x; ret #0x10000", packet(60, nil), "0"},
		{"M[] holds words.", "ld [0]; st M[15]; ld #0; ld M[15]; ret a", packet(60, nil), "17305366"},
		{"Packets have no mark.", "ld mark; ret a", packet(60, nil), "0"},
		{"A mark cannot be given.", "ld mark; ret a", packet(60, func(s *kernelabi.Skb) { s.Mark = 7 }), "not run: the program loads mark, which no packet of an AF_UNIX socket has"},
		{"A mark that the program does not read is no harm.", "ret #9", packet(60, func(s *kernelabi.Skb) { s.Mark = 7 }), "9"},
		{"A load that this input does not reach is no harm.", "ldb [0]; jeq #0, yes; ret #3; yes: ld mark; ret a", packet(60, func(s *kernelabi.Skb) { s.Mark = 7 }), "3"},
		{"Without a device the program ends with A.", "ld #9; ld ifidx; ret #1", packet(60, func(s *kernelabi.Skb) { s.NoDevice = true }), "not run: the program loads ifidx without a device, and the value that ends it cannot be read in full"},
		{"A device cannot be given.", "ld ifidx; ret #1", packet(60, nil), "not run: the program loads ifidx, which no packet of an AF_UNIX socket has"},
		{"There is no header.", "ldb [0xfff00000]; ret a", packet(60, nil), "not run: the program loads from a negative offset, and packets of AF_UNIX sockets have no headers"},
		{"X may lead to a header.", "ldx #0xfff00000; ldb [x+0]; ret a", packet(60, nil), "not run: the program loads from a negative offset, and packets of AF_UNIX sockets have no headers"},
		{"A fragment cannot be given.", "ldb [30]; ret a", packet(60, func(s *kernelabi.Skb) { *s = *s.Split(20) }), "not run: the program reads a page fragment, and packets of AF_UNIX sockets are made without"},
		{"A fragment that is not read is no harm.", "ldb [19]; ret a", packet(60, func(s *kernelabi.Skb) { *s = *s.Split(20) }), "134"},
		{"What the checker refuses is rejected.", "ld #1; div #0; ret a", packet(60, nil), "rejected: the kernel refuses it: invalid argument"},
	} {
		prog := assemble(t, test.prog)
		out, err := r.Run(prog, bpf.Socket, []kernelabi.Input{test.skb}, nil)
		if err != nil {
			t.Fatalf("%s %v", test.desc, err)
		}
		got := out[0].String()
		if out[0].Kind != harness.Value {
			got += ": " + out[0].Why
		}
		if got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.desc, got, test.want)
		}
	}
}

func TestCalls(t *testing.T) {
	native, ok := nativeABIs[runtime.GOARCH]
	if !ok {
		t.Skip("seccomp filters are not run on " + runtime.GOARCH)
	}
	r := open(t)
	call := func(change func(*seccompdata.Data)) *kernelabi.Syscall {
		d := seccompdata.Data{Nr: 39, Arch: native.audit, Args: [6]uint64{1, 2, 3, 4, 5, 6}}
		if change != nil {
			change(&d)
		}
		return &kernelabi.Syscall{Data: d}
	}
	kill := "ld #7; ldx #0; div x; ret #0x10000"
	for _, test := range []struct {
		desc string
		prog string
		call *kernelabi.Syscall
		want string
	}{
		{"All 32 bits of a constant come out.", "ret #0xfedcba98", call(nil), "4275878552"},
		{"A filter that allows does so for kjit too.", "ret #0x7fff0000", call(nil), "2147418112"},
		{"An error number of 4095 is no result.", "ret #0xffffffff", call(nil), "4294967295"},
		{"Error number 0 is one.", "ret #0", call(nil), "0"},
		{"The call's number is seen.", "ld [0]; ret a", call(nil), "39"},
		{"Exit is not executed.", "ld [0]; ret a", call(func(d *seccompdata.Data) { d.Nr = 231 }), "231"},
		{"A number with the x32 bit is seen.", "ld [0]; ret a", call(func(d *seccompdata.Data) { d.Nr = 1<<30 | 39 }), "1073741863"},
		{"Number -1 is seen.", "ld [0]; ret a", call(func(d *seccompdata.Data) { d.Nr = 1<<32 - 1 }), "4294967295"},
		{"An argument is seen.", "ld [56]; ret a", call(func(d *seccompdata.Data) { d.Args[5] = 0x89abcdef }), "2309737967"},
		{"Division by X = 0 kills, which is 0.", kill, call(nil), "0"},
		{"Another architecture cannot be given.", "ld [4]; ret a", call(func(d *seccompdata.Data) { d.Arch = 1 }), "not run: the program reads the architecture"},
		{"The instruction pointer cannot be chosen.", "ld [8]; ret a", call(nil), "not run: the program reads the instruction pointer"},
		{"What the checker refuses is rejected.", "ldb [0]; ret a", call(nil), "rejected: the kernel refuses it: invalid argument"},
		{"A word must be left.", "ld [16]; ld [20]; ld [24]; ld [28]; ld [32]; ld [36]; ld [40]; ld [44]; ld [48]; ld [52]; ld [56]; ld [60]; ret a", call(nil), "not run: the program reads all words"},
	} {
		out, err := r.Run(assemble(t, test.prog), bpf.Seccomp, []kernelabi.Input{test.call}, nil)
		skipUnavailable(t, err)
		got := out[0].String()
		if out[0].Kind != harness.Value {
			got += ": " + out[0].Why
		}
		if got != test.want && !(strings.Contains(test.want, ": ") && strings.HasPrefix(got, test.want)) {
			t.Errorf("%s\n got %s\nwant %s", test.desc, got, test.want)
		}
	}

	// Killed callers are replaced until there are enough.
	var inputs []kernelabi.Input
	for i := range 20 {
		inputs = append(inputs, call(func(d *seccompdata.Data) { d.Args[0] = uint64(i % 2) }))
	}
	out, err := r.Run(assemble(t, "ld [16]; tax; ld #7; div x; ret a"), bpf.Seccomp, inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		switch {
		case i > 2*probe.MaxKilled:
			if o.Kind != harness.Untried || o.Why != probe.TooManyKilled {
				t.Errorf("input %d: %v", i, o)
			}
		case o.Kind != harness.Value || o.Value != uint32(i%2*7):
			t.Errorf("input %d: %v", i, o)
		}
	}
}

// TestCorpus runs all programs of the corpus on all its packets.
func TestCorpus(t *testing.T) {
	r := open(t)
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
		skb := p.Skb
		skb.NoDevice, skb.Protocol, skb.PktType = true, 0, 0 // as the kernel will have it
		inputs = append(inputs, skb)
	}
	agree, untried := 0, 0
	for _, p := range programs {
		replay := harness.Replay{Program: p.Program, Runners: []harness.Runner{r}, Each: func(row *harness.Row) error {
			if row.Verdicts[0] == harness.Diverge {
				t.Errorf("%s, packet %d: got %v (%s), want %v", p.Name, row.Index, row.Got[0], row.Got[0].Why, row.Want[0])
			}
			return nil
		}}
		if p.Kind != bpf.Socket {
			continue
		}
		tallies, err := replay.Run(context.Background(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		agree += tallies[0].Agree
		untried += tallies[0].NotRun
	}
	t.Logf("%d programs, %d packets: %d agree, %d not run", len(programs), len(packets), agree, untried)
	if agree < 3*untried || agree == 0 {
		t.Errorf("only %d of %d were run", agree, agree+untried)
	}
}

// recordedImages are those of a 6.18, or the test is skipped.
func recordedImages(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../shared/data/kernel-images/6.18-x86_64.jsonl")
	if err != nil {
		t.Skipf("%v: the recorded images are not here", err)
	}
	return data
}

// TestRecords runs recorded programs and inputs on this kernel.
func TestRecords(t *testing.T) {
	data := recordedImages(t)
	r := open(t)
	verdicts := map[bpf.Kind]map[harness.Verdict]int{bpf.Socket: {}, bpf.Seccomp: {}}
	for line := range bytes.Lines(data) {
		var rec kernelabi.KernelImageRecord
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		inputs := rec.Inputs
		if rec.Errno != 0 {
			inputs = []kernelabi.Input{packet(60, nil)}
			if rec.Kind == bpf.Seccomp {
				inputs = []kernelabi.Input{new(kernelabi.Syscall)}
			}
		}
		got, err := r.Run(rec.Program, rec.Kind, inputs, nil)
		skipUnavailable(t, err)
		for i, o := range got {
			want := harness.Outcome{Kind: harness.Rejected}
			if rec.Errno == 0 {
				want = harness.Outcome{Value: rec.Results[i], ShiftPC: -1}
			}
			v := harness.Compare(want, o)
			verdicts[rec.Kind][v]++
			if v == harness.Diverge {
				t.Errorf("%s, input %d: got %v %s, want %v", rec.Name, i, o, o.Why, want)
			}
		}
	}
	t.Log(verdicts)
	if verdicts[bpf.Socket][harness.Agree] < 1000 || verdicts[bpf.Seccomp][harness.Agree] < 100 {
		t.Error("too few were run")
	}
}
