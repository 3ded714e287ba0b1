package imagefile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// records are those of kernelabi's tests.
func records(t *testing.T) []Entry {
	t.Helper()
	data, err := os.ReadFile("../testdata/kernel-image-records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := Read("records", data)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func profile(t *testing.T, name string) *kernelabi.Profile {
	t.Helper()
	p, err := kernelabi.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The log of an image leads to the same image as the record of it.
func TestLogsAndRecordsAgree(t *testing.T) {
	for _, tt := range []struct{ log, kernel, record, profile string }{
		{"6.1-amd64-tcpdump-009-net-192-168-2-0-24.txt", "6.1-amd64", "tcpdump-009-net-192-168-2-0-24", "linux-6.1-x86_64"},
		{"6.1-armv5-seccomp-fast-5-arm.txt", "6.1-armv5", "seccomp-fast-5-arm", "linux-6.1-armv5"},
		{"6.1-armv6-own-load-then-div.txt", "6.1-armv6", "own-load-then-div", "linux-6.1-armv6"},
		{"6.1-armv7-tcpdump-018-port-80.txt", "6.1-armv7", "tcpdump-018-port-80", "linux-6.1-armv7"},
	} {
		var rec *Entry
		for _, e := range records(t) {
			if e.Name == tt.record && e.Record.Kernel == tt.kernel {
				rec = &e
			}
		}
		if rec == nil {
			t.Fatalf("no record %s of %s", tt.record, tt.kernel)
		}
		logged, err := Read(tt.log, read(t, tt.log))
		if err != nil {
			t.Fatal(err)
		}
		want, err := rec.Image(Placing{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := logged[0].Image(Placing{Profile: profile(t, tt.profile), Program: rec.Record.Program, Kind: rec.Record.Kind})
		if err != nil {
			t.Errorf("%s: %v", tt.log, err)
			continue
		}
		if !bytes.Equal(got.Code, want.Code) || got.Base != want.Base || !got.BaseKnown || got.Insns != want.Insns || got.Pass != want.Pass {
			t.Errorf("%s: %d bytes at %#x, the record has %d at %#x", tt.log, len(got.Code), got.Base, len(want.Code), want.Base)
		}
	}
}

// Every record's image can be placed, from its bytes alone where the base can
// be solved.
func TestRecordsAreImages(t *testing.T) {
	for _, e := range records(t) {
		img, err := e.Image(Placing{})
		if e.Code == nil {
			var typed *Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), "refused the program with errno") {
				t.Errorf("%s: %v", &e, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", &e, err)
			continue
		}
		raw, err := Read("raw", e.Code)
		if err != nil || raw[0].Form != Binary {
			t.Fatalf("%s: %v", &e, err)
		}
		again, err := raw[0].Image(Placing{
			Profile: profile(t, img.Profile.Name), Program: e.Record.Program, Kind: e.Record.Kind,
		})
		if err != nil {
			t.Errorf("%s: %v", &e, err)
			continue
		}
		if img.Profile.Arch == kernelabi.X86_64 && (again.BaseKnown != img.BaseKnown || again.Base != img.Base) {
			t.Errorf("%s: base %#x, the record has %#x", &e, again.Base, img.Base)
		}
	}
}

func TestPlacing(t *testing.T) {
	log := func(name string) *Entry {
		entries, err := ReadLog(name, read(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return &entries[0]
	}
	old, amd64 := log("2011-x86_64-published.txt"), log("6.1-amd64-tcpdump-009-net-192-168-2-0-24.txt")
	img, err := old.Image(Placing{Profile: profile(t, "linux-3.0-x86_64")})
	if err != nil || img.Base != 0xffffffffa00b5000 || !img.BaseKnown {
		t.Errorf("an old log says where the image is: %+v, %v", img, err)
	}
	base := uint64(0xffffffffc0000000)
	var unresolved *kernelabi.UnresolvedError
	if _, err := old.Image(Placing{Profile: profile(t, "linux-3.0-x86_64"), Base: &base}); !errors.As(err, &unresolved) {
		t.Errorf("a wrong base is noticed: %v", err)
	}
	var typed *Error
	if _, err := old.Image(Placing{}); !errors.As(err, &typed) || !strings.Contains(err.Error(), "profile") {
		t.Errorf("a log needs a profile: %v", err)
	}
	// The address in a log of 6.1 is no use, but the calls are to two routines.
	img, err = amd64.Image(Placing{Profile: profile(t, "linux-6.1-x86_64")})
	if err != nil || !img.BaseKnown || img.Base>>32 != 0xffffffff {
		t.Errorf("a base is solved without the program: %+v, %v", img, err)
	}
	var none *kernelabi.NoBaseError
	if _, err := amd64.Image(Placing{Profile: profile(t, "linux-6.18-x86_64"), Program: bpf.Program{{Code: bpf.RetK}}}); !errors.As(err, &none) {
		t.Errorf("another program is noticed: %v", err)
	}
	var arch *kernelabi.ArchError
	if _, err := amd64.Image(Placing{Profile: profile(t, "linux-6.1-armv7")}); !errors.As(err, &arch) {
		t.Errorf("code of another architecture is noticed: %v", err)
	}
}

// Code that reads a packet's length elsewhere than the profile has it belongs to
// another kernel: of its layout only what the code shows is known. A layout that
// is given counts for more.
func TestLayoutOfTheCode(t *testing.T) {
	for _, e := range records(t) {
		if e.Name != "own-load-then-div" {
			continue
		}
		symbols := kernelabi.NewSymbolTable(e.Record.Addresses())
		bare := Entry{File: "raw", Form: Binary, Code: e.Code}
		img, err := bare.Image(Placing{Profile: profile(t, "linux-6.1-armv5"), Symbols: symbols})
		want := kernelabi.Layout{kernelabi.SkbData: 172, kernelabi.SkbLen: 84, kernelabi.SkbDataLen: 88}
		if err != nil || !maps.Equal(img.Profile.Layout, want) {
			t.Errorf("%v, layout %v, want %v", err, img.Profile.Layout, want)
		}
		given := kernelabi.Layout{kernelabi.SkbLen: 1}
		img, err = bare.Image(Placing{Profile: profile(t, "linux-6.1-armv5"), Symbols: symbols, Layout: given})
		if err != nil || !maps.Equal(img.Profile.Layout, given) {
			t.Errorf("%v, layout %v, want %v", err, img.Profile.Layout, given)
		}
		img, err = bare.Image(Placing{Profile: profile(t, "linux-6.1-armv6"), Symbols: symbols})
		if err != nil || !maps.Equal(img.Profile.Layout, profile(t, "linux-6.1-armv6").Layout) {
			t.Errorf("%v, layout %v, want the profile's", err, img.Profile.Layout)
		}
		return
	}
	t.Fatal("the record is gone")
}

func TestBpftool(t *testing.T) {
	const dump = `[{"name":"bpf_prog_6deef7357e7b4530_f","insns":[{"pc":"0x0","operation":"push","operands":["%rbp"],"opcodes":["0x55"]},{"pc":"0x1","operation":"mov","operands":["%rsp","%rbp"],"opcodes":["0x48","0x89","0xe5"]}]},{"proto":"int g()","name":"0xffffffffc0201000","insns":[{"pc":"0x0","operation":"ret","operands":[null],"opcodes":["0xc3"]}]}]`
	entries, err := Read("dump", []byte(dump))
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for i, want := range []string{"dump: bpf_prog_6deef7357e7b4530_f 554889e5 0", "dump: 0xffffffffc0201000 c3 ffffffffc0201000"} {
		if got := fmt.Sprintf("%s %x %x", &entries[i], entries[i].Code, entries[i].Printed); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	single, err := ReadBpftool("dump", []byte(`[{"pc":"0x0","operation":"ret","operands":[null],"opcodes":["0xc3"]}]`))
	if err != nil || !bytes.Equal(single[0].Code, []byte{0xc3}) {
		t.Errorf("the older form: %v, %v", single, err)
	}
	for _, tt := range []struct{ desc, old, new, want string }{
		{"A dump without bytes says how to get them.", `,"opcodes":["0x55"]`, ``, "the instruction at 0x0 has no bytes: dump with the word opcodes"},
		{"A gap is noticed.", `"pc":"0x1"`, `"pc":"0x2"`, "instruction 1 is at 0x2, behind the one before it is 0x1"},
		{"A byte that is none is noticed.", `"0x55"`, `"0x155"`, `"0x155" is no byte`},
		{"An offset that is none is noticed.", `"pc":"0x1"`, `"pc":"x"`, `pc "x" is no offset`},
		{"Another JSON value is no dump.", dump, `[1]`, "no dump of bpftool"},
		{"An empty dump is none.", dump, `[]`, "no functions"},
		{"A cut dump is none.", `}]}]`, ``, "no dump of bpftool"},
	} {
		_, err := ReadBpftool("dump", []byte(strings.Replace(dump, tt.old, tt.new, 1)))
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q", tt.desc, err, tt.want)
		}
	}
}

func TestHexAndBytes(t *testing.T) {
	for _, tt := range []struct {
		desc, text, want string
		form             Form
	}{
		{"Digits alone.", "554889e5\n", "554889e5", Hex},
		{"Bytes with blanks, over lines, with a remark.", "# f\n55 48\n 89 e5\n", "554889e5", Hex},
		{"As in C.", `"\x55\x48" "\x89\xe5";`, "554889e5", Hex},
		{"With 0x and commas.", "0x55, 0x48,0x89,0xe5", "554889e5", Hex},
		{"Raw bytes.", "\x55\x48\x89\xe5", "554889e5", Binary},
	} {
		entries, err := Read("f", []byte(tt.text))
		if err != nil || entries[0].Form != tt.form || hex.EncodeToString(entries[0].Code) != tt.want {
			t.Errorf("%s got %v, %v", tt.desc, entries, err)
		}
	}
	for _, tt := range []struct{ desc, text, want string }{
		{"A letter that is no digit is named.", "55\n48 8g\n", `f:2: "8g": hex text, character 1`},
		{"Half a byte is named.", "554\n", "f:1:"},
		{"An empty file has no image.", "", "f: there are no bytes"},
		{"Remarks alone are no image.", "# f\n", "f: there are no bytes"},
	} {
		_, err := Read("f", []byte(tt.text))
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q", tt.desc, err, tt.want)
		}
	}
	if _, err := ReadBinary("f", make([]byte, MaxImage+1)); err == nil {
		t.Error("an image may have any size")
	}
}

// Lines that are no records do not hide the others.
func TestBadRecords(t *testing.T) {
	data, err := os.ReadFile("../testdata/kernel-image-records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := ReadRecords("f", append([]byte("{\"name\":\"x\"}\n{\n\n"), data...))
	if len(entries) != bytes.Count(data, []byte("\n")) || err == nil || !strings.Contains(err.Error(), "f:1: ") || !strings.Contains(err.Error(), "f:2: ") {
		t.Errorf("%d records, %v", len(entries), err)
	}
}

func FuzzBpftool(f *testing.F) {
	f.Add([]byte(`[{"name":"f","insns":[{"pc":"0x0","opcodes":["0x55"]}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) { sane(t, ReadBpftool, data) })
}

func FuzzHex(f *testing.F) {
	f.Add([]byte(`55 "\x48" 0x89`))
	f.Fuzz(func(t *testing.T, data []byte) { sane(t, ReadHex, data) })
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"name":"n","kind":"seccomp","program":[[6,0,0,0]],"kernel":"6.1-armv5","base":null,"image":null,"errno":22}`))
	f.Fuzz(func(t *testing.T, data []byte) { sane(t, ReadRecords, data) })
}

// FuzzRead: whatever is in a file, reading it and placing what is in it for any
// kernel gives an image or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("55 48 89 e5 e8 00 00 00 00 c3"), uint8(0))
	f.Add(read(f, "2011-x86_64-published.txt"), uint8(0))
	profiles := kernelabi.Profiles()
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		sane(t, Read, data)
		entries, _ := Read("file", data)
		for _, e := range entries {
			img, err := e.Image(Placing{Profile: profiles[int(n)%len(profiles)]})
			if (img == nil) == (err == nil) {
				t.Errorf("%v, %v", img, err)
			}
		}
	})
}
