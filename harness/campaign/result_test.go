package campaign

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/kernelabi"
)

// sample is a valid result, of range 3.
func sample() (*Settings, *Result) {
	s := Default()
	s.Size, s.JITs = 8, []string{"kjit-armv5"}
	prog := bpf.Program{{Code: bpf.LdImm, K: 1}, {Code: bpf.RetA}}
	return &s, &Result{
		Range: 3, Programs: 8, Insns: 16, Inputs: 20, Pairs: 20, Targets: []Tally{{Agree: 19, Diverge: 1, Programs: 1, Judged: 1}},
		Opcodes: engine.Numbers{0, 6, 22}, Values: []ValueCount{{1, 20}},
		Coverage: engine.Features{{Entries: engine.Numbers{0, 3}, Rules: engine.Numbers{5}, Edges: engine.Numbers{1, 65535}}},
		Corpus:   []Entry{{Case: 25, Program: prog, Features: engine.Features{{Edges: engine.Numbers{1}}}}},
		Findings: []Finding{{Target: "kjit-armv5", Rule: "and-k", How: judge.Value, Case: 24, Count: 1, Program: prog, Input: kernelabi.NewSkb([]byte{9}), Want: "1", Got: "2"}},
	}
}

func TestResultIsValidated(t *testing.T) {
	s, r := sample()
	data := text(t, r)
	again, err := ParseResult([]byte(data), s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("it is another one when it is read again:\n%s", diff)
	}
	for _, tt := range []struct {
		want   string
		change func(*Result)
	}{
		{"no such range", func(r *Result) { r.Range = 1 << 62 }},
		{"9 programs", func(r *Result) { r.Programs = 9 }},
		{"instructions", func(r *Result) { r.Insns = 1 << 40 }},
		{"inputs", func(r *Result) { r.Inputs = 1 << 40 }},
		{"inputs", func(r *Result) { r.Pairs = 21 }},
		{"2 targets", func(r *Result) { r.Targets = append(r.Targets, Tally{}) }},
		{"add up", func(r *Result) { r.Targets[0].NotRun++ }},
		{"21 of 20", func(r *Result) { r.Targets[0].Agree = 21 }},
		{"no opcode", func(r *Result) { r.Opcodes[2] = 1000 }},
		{"a reason of", func(r *Result) { r.Targets[0].Why = strings.Repeat("x", 1001) }},
		{"values", func(r *Result) { r.Values = make([]ValueCount, 17) }},
		{"value 1", func(r *Result) { r.Values[0].Count = 21 }},
		{"features of 0 targets", func(r *Result) { r.Coverage = nil }},
		{"out of order", func(r *Result) { r.Coverage[0].Edges[1] = 65536 }},
		{"out of order", func(r *Result) { r.Coverage[0].Entries[1] = 0 }},
		{"corpus 0: case 24000", func(r *Result) { r.Corpus[0].Case = 24000 }},
		{"corpus 0", func(r *Result) { r.Corpus[0].Program = nil }},
		{"corpus 0", func(r *Result) { r.Corpus[0].Program[1].Code = bpf.LdImm }},
		{"33 programs", func(r *Result) { r.Corpus = make([]Entry, 33) }},
		{"257 findings", func(r *Result) { r.Findings = make([]Finding, 257) }},
		{"twice", func(r *Result) { r.Findings = append(r.Findings, r.Findings[0]) }},
		{"no finding", func(r *Result) { r.Findings[0].Target = "kjit-armv7" }},
		{"no finding", func(r *Result) { r.Findings[0].How = "sideways" }},
		{"no finding", func(r *Result) { r.Findings[0].Count = 9 }},
		{"no finding", func(r *Result) { r.Findings[0].Want = strings.Repeat("x", 1001) }},
		{"is no input", func(r *Result) { r.Findings[0].Kind = bpf.Seccomp }},
		{"is no input", func(r *Result) { r.Findings[0].Input = nil }},
		{"headlen", func(r *Result) { r.Findings[0].Input.(*kernelabi.Skb).Headlen = 2 }},
	} {
		s, r := sample()
		tt.change(r)
		if err := r.Validate(s); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	for _, junk := range []string{"", "null", "{}", "[]", data + "{}", strings.Replace(data, `"range"`, `"rang"`, 1), strings.Replace(data, `"packet"`, `"pocket"`, 1)} {
		if _, err := ParseResult([]byte(junk), s); err == nil {
			t.Errorf("%.60q is taken for a result", junk)
		}
	}
}

// Whatever comes, it is an error or a result that can be merged.
func FuzzParseResult(f *testing.F) {
	s, r := sample()
	f.Add([]byte(text(f, r)))
	f.Add([]byte("{}"))
	st := NewState(s)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseResult(data, s)
		if err != nil {
			return
		}
		st.Next = r.Range
		if _, err := st.Merge(r); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEpochs(t *testing.T) {
	var r uint64
	for epoch := range uint64(12) {
		first, end := EpochRanges(epoch)
		if first != r || end <= first {
			t.Fatalf("epoch %d has ranges %d to %d, want the first to be %d", epoch, first, end, r)
		}
		if want := min(uint64(4)<<epoch, 256); end-first != want {
			t.Errorf("epoch %d has %d ranges, want %d", epoch, end-first, want)
		}
		for ; r < end; r++ {
			if got := EpochOf(r); got != epoch {
				t.Fatalf("range %d is of epoch %d, want %d", r, got, epoch)
			}
		}
	}
}
