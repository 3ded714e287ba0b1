package harness

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// imageRecords are some records of each of five kernels, and two of netlink
// attributes that kjit capture made on Linux 6.18.
var imageRecords = []string{"../kernelabi/testdata/kernel-image-records.jsonl", "testdata/nlattr-images.jsonl"}

// Every recorded image is a runner that agrees with the interpreter, but for
// shifts that ARM does its own way.
func TestImagesOfRecords(t *testing.T) {
	var data []byte
	for _, name := range imageRecords {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, text...)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	verdicts := map[Verdict]int{}
	for lines.Scan() {
		var rec kernelabi.KernelImageRecord
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			t.Fatal(err)
		}
		img, err := rec.Code()
		if err != nil || img == nil {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		r, err := NewImage("image", img)
		if err != nil {
			t.Fatal(err)
		}
		replay := Replay{Program: rec.Program, Kind: rec.Kind, Runners: []Runner{r}, Each: func(row *Row) error {
			verdicts[row.Verdicts[0]]++
			if row.Verdicts[0] != Agree && !(row.Verdicts[0] == Undefined && rec.KnownDivergence) {
				t.Errorf("%s %s, input %d: %s gives %s, the interpreter %s", rec.Kernel, rec.Name, row.Index, row.Verdicts[0], row.Got[0], row.Want[0])
			}
			return nil
		}}
		if _, err := replay.Run(t.Context(), rec.Inputs); err != nil {
			t.Errorf("%s %s: %v", rec.Kernel, rec.Name, err)
		}
		r.Close()
	}
	if verdicts[Agree] < 200 || verdicts[Undefined] == 0 {
		t.Errorf("only %v were seen", verdicts)
	}
}

// Images are run as they are, whatever they do.
func TestHostileImages(t *testing.T) {
	const x86, v5, v7 = "linux-6.18-x86_64", "linux-6.1-armv5", "linux-6.1-armv7"
	for _, tt := range []struct{ desc, profile, code, want string }{
		{"An endless loop ends with the budget.", x86, "ebfe", "timeout"},
		{"So it does on ARM.", v5, "feffffea", "timeout"},
		{"A store to the packet is a fault.", x86, "488b87c8000000c60001c3", "fault: page protection: write"},
		{"A store to the packet is a fault on ARM.", v7, "ac0090e50010c0e51eff2fe1", "fault: page protection: write"},
		{"A load far away is a fault.", x86, "31c08b00c3", "fault: page not present: read at 0x0 (a null pointer)"},
		{"Running off the end is a fault.", x86, "90", "fault: breakpoint: outside the image"},
		{"Running off the end is a fault on ARM.", v5, "0000a0e1", "fault: invalid opcode: outside the image"},
		{"A register that is not kept is a broken promise.", x86, "31db31c0c3", "0 (rbx changed)"},
		{"A register that is not kept is a broken promise on ARM.", v7, "0040a0e30000a0e31eff2fe1", "0 (r4 changed)"},
		{"Code of another architecture does something and ends.", x86, "f04b2de90db0a0e10030a0e3", "fault"},
		{"Code of another architecture does something and ends on ARM.", v7, "0f1f440000554889e54883ec", "fault"},
		{"A privileged instruction is not run at all.", x86, "0f22d8c3", "error: image+0x0: mov cr3, rax"},
		{"A call to nowhere is a fault.", x86, "e80000000190c3", "fault: page not present: fetch"},
	} {
		p, err := kernelabi.ProfileByName(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewImage("image", &kernelabi.Image{Code: code, Base: p.Base, Profile: p, Origin: "test"})
		if err != nil {
			t.Errorf("%s %v", tt.desc, err)
			continue
		}
		inputs := []kernelabi.Input{kernelabi.NewSkb(make([]byte, 60)), kernelabi.NewSkb(make([]byte, 61))}
		out, err := r.Run(bpf.Program{{Code: bpf.RetK}}, bpf.Socket, inputs, nil)
		if want, ok := strings.CutPrefix(tt.want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s got error %v, want %s", tt.desc, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %v", tt.desc, err)
			continue
		}
		for _, o := range out {
			if !strings.HasPrefix(o.String(), tt.want) {
				t.Errorf("%s got %s, want %s", tt.desc, o, tt.want)
			}
		}
		place, err := Locate(r, bpf.Program{{Code: bpf.RetK}}, inputs[0])
		var text bytes.Buffer
		if err == nil {
			place.Print(&text)
		}
		if err != nil || !strings.Contains(text.String(), "the image of test") {
			t.Errorf("%s no place: %v, %s", tt.desc, err, text.String())
		}
		r.Close()
	}
}

func TestImageNeedsProcessor(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-6.1-armv5")
	if err != nil {
		t.Fatal(err)
	}
	code, _ := hex.DecodeString("010000e31eff2fe1") // movw
	_, err = NewImage("image", &kernelabi.Image{Code: code, Base: p.Base, Profile: p})
	var typed *FeatureError
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), "needs movw, which the processor of profile linux-6.1-armv5 does not have") {
		t.Errorf("got %v", err)
	}
}

// What the emulator does not have is told before anything runs.
func TestImageNeedsRoutine(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-6.18-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	p = p.WithSymbols(map[string]uint64{"bpf_unheard_of": p.Base + 0x10005, "bpf_unheard_of_too": p.Base + 0x20005})
	code, _ := hex.DecodeString("e800000100c3")
	r, err := NewImage("image", &kernelabi.Image{Code: code, Base: p.Base, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var typed *MissingError
	if err := r.Prepare(); !errors.As(err, &typed) || err.Error() != "the image calls bpf_unheard_of, which the emulator does not have" {
		t.Errorf("got %v", err)
	}
}

// An image whose place the harness had taken moves the harness.
func TestImageWhereTheHarnessIs(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-6.18-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	code, _ := hex.DecodeString("b807000000c3")
	r, err := NewImage("image", &kernelabi.Image{Code: code, Base: p.Base, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, base := range []uint64{p.Base, 0xffffffffe8004000, 0xffffffffd8002000, 0xffffffffe8004000} {
		if err := r.Switch(&kernelabi.Image{Code: code, Base: base, Profile: p}); err != nil {
			t.Fatal(err)
		}
		out, err := r.Run(nil, bpf.Socket, []kernelabi.Input{kernelabi.NewSkb(nil)}, nil)
		if err != nil || out[0].Value != 7 {
			t.Errorf("at %#x: %v, %v", base, out, err)
		}
	}
}
