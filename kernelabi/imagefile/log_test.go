package imagefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// brief is what the tests compare of an image.
type brief struct {
	Line, Insns, Pass int
	Printed           uint64
	Comm              string
	PID               int
	Code              string
}

func briefs(entries []Entry) (out []brief) {
	for _, e := range entries {
		code := fmt.Sprintf("%x", e.Code)
		if len(e.Code) > 20 {
			code = fmt.Sprintf("%x...%x (%d)", e.Code[:4], e.Code[len(e.Code)-4:], len(e.Code))
		}
		out = append(out, brief{e.Line, e.Insns, e.Pass, e.Printed, e.Comm, e.PID, code})
	}
	return out
}

// The logs of real kernels, as they were printed.
func TestReadRealLogs(t *testing.T) {
	for _, tt := range []struct {
		name string
		want brief
	}{
		{"2011-x86_64-published.txt", brief{1, 18, 3, 0xffffffffa00b5000, "", 0, "554889e5...31c0c9c3 (147)"}},
		{"6.1-amd64-tcpdump-009-net-192-168-2-0-24.txt", brief{1, 97, 4, 0xff29d6e0d7f7c61c, "init", 1, "0f1f4400...acfeffff (434)"}},
		{"6.1-armv5-seccomp-fast-5-arm.txt", brief{1, 11, 2, 0xbf0087d0, "init", 77, "f04b2de9...01000500 (164)"}},
		{"6.1-armv6-own-load-then-div.txt", brief{1, 39, 2, 0xbf064c38, "init", 1, ""}},
		{"6.1-armv7-tcpdump-018-port-80.txt", brief{1, 144, 2, 0xbf0145a4, "init", 1, ""}},
	} {
		entries, err := Read(tt.name, read(t, tt.name))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := briefs(entries)
		if tt.want.Code == "" {
			got[0].Code = ""
		}
		if diff := cmp.Diff([]brief{tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestReadLog(t *testing.T) {
	const (
		headA   = "flen=3 proglen=20 pass=2 image=ffffffffa0001000 from=a b pid=7\n"
		headB   = "flen=4 proglen=18 pass=3 image=ffffffffa0002000 from=b pid=8\n"
		lineA0  = "JIT code: 00000000: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n"
		lineA1  = "JIT code: 00000010: 10 11 12 13\n"
		lineB0  = "JIT code: 00000000: f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 fa fb fc fd fe ff\n"
		lineB1  = "JIT code: 00000010: ee ef\n"
		headA2  = "flen=3 proglen=20 pass=2 image=ffffffffa0003000 from=c pid=9\n"
		lineC0  = "JIT code: 00000000: c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 ca cb cc cd ce cf\n"
		lineC1  = "JIT code: 00000010: d0 d1 d2 d3\n"
		lineF1  = "JIT code: 00000010: 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f\n"
		lineF1b = "JIT code: 00000010: 20 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f\n"
		lineF2  = "JIT code: 00000020: 30 31 32 33\n"
		codeA   = "000102030405060708090a0b0c0d0e0f10111213"
		codeB   = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffeeef"
	)
	a := brief{1, 3, 2, 0xffffffffa0001000, "a b", 7, codeA}
	b := brief{1, 4, 3, 0xffffffffa0002000, "b", 8, codeB}
	at := func(b brief, line int) brief { b.Line = line; return b }
	twice := func(lines ...string) (all string) {
		for _, line := range lines {
			all += line + line
		}
		return all
	}
	prefixed := func(prefix string, lines ...string) string {
		return prefix + strings.Join(lines, prefix)
	}
	for _, tt := range []struct {
		desc, text string
		want       []brief
		errs       []string
	}{
		{"Two images follow each other.", headA + lineA0 + lineA1 + headB + lineB0 + lineB1, []brief{a, at(b, 4)}, nil},
		{"Other lines are in between.", headA + "usb 1-1: new device\n" + lineA0 + "\n" + lineA1, []brief{a}, nil},
		{"A syslog prefix is passed over.", prefixed("Nov 30 10:06:01 host kernel: [   12.345678] ", headA, lineA0, lineA1), []brief{a}, nil},
		{"Lines end as on other systems.", strings.ReplaceAll(headA+lineA0+lineA1, "\n", "\r\n"), []brief{a}, nil},
		{"The last line has no end.", strings.TrimSuffix(headA+lineA0+lineA1, "\n"), []brief{a}, nil},
		{"A line goes where its length fits.", headA + lineA0 + headB + lineB0 + lineA1, []brief{a}, []string{"log:3: the image has 16 of 18"}},
		{"Mixed dumps are told apart by their lengths, if there is one way only.", headA + lineA0 + headB + lineB0 + lineA1 + lineB1, []brief{a, at(b, 3)}, nil},
		{"They are not where two lines may as well change places.",
			strings.Replace(headA, "proglen=20", "proglen=32", 1) + lineA0 + strings.Replace(headB, "proglen=18", "proglen=36", 1) + lineB0 + lineF1 + lineF1b + lineF2,
			nil, []string{"log:5: JIT code: 00000010: the images of lines 1 and 3 both go on there"}},
		{"Dumps of one length whose headers come first cannot be told apart.", headA + headA2 + lineA0 + lineC0 + lineA1 + lineC1, nil,
			[]string{"log:3: JIT code: 00000000: the images of lines 1 and 2 both go on there", "log:1: the image has a header and no bytes", "log:2: the image has a header"}},
		{"A dump without its end does not spoil those behind it.", headA2 + lineA0 + headA + lineA0 + lineA1, []brief{at(a, 3)}, []string{"log:1: the image has 16 of 20"}},
		{"Neither does one without its beginning.", headA2 + lineA1 + headA + lineA0 + lineA1 + headB + lineB0 + lineB1, []brief{at(a, 3), at(b, 6)}, []string{"log:2: JIT code: 00000010: no image goes on there", "log:1: the image has a header"}},
		{"Nor one without any line.", headB + headA + lineA0 + lineA1, []brief{at(a, 2)}, []string{"log:1: the image has a header and no bytes"}},
		{"Of two headers of one length it is not known whose the lines are.", headA2 + headA + lineA0 + lineA1, nil, []string{"log:3: JIT code: 00000000: the images of lines 1 and 2"}},
		{"A log in which all is twice has its images once.", twice(headA, lineA0, lineA1, headB, lineB0, lineB1), []brief{a, at(b, 7)}, nil},
		{"Mixed dumps are told apart by the thread that prints them.",
			"[T1] " + headA + "[T2] " + headB + "[T2] " + lineB0 + "[T1] " + lineA0 + "[T1] " + lineA1 + "[T2] " + lineB1, []brief{a, at(b, 2)}, nil},
		{"Mixed dumps in the old form are told apart by their addresses.",
			headA + headB + strings.ReplaceAll(lineB0, "00000000", "ffffffffa0002000") + strings.ReplaceAll(lineA0, "00000000", "ffffffffa0001000") +
				strings.ReplaceAll(lineA1, "00000010", "ffffffffa0001010") + strings.ReplaceAll(lineB1, "00000010", "ffffffffa0002010"), []brief{a, at(b, 2)}, nil},
		{"Repeated lines count once.", headA + lineA0 + lineA0 + lineA1 + lineA1, []brief{a}, nil},
		{"A hashed address that was not ready is none.", strings.Replace(headA, "ffffffffa0001000", "(____ptrval____)", 1) + lineA0 + lineA1, []brief{{1, 3, 2, 0, "a b", 7, codeA}}, nil},
		{"A 3.x header has no process.", "flen=3 proglen=20 pass=2 image=ffffffffa0001000\n" + lineA0 + lineA1, []brief{{1, 3, 2, 0xffffffffa0001000, "", 0, codeA}}, nil},
		{"A dump without a header is an image.", lineA0 + lineA1, []brief{{1, 0, 0, 0, "", 0, codeA}}, nil},
		{"A dump without a header may say where it is.", strings.ReplaceAll(lineA0, "00000000", "bf001000") + strings.ReplaceAll(lineA1, "00000010", "bf001010"), []brief{{1, 0, 0, 0xbf001000, "", 0, codeA}}, nil},
		{"A cut log loses its last image only.", headA + lineA0 + lineA1 + headB + lineB0, []brief{a}, []string{"log:4: the image has 16 of 18 bytes"}},
		{"A missing line is noticed.", headA + lineA1 + headB + lineB0 + lineB1, nil, []string{"log:2: JIT code: 00000010: no image goes on there"}},
		{"A line with too few bytes is noticed.", headA + "JIT code: 00000000: 00 01 02 [ 1.5] oops\n", nil, []string{"log:2: 3 bytes, want 16"}},
		{"A line without bytes is noticed.", headA + "JIT code: 00000000:\n", nil, []string{"log:2: after JIT code: there are no bytes"}},
		{"A line without an offset is noticed.", headA + "JIT code: hello\n", nil, []string{"log:2: after JIT code: there is no offset"}},
		{"An image that was never made is none.", "flen=1 proglen=20 pass=9 image=          (null)\n" + "flen=1 proglen=20 pass=9 image=0000000000000000\n" + headA + lineA0 + lineA1,
			[]brief{at(a, 3)}, []string{"log:2: image=0000000000000000: the JIT gave up"}},
		{"An image too large is refused.", strings.Replace(headA, "proglen=20", "proglen=1000001", 1), nil, []string{"log:1: proglen=1000001"}},
		{"A number beyond all bounds is refused.", strings.Replace(headA, "proglen=20", "proglen=99999999999999999999", 1), nil, []string{"log:1: proglen=9999"}},
		{"A log without images is an error.", "nothing\n", nil, []string{"log: there is no image in the log"}},
	} {
		entries, err := ReadLog("log", []byte(tt.text))
		got := briefs(entries)
		if tt.errs == nil && err != nil || tt.want != nil && !cmp.Equal(tt.want, got) {
			t.Errorf("%s\nerror %v (-want +got):\n%s", tt.desc, err, cmp.Diff(tt.want, got))
		}
		for _, want := range tt.errs {
			var typed *Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\ngot error %v, want %q", tt.desc, err, want)
			}
		}
	}
}

// The number of an image counts those that could not be read.
func TestNumbers(t *testing.T) {
	const (
		good    = "flen=1 proglen=2 pass=1 image=ffffffffa0001000\nJIT code: 00000000: 31 c0\n"
		damaged = "flen=1 proglen=4 pass=1 image=ffffffffa0002000\n"
	)
	entries, err := Read("log", []byte(good+damaged+good))
	if err == nil || len(entries) != 2 || entries[0].Number != 1 || entries[1].Number != 3 {
		t.Errorf("%+v, %v", entries, err)
	}
	entries, err = Read("records", []byte("{\n"+`{"name":"n","kind":"seccomp","program":[[6,0,0,0]],"kernel":"6.1-armv5","base":null,"image":null,"errno":22}`))
	if err == nil || len(entries) != 1 || entries[0].Number != 2 {
		t.Errorf("%+v, %v", entries, err)
	}
}

// FuzzLog: any text gives images within bounds, or *Error.
func FuzzLog(f *testing.F) {
	// Short ones: the others say nothing new.
	f.Add(read(f, "2011-x86_64-published.txt"))
	f.Add(read(f, "6.1-armv5-seccomp-fast-5-arm.txt"))
	f.Add([]byte("[T1] flen=1 proglen=2 pass=1 image=(ptrval) from=a b pid=1\n[T1] JIT code: 00000000: 31 c0\n"))
	f.Fuzz(func(t *testing.T, data []byte) { sane(t, ReadLog, data) })
}

// sane checks what every reader promises.
func sane(t *testing.T, reader func(string, []byte) ([]Entry, error), data []byte) {
	entries, err := reader("file", data)
	var typed *Error
	if err != nil && !errors.As(err, &typed) {
		t.Errorf("%T: %v", err, err)
	}
	if err == nil && len(entries) == 0 {
		t.Error("neither images nor an error")
	}
	for _, e := range entries {
		if len(e.Code) > MaxImage || len(e.Code) == 0 && (e.Record == nil || e.Record.Errno == 0) {
			t.Errorf("%s: %d bytes", &e, len(e.Code))
		}
	}
}
