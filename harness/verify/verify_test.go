package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// facts are records of every kind, copied from the recorded facts of kernels
// and tools.
const facts = "testdata/facts.jsonl"

func readFacts(t *testing.T) [][]byte {
	t.Helper()
	data, err := os.ReadFile(facts)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

func newChecker(t *testing.T, kinds ...string) *Checker {
	t.Helper()
	c, err := NewChecker(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// checkAll returns the results for some lines.
func checkAll(t *testing.T, c *Checker, lines ...[]byte) []Result {
	t.Helper()
	var results []Result
	err := c.File(facts, bytes.NewReader(bytes.Join(lines, []byte("\n"))), func(r Result) error {
		results = append(results, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestFacts(t *testing.T) {
	c := newChecker(t)
	seen := map[string]bool{}
	for _, r := range checkAll(t, c, readFacts(t)...) {
		seen[r.Kind] = true
		if r.Err != nil {
			t.Errorf("line %d: %s %s: %v", r.Line, r.Kind, r.Name, r.Err)
		}
		if strings.HasPrefix(r.Kind, "seccomp-") && r.Skip != "" {
			t.Errorf("line %d: %s is skipped: %s", r.Line, r.Kind, r.Skip)
		}
		if r.Name == "" && r.Kind != "kernel-images" {
			t.Errorf("line %d: a record of kind %s has no name", r.Line, r.Kind)
		}
	}
	for _, kind := range Kinds() {
		if !seen[kind] {
			t.Errorf("%s has no record of kind %s", facts, kind)
		}
	}
}

// alterations make a true fact false, by kind of record.
var alterations = map[string]func(rec map[string]any) bool{
	"jit-goldens": func(rec map[string]any) bool {
		image, ok := rec["image"].(string)
		if !ok {
			rec["result"] = map[any]string{"nojit": "einval", "einval": "nojit", "unfilled": "nojit"}[rec["result"]]
			return true
		}
		last := "0"
		if strings.HasSuffix(image, "0") {
			last = "1"
		}
		rec["image"] = image[:len(image)-1] + last
		return true
	},
	"jit-mutants": func(rec map[string]any) bool {
		rec["want"] = "0x77777777"
		return rec["arch"] != "arm" // nothing is known to be wrong with those yet
	},
	"kernel-images":   alterKernelImage,
	"text-bpf-image":  replaceText("text", "#", "##"),
	"text-bpf-asm":    replaceText("out", "0", "1"),
	"text-tcpdump":    replaceText("d", "ld", "st"),
	"text-xt-bpf":     replaceText("listed", "0", "1"),
	"seccomp-checker": flipErrno,
	"seccomp-opcodes": flipErrno,
	"seccomp-runtime": func(rec map[string]any) bool {
		rec["ret"] = 0x77777777
		return true
	},
	"seccomp-vectors":    alterVector,
	"seccomp-constallow": alterConstAllow,
	"seccomp-expansion":  addOne("converted"),
	"seccomp-probes": func(rec map[string]any) bool {
		filters := rec["filters"].([]any)
		rec["filters"] = append([]any{[][]int{{6, 0, 0, 0x80000000}}}, filters[1:]...) // KILL_PROCESS
		return rec["outcome"].(map[string]any)["kind"] != "signal"
	},
	"seccomp-profiles": func(rec map[string]any) bool {
		fields := []string{"insns", "converted_len", "max_stacked", "crc32"}
		field := fields[len(rec["name"].(string))%len(fields)]
		if field == "crc32" {
			rec[field] = "00000000"
			return true
		}
		return addOne(field)(rec)
	},
}

func addOne(field string) func(map[string]any) bool {
	return func(rec map[string]any) bool {
		rec[field] = rec[field].(float64) + 1
		return true
	}
}

// alterVector changes, by the number of the call, the verdict or how it came
// about.
func alterVector(rec map[string]any) bool {
	fields := []string{"ret", "executed", "pc", "data", "action"}
	field := fields[int(rec["nr"].(float64))%len(fields)]
	if field == "action" {
		rec[field] = "TRAPDOOR"
		return true
	}
	return addOne(field)(rec)
}

// alterConstAllow forgets a call, or blames another instruction for one.
func alterConstAllow(rec map[string]any) bool {
	if lost, ok := rec["lost"].([]any); ok && len(lost) > 0 {
		lost[0].([]any)[1] = 0
		return true
	}
	if rec["lost_count"] != nil {
		return addOne("lost_count")(rec)
	}
	cached := rec["cached"].([]any)
	rec["cached"] = cached[:max(0, len(cached)-1)]
	return len(cached) > 0
}

// alterKernelImage changes, by the length of the name, a result, a byte of code
// that runs, the symbols, or the processor; of a refusal the program.
func alterKernelImage(rec map[string]any) bool {
	image, ok := rec["image"].(string)
	if !ok {
		rec["program"] = [][]int{{6, 0, 0, 0}}
		return true
	}
	field := "results"
	if rec["known_divergence"] != nil {
		field = "image_results"
	}
	name := rec["name"].(string)
	switch len(name) % 4 {
	case 0:
		results := rec[field].([]any)
		results[len(results)-1] = 4711
	case 1:
		rec["image"] = "06" + image[2:] // no instruction on x86_64, another one on ARM
	case 2:
		rec["symbols"] = map[string]string{"nothing": "0xc0008000"}
	default:
		rec["cpu"] = map[string]any{"arch": "none", "features": []string{"bmi2", "movw"}}
	}
	return true
}

func replaceText(field, from, to string) func(map[string]any) bool {
	return func(rec map[string]any) bool {
		switch v := rec[field].(type) {
		case string:
			rec[field] = strings.Replace(v, from, to, 1)
			return rec[field] != v
		case []any:
			line, _ := v[0].(string)
			v[0] = strings.Replace(line, from, to, 1)
			return v[0] != line
		}
		return false
	}
}

func flipErrno(rec map[string]any) bool {
	if rec["socket_errno"] == 0.0 {
		rec["socket_errno"] = 22
	} else {
		rec["socket_errno"] = 0
	}
	return true
}

// A fact that is altered must not pass any more.
func TestAlteredFacts(t *testing.T) {
	c := newChecker(t)
	altered := map[string]int{}
	for n, line := range readFacts(t) {
		before := checkAll(t, c, line)
		alter := alterations[before[0].Kind]
		var rec map[string]any
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		if alter == nil || !alter(rec) {
			continue
		}
		changed, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		altered[before[0].Kind]++
		failed := false
		err = c.File(filepath.Join(filepath.Dir(facts), "altered"), bytes.NewReader(changed), func(r Result) error {
			failed = failed || r.Err != nil
			return nil
		})
		if !failed && err == nil {
			t.Errorf("line %d: %s %s passes though it was altered", n+1, before[0].Kind, before[0].Name)
		}
	}
	for kind := range alterations {
		if altered[kind] == 0 {
			t.Errorf("no record of kind %s could be altered", kind)
		}
	}
}

// The shared facts, where they are beside this checkout.
func TestSharedFacts(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/*/*.jsonl")
	if len(files) == 0 {
		t.Skip("the recorded facts are not beside this checkout; testdata has some of each kind")
	}
	c := newChecker(t)
	passed, skipped := 0, map[string]int{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		err = c.File(name, f, func(r Result) error {
			switch {
			case r.Err != nil:
				t.Errorf("%s:%d: %s: %v", name, r.Line, r.Name, r.Err)
			case r.Skip != "":
				skipped[r.Skip]++
			default:
				passed++
			}
			return nil
		})
		f.Close()
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d passed, skipped: %v", passed, skipped)
	if passed == 0 {
		t.Error("nothing was checked")
	}
}

func TestBadRecords(t *testing.T) {
	for _, tt := range []struct{ desc, line, reason string }{
		{"A line that is not JSON is named.", "hello", "facts:1: not a JSON object"},
		{"A JSON value that is no object is named.", "[1]", "facts:1: not a JSON object"},
		{"An object that states no known fact is named.", `{"x":1}`, "facts:1: not a record of a known kind"},
		{"A known record with a field of the wrong type is named.", `{"name":"n","kernel":1,"arch":"x86_64","program":[],"image":null,"result":"ok"}`, "facts:1: "},
		{"A known record with a number that does not fit is named.", `{"insns":[[65536,0,0,0]],"seccomp_errno":0,"socket_errno":0}`, "facts:1: "},
		{"A program repeated too often is named.", `{"repeat":[6,0,0,0],"count":1000000000,"seccomp_errno":0,"socket_errno":0}`, "facts:1: count"},
		{"A lost call of two fields is named.", `{"filter":"bench-ret","arch":1,"nr_tested":1,"cached":[],"lost":[[1,2]]}`, "facts:1: a lost call of 2 fields"},
		{"Too many tested calls are named.", `{"filter":"bench-ret","arch":1,"nr_tested":1000000000,"cached":[],"lost":[]}`, "facts:1: nr_tested"},
		{"A mutant for an unknown architecture is named.", `{"name":"n","type":"trap","mutant":"m","arch":"vax","program":[[6,0,0,0]],"packet":"00","want":"0x0","measured":{},"evidence":""}`, "facts:1: "},
	} {
		err := newChecker(t).File(filepath.Join(filepath.Dir(facts), "facts"), strings.NewReader(tt.line), func(Result) error {
			t.Errorf("%s but it was checked", tt.desc)
			return nil
		})
		var bad *Bad
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s got %v", tt.desc, err)
		}
	}
}

// Records about filters that are not beside them are skipped, with the reason;
// names that lead elsewhere are none.
func TestMissingProfiles(t *testing.T) {
	for _, tt := range []struct{ desc, line string }{
		{"a verdict", `{"filter":"F","arch":3221225534,"nr":1,"args":[],"ret":0,"action":"KILL_THREAD","data":0,"executed":1,"pc":0}`},
		{"calls proved to be allowed", `{"filter":"F","arch":3221225534,"nr_tested":512,"cached":[],"lost":[]}`},
		{"a filter", `{"name":"F","insns":1,"converted_len":5,"max_stacked":3641,"opcodes":{"06":1},"crc32":"00000000"}`},
	} {
		for _, r := range checkAll(t, newChecker(t), []byte(strings.Replace(tt.line, "F", "nowhere", 1))) {
			if !strings.Contains(r.Skip, "profiles/NAME.ddd") {
				t.Errorf("%s: %+v", tt.desc, r)
			}
		}
		err := newChecker(t).File("facts", strings.NewReader(strings.Replace(tt.line, "F", "../x", 1)), func(r Result) error {
			t.Errorf("%s: %+v", tt.desc, r)
			return nil
		})
		var bad *Bad
		if !errors.As(err, &bad) {
			t.Errorf("%s of a name with a path: %v", tt.desc, err)
		}
	}
}

// Bad lines do not keep the good ones from being checked.
func TestBadLineBetween(t *testing.T) {
	lines := append([][]byte{[]byte("{")}, readFacts(t)...)
	n := 0
	err := newChecker(t).File("facts", bytes.NewReader(bytes.Join(lines, []byte("\n"))), func(Result) error { n++; return nil })
	if err == nil || n < len(lines)-1 {
		t.Errorf("%d checks, error %v; want all of the good lines and an error", n, err)
	}
}

// FuzzFile: any bytes give results or *Bad errors.
func FuzzFile(f *testing.F) {
	data, err := os.ReadFile(facts)
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range bytes.Split(data, []byte("\n")) {
		f.Add(line)
	}
	c, err := NewChecker()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c.File("facts", bytes.NewReader(data), func(Result) error { return nil })
	})
}
