package bpftext

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// checkFile checks every record of a file and returns how many there are.
func checkFile(t *testing.T, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		n++
		if kind, err := CheckRecord(lines.Bytes()); err != nil {
			t.Errorf("%s:%d: %s: %v", path, n, kind, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRecordsOfTheTools checks what tcpdump, bpf_asm and iptables really print:
// a subset that is always here, and all of it where the facts are at hand.
func TestRecordsOfTheTools(t *testing.T) {
	const shared = "../../../shared/data/"
	for _, path := range []string{
		"testdata/bpf-image.jsonl", "testdata/bpf-asm.jsonl", "testdata/tcpdump.jsonl", "testdata/xt-bpf.jsonl", "testdata/expressions.jsonl",
		shared + "text-formats/bpf-image.jsonl", shared + "text-formats/bpf-asm.jsonl",
		shared + "text-formats/tcpdump.jsonl", shared + "text-formats/xt-bpf.jsonl", shared + "tcpdump/expressions.jsonl",
	} {
		t.Run(path, func(t *testing.T) {
			if n := checkFile(t, path); n == 0 {
				t.Error("no record in the file")
			} else {
				t.Logf("%d records", n)
			}
		})
	}
}

// TestCheckRecordTellsTheDifference changes facts, which must then not hold.
func TestCheckRecordTellsTheDifference(t *testing.T) {
	for _, tc := range []struct{ desc, record, kind, want string }{
		{"a text with one blank less", `{"code":7,"jt":0,"jf":0,"k":0,"n":7,"text":"(007) tax     "}`, "bpf-image", `text, line 1: got "(007) tax      ", want "(007) tax     "`},
		{"a record cut short", `{"code":7,`, "", "record: unexpected end of JSON input"},
		{"a number where text belongs", `{"bytecode":1,"rc":0}`, "xt-bpf", "record of kind xt-bpf: json: cannot unmarshal number"},
		{"source with another output", `{"src":"ret #1","rc":0,"out":"1,6 0 0 2,\n"}`, "bpf-asm", `output, line 1: got "1,6 0 0 1,\n", want "1,6 0 0 2,\n"`},
		{"source with another output of -c", `{"src":"ret #0","rc":0,"out":"1,6 0 0 0,\n","c":"{ 0x06,  0,  0, 0x00000000 },\n"}`, "bpf-asm", "output of -c, line 1"},
		{"source with another length of output", `{"src_line":"ret #0\n","repeat":3,"rc":0,"out_len":25}`, "bpf-asm", "output of 27 bytes, want 25"},
		{"source without output", `{"src":"ret #0","rc":0}`, "bpf-asm", "neither out nor out_len"},
		{"source that bpf_asm would reject", `{"src":"ret a","rc":1,"err":"no"}`, "bpf-asm", `accepted, but bpf_asm says "no"`},
		{"source that bpf_asm would take", `{"src":"ret","rc":0,"out":""}`, "bpf-asm", "bpf_asm takes this, but: src:1: ret wants"},
		{"an error on another line", `{"src":"tax\nret","rc":1,"err":"error: syntax error at line 1"}`, "bpf-asm", `bpf_asm says "error: syntax error at line 1"`},
		{"a huge repetition", `{"src_line":"ret #0\n","repeat":2000000000,"rc":1}`, "bpf-asm", "repeat 2000000000: want 1 to 65536"},
		{"three texts of two programs", `{"expr":"","dlt":"RAW","d":["(000) ret      #1"],"dd":["{ 0x6, 0, 0, 0x00000000 },"],"ddd":["1","6 0 0 0"]}`, "tcpdump", "-d: pc 0: got {6 0 0 1}, want {6 0 0 0}"},
		{"a text in another place", `{"expr":"","dlt":"RAW","d":["(000) ret      #0"],"dd":["1","6 0 0 0"],"ddd":["1","6 0 0 0"]}`, "tcpdump", "taken for form ddd, want dd"},
		{"another number of instructions", `{"expression":"","dlt":"RAW","insns":2,"d":"(000) ret      #0\n","dd":"{ 0x6, 0, 0, 0x00000000 },\n","ddd":"1\n6 0 0 0\n"}`, "tcpdump-expression", "1 instructions, want 2"},
		{"bytecode listed otherwise", `{"bytecode":"1,6 0 0 -1","rc":0,"listed":"1,6 0 0 -1"}`, "xt-bpf", `listed, line 1: got "1,6 0 0 4294967295"`},
		{"bytecode that iptables would reject", `{"bytecode":"1,6 0 0 0","rc":2,"err":"no"}`, "xt-bpf", `accepted, but iptables says "no"`},
		{"bytecode that iptables would take", `{"bytecode":"1,6 0 0","rc":0,"listed":"1,6 0 0 0"}`, "xt-bpf", "iptables takes this, but: bytecode:1: instruction 0"},
	} {
		kind, err := CheckRecord([]byte(tc.record))
		if kind != tc.kind || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got kind %q, error %v\nwant kind %q, error %s", tc.desc, kind, err, tc.kind, tc.want)
		}
	}
	if kind, err := CheckRecord([]byte(`{"name":"x","insns":[]}`)); kind != "" || !errors.Is(err, ErrNoRecord) {
		t.Errorf("a record of another package: got kind %q, error %v", kind, err)
	}
}
