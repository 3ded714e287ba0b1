package livekernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness/verify"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

func newCapturer(t *testing.T, path Path) *Capturer {
	t.Helper()
	c, err := NewCapturer(path)
	skipUnavailable(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// check has a record judged as any other host would do.
func check(t *testing.T, checker *verify.Checker, rec *kernelabi.KernelImageRecord) {
	t.Helper()
	text, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	checks := 0
	err = checker.File(rec.Name, bytes.NewReader(text), func(res verify.Result) error {
		checks++
		switch {
		case res.Err != nil:
			t.Errorf("%s: %v", rec.Name, res.Err)
		case strings.Contains(res.Skip, "the emulator does not have"):
			t.Logf("%s: %s", rec.Name, res.Skip)
		case res.Skip != "":
			t.Errorf("%s: not checked: %s", rec.Name, res.Skip)
		}
		return nil
	})
	if err != nil || checks == 0 {
		t.Errorf("%s: %d checks, %v", rec.Name, checks, err)
	}
}

// TestCapture captures the corpus by both ways and has every record checked.
func TestCapture(t *testing.T) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for _, p := range packets[:12] {
		inputs = append(inputs, p.Skb)
	}
	for _, path := range []Path{ViaAttach, ViaBPF} {
		t.Run(string(path), func(t *testing.T) {
			c := newCapturer(t, path)
			checker, err := verify.NewChecker()
			if err != nil {
				t.Fatal(err)
			}
			defer checker.Close()
			images := 0
			for _, p := range programs {
				if p.Kind != bpf.Socket {
					continue
				}
				rec, err := c.Capture(context.Background(), &Request{p.Name, p.Kind, p.Program, inputs})
				var none *ConvertError
				var rules *bpf.CheckError
				if path == ViaBPF && (errors.As(err, &none) || errors.As(err, &rules)) {
					continue
				}
				skipUnavailable(t, err)
				if rec.Image != nil {
					images++
				}
				check(t, checker, rec)
			}
			t.Logf("%d images of %d programs", images, len(programs))
			if images < len(programs)/2 {
				t.Error("too few images")
			}
		})
	}
}

func TestCaptureSeccomp(t *testing.T) {
	c := newCapturer(t, ViaAttach)
	checker, err := verify.NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	inputs := []kernelabi.Input{
		&kernelabi.Syscall{Data: seccompdata.Data{Nr: 39, Arch: 0xc000003e, Args: [6]uint64{1 << 40, 2}}},
		&kernelabi.Syscall{Data: seccompdata.Data{Nr: 1, Arch: 0x40000028}},
	}
	for _, test := range []struct {
		name, prog string
		refused    bool
	}{
		{name: "allows", prog: "ret #0x7fff0000"},
		{name: "kills", prog: "ret #0"},
		{name: "reads", prog: "ld [4]; tax; ld [20]; add x; jeq #0x40000028, l; ret a; l: ret #7"},
		{name: "refused", prog: "ldb [0]; ret a", refused: true},
	} {
		req := &Request{test.name, bpf.Seccomp, assemble(t, test.prog), inputs}
		rec, err := c.Capture(context.Background(), req)
		skipUnavailable(t, err)
		if (rec.Image == nil) != test.refused {
			t.Errorf("%s: image %v, errno %d", test.name, rec.Image, rec.Errno)
		}
		check(t, checker, rec)
	}
}

// TestSameImage: the kernel makes the same code of a program twice, but for
// where it is.
func TestSameImage(t *testing.T) {
	c := newCapturer(t, ViaAttach)
	req := &Request{Name: "same", Program: assemble(t, "ld #7; tax; ld #9; mul x; ret a")}
	var codes [][]byte
	for range 2 {
		rec, err := c.Capture(context.Background(), req)
		skipUnavailable(t, err)
		img, err := rec.Code()
		if err != nil {
			t.Fatal(err)
		}
		refs, err := img.References()
		if err != nil {
			t.Fatal(err)
		}
		code := bytes.Clone(img.Code)
		for _, ref := range refs { // the distance to a return thunk
			clear(code[ref.Offset+1 : ref.Offset+5])
		}
		codes = append(codes, code)
	}
	if diff := cmp.Diff(codes[0], codes[1]); diff != "" {
		t.Error(diff)
	}
}

// TestCaptureRecords captures the recorded programs by both ways. Another
// processor, or other mitigations, give other bytes; the conversion is the same.
func TestCaptureRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	data := recordedImages(t)
	attach, viaBPF := newCapturer(t, ViaAttach), newCapturer(t, ViaBPF)
	checker, err := verify.NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	images := 0
	for line := range bytes.Lines(data) {
		var rec kernelabi.KernelImageRecord
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		req := &Request{rec.Name, rec.Kind, rec.Program, rec.Inputs}
		got, err := attach.Capture(context.Background(), req)
		if err != nil {
			t.Errorf("%s: %v", rec.Name, err)
			continue
		}
		if got.Errno != rec.Errno || got.Kernel == rec.Kernel && got.Flen != rec.Flen {
			t.Errorf("%s: errno %d and %d instructions, recorded %d and %d", rec.Name, got.Errno, got.Flen, rec.Errno, rec.Flen)
		}
		check(t, checker, got)
		images++
		if rec.Errno != 0 || rec.Kind == bpf.Seccomp {
			continue
		}
		if got, err = viaBPF.Capture(context.Background(), req); err != nil {
			t.Errorf("%s: %v", rec.Name, err)
			continue
		}
		check(t, checker, got)
		images++
	}
	t.Logf("%d records", images)
}
