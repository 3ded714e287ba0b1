package bpf_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// TestProgramJSON compares programs with slices of instructions, which are read and
// written one by one.
func TestProgramJSON(t *testing.T) {
	for _, text := range []string{
		`[]`, `[ ]`, `null`, `[[6,0,0,0]]`, `[[6,0,0,4294967295],[65535,255,255,0]]`, ` [ [6, 0,0,1] , [6,0,0,2]]`,
		`[[6,0,0,4294967296]]`, `[[65536,0,0,0]]`, `[[6,256,0,0]]`, `[[6,0,256,0]]`, `[[6,0,0,18446744073709551616]]`,
		`[[6,0,0]]`, `[[6,0,0,0,0]]`, `[[6,0,0,-1]]`, `[[6,0,0,1.0]]`, `[[6,0,0,1e2]]`, `[[6,0,0,"1"]]`, `[6,0,0,0]`,
		`[[06,0,0,0]]`, `[[6,0,0,00]]`, `[[6,,0,0]]`, `[[6,0,0,]]`, `[[6,0,0,0],]`, `[[6,0,0,0][6,0,0,0]]`, `[[6,0,0,0]`,
		`[[6,0,0,0`, `[[`, `[`, ``, `{}`, `[null]`, `[[]]`, `[[6,0,0,0]]]`, `[[6,0,0,0],[6,0,0]]`,
	} {
		var want []bpf.Instruction
		var got bpf.Program
		wantErr, gotErr := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got)
		if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) || wantErr == nil && !cmp.Equal(bpf.Program(want), got) {
			t.Errorf("%s: got %v, %v, one by one %v, %v", text, got, gotErr, want, wantErr)
		}
	}
	// Called by itself, without the decoder in front of it.
	for _, text := range []string{`]`, ``, `,`, `[`, `[]]`} {
		var p bpf.Program
		if err := p.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
	m := &programMaker{Rand: rand.New(rand.NewPCG(seed(t), 4)), rules: bpf.RulesCurrent}
	programs := []bpf.Program{nil, {}}
	for range 100 {
		programs = append(programs, m.program(2+m.IntN(60)))
	}
	for _, prog := range programs {
		want, err := json.Marshal([]bpf.Instruction(prog))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(prog)
		if err != nil || string(text) != string(want) {
			t.Fatalf("got %s, %v, one by one %s", text, err, want)
		}
		var back bpf.Program
		if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(prog, back) {
			t.Fatalf("%s came back as %v, %v", text, back, err)
		}
	}
}
