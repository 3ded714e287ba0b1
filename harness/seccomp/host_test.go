package seccomp

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/kernelabi/imagefile"
	"github.com/kjit-project/kjit/seccompdata"
)

func newHost(t *testing.T, profile string, knob seccompdata.Knob) *Host {
	t.Helper()
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHost(p, knob)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func newProcess(h *Host) (*seccompdata.Process, *seccompdata.Thread) {
	thread := &seccompdata.Thread{ID: 1, NoNewPrivs: true}
	return &seccompdata.Process{Host: &h.Host, Threads: []*seccompdata.Thread{thread}}, thread
}

// denies denies one call of an architecture, with the number as the error.
func denies(arch, nr uint32) bpf.Program {
	return bpf.Program{
		{Code: bpf.LdWAbs, K: seccompdata.OffArch}, {Code: bpf.JeqK, JT: 1, K: arch}, {Code: bpf.RetK},
		{Code: bpf.LdWAbs, K: seccompdata.OffNr}, {Code: bpf.JeqK, JF: 2, K: nr},
		{Code: bpf.OrK, K: uint32(seccompdata.Errno)}, {Code: bpf.RetA}, {Code: bpf.RetK, K: uint32(seccompdata.Allow)},
	}
}

// The knob decides what runs and what is logged; the decisions are the same.
func TestKnob(t *testing.T) {
	arch := uint32(seccompdata.ArchARM)
	for _, profile := range append(JITs(), "linux-4.5-armv5", "linux-4.5-armv7", "seccomp-2013-armv5") {
		for _, knob := range []seccompdata.Knob{seccompdata.KnobInterpreter, seccompdata.KnobJIT, seccompdata.KnobJITAndLog} {
			h := newHost(t, profile, knob)
			var log bytes.Buffer
			h.Log = func(text string) { log.WriteString(text) }
			process, thread := newProcess(h)
			for _, nr := range []uint32{20, 39} {
				if err := process.SetFilter(thread, "denies", denies(arch, nr), 0); err != nil {
					t.Fatalf("%s: %v", profile, err)
				}
			}
			for _, call := range []*seccompdata.Data{{Nr: 20, Arch: arch}, {Nr: 39, Arch: arch}, {Nr: 1, Arch: arch}, {Nr: 1, Arch: 7}} {
				want := thread.Chain.Run(call, h.Kernel)
				got, err := thread.Chain.RunCode(call, h.Kernel)
				if err != nil || got.Ret != want.Ret || got.Filter != want.Filter {
					t.Errorf("%s, knob %d: %+v, %v; the interpreter gives %+v", profile, knob, got, err, want)
				}
				if compiled := got.PC < 0 || got.Filter < 0; compiled != (knob != seccompdata.KnobInterpreter || got.Filter < 0) {
					t.Errorf("%s, knob %d: decided at %d", profile, knob, got.PC)
				}
			}
			checkLog(t, profile, log.Bytes(), thread.Chain, knob == seccompdata.KnobJITAndLog)
		}
	}
}

// checkLog reads the log back: it has the images of all filters, or nothing.
func checkLog(t *testing.T, profile string, log []byte, chain seccompdata.Chain, logged bool) {
	t.Helper()
	if !logged {
		if len(log) > 0 {
			t.Errorf("%s: there is a log without being asked for: %s", profile, log)
		}
		return
	}
	images, err := imagefile.Read("log", log)
	if err != nil {
		t.Errorf("%s: %v\n%s", profile, err, log)
	}
	var got, want []string
	for _, image := range images {
		got = append(got, string(image.Code))
	}
	for _, f := range chain.Filters() {
		image := f.Code.(*Code).Image
		want = append(want, string(image.Code))
		if !slices.ContainsFunc(images, func(e imagefile.Entry) bool {
			return e.Printed == image.Base && e.Insns == f.Len() && e.Pass == image.Pass && bytes.Equal(e.Code, image.Code)
		}) {
			t.Errorf("%s: the log lacks an image at %#x", profile, image.Base)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", profile, diff)
	}
}

// far has more constants than a literal pool of ARMv5 can be reached for.
func far() bpf.Program {
	prog := bpf.Program{{Code: bpf.LdWAbs}}
	for i := range uint32(2000) {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, K: 0x01234567 + i*0x10101})
	}
	return append(prog, bpf.Instruction{Code: bpf.RetK, K: uint32(seccompdata.Allow)})
}

// What the JIT declines is interpreted, or refused where there is no
// interpreter. That it would be declined shows only where the JIT is asked.
func TestDeclined(t *testing.T) {
	for _, tt := range []struct {
		desc     string
		knob     seccompdata.Knob
		alwaysOn bool
		refused  bool
	}{
		{"A kernel with an interpreter takes the filter.", seccompdata.KnobJIT, false, false},
		{"A kernel without one refuses it.", seccompdata.KnobJIT, true, true},
		{"Without an interpreter the knob says nothing.", seccompdata.KnobInterpreter, true, true},
		{"A JIT that is off is not asked.", seccompdata.KnobInterpreter, false, false},
	} {
		h := newHost(t, "linux-4.5-armv5", tt.knob)
		h.AlwaysOn = tt.alwaysOn
		process, thread := newProcess(h)
		err := process.SetFilter(thread, "far", far(), 0)
		var refused *seccompdata.AttachError
		if tt.refused {
			if !errors.As(err, &refused) || refused.Errno != seccompdata.ENOTSUP || thread.Chain.Len() != 0 {
				t.Errorf("%s got %v", tt.desc, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s got %v", tt.desc, err)
		} else if thread.Chain.Filters()[0].Code != nil {
			t.Errorf("%s but it is compiled", tt.desc)
		}
	}
}

// A host plays the kernel of its profile.
func TestHost(t *testing.T) {
	for profile, want := range map[string]seccompdata.Host{
		"linux-4.5-armv7":  {Kernel: seccompdata.Kernel{Major: 4, Minor: 5}},
		"linux-3.12-armv5": {Kernel: seccompdata.Kernel{Major: 3, Minor: 12}},
		"kjit-armv7":       {Kernel: seccompdata.CurrentKernel},
		"linux-6.1-armv5":  {Kernel: seccompdata.Kernel{Major: 6, Minor: 1}, AlwaysOn: true},
	} {
		h := newHost(t, profile, seccompdata.KnobJIT)
		if h.Kernel != want.Kernel || h.AlwaysOn != want.AlwaysOn || (h.JIT == nil) != want.AlwaysOn {
			t.Errorf("%s: %+v", profile, h.Host)
		}
	}
}
