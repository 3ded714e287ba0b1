package verify

import (
	"strings"
	"testing"
)

// What an external JIT made is judged by what it does.
func TestExternal(t *testing.T) {
	const record = `{"name":"n","kernel":"exec:mine","profile":"linux-3.10-x86_64","arch":"x86_64","kind":"socket","program":[[6,0,0,7]],"base":null,"symbols":{},"layout":{"sk_buff.len":104},"features":{},"image":"b807000000c3","result":"ok"}`
	c := newChecker(t)
	for _, tt := range []struct{ desc, old, new, want string }{
		{"Other bytes than kjit's JIT emits, and the right value.", "", "", ""},
		{"A wrong value.", "b807", "b808", "input 0: the image gives 8, the interpreter 7"},
		{"Code that faults.", "b807000000c3", "0f0b", "gives fault: invalid opcode"},
		{"Code that is no filter's.", "b807000000c3", "0f30c3", "wrmsr"},
		{"A refusal, which is its own affair.", `"image":"b807000000c3","result":"ok"`, `"image":null,"result":"nojit"`, ""},
		{"A program that no kernel takes.", `[[6,0,0,7]]`, `[[5,0,0,7],[6,0,0,7]]`, "instruction 0: "},
		{"x86_64 code for ARM.", `"profile":"linux-3.10-x86_64","arch":"x86_64","kind":"socket"`, `"profile":"linux-4.5-armv7","arch":"armv7","kind":"seccomp"`, "input 0: the image gives "},
	} {
		results := checkAll(t, c, []byte(strings.Replace(record, tt.old, tt.new, 1)))
		if len(results) != 1 || (results[0].Err == nil) != (tt.want == "") || results[0].Skip != "" {
			t.Errorf("%s got %+v", tt.desc, results)
		} else if tt.want != "" && !strings.Contains(results[0].Err.Error(), tt.want) {
			t.Errorf("%s got %v, want %s", tt.desc, results[0].Err, tt.want)
		}
	}
	arm := strings.NewReplacer(`linux-3.10-x86_64","arch":"x86_64","kind":"socket"`, `linux-4.5-armv7","arch":"armv7","kind":"seccomp"`, "b807000000c3", "0700a0e31eff2fe1")
	if results := checkAll(t, c, []byte(arm.Replace(record))); len(results) != 1 || results[0].Err != nil || results[0].Skip != "" {
		t.Errorf("ARM code for system calls: %+v", results)
	}
	err := c.File("f", strings.NewReader(strings.Replace(record, "linux-3.10-x86_64", "linux-9", 1)), func(Result) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `f:1: no profile "linux-9"`) {
		t.Errorf("a profile that there is not: %v", err)
	}
}
