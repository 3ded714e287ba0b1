package harness

import (
	"strings"
	"testing"

	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
)

func TestMutantProfiles(t *testing.T) {
	faults := 0
	for _, e := range jitx86.Emitters() {
		if e.Fault != nil {
			faults++
		}
	}
	for _, e := range jitarm.Emitters() {
		if e.Fault != nil {
			faults++
		}
	}
	all := append(Mutants(), Traps()...)
	if len(all) != faults || len(Mutants()) < 20 || len(Traps()) < 100 {
		t.Errorf("%d profiles of %d mutants, %d of them traps", len(all), faults, len(Traps()))
	}
	for _, p := range all {
		q, err := ProfileByName(p.Name)
		if err != nil || q.Emitter != p.Emitter {
			t.Errorf("%s: %v, %v", p.Name, q, err)
			continue
		}
		r, err := NewJIT(q)
		if err != nil {
			t.Error(err)
			continue
		}
		img, err := r.Image(returnLength, 0)
		if err != nil || !strings.HasSuffix(img.Origin, " "+p.Emitter) {
			t.Errorf("%s: %v, %v", p.Name, img, err)
		}
	}
}

func TestProfileByName(t *testing.T) {
	for _, tt := range []struct{ desc, name, emitter, err string }{
		{"A built-in profile.", "linux-3.10-x86_64", "linux-3.10", ""},
		{"A mutant on the first kernel that it fits.", "mutant:arm-rsh0", "arm-rsh0", ""},
		{"A mutant on another processor.", "mutant:arm-rsh0@linux-4.5-armv7", "arm-rsh0", ""},
		{"No such mutant.", "mutant:nonsense", "", "there are mutant:x86-jcc-skip6"},
		{"No such kernel.", "mutant:arm-rsh0@nonsense", "", "no profile"},
		{"A kernel of another architecture.", "mutant:arm-rsh0@linux-3.10-x86_64", "", "arm-rsh0 is for armv5"},
		{"A kernel whose images are imported only.", "mutant:x86-and-imm16@linux-6.18-x86_64", "", "not a kernel of that kind"},
	} {
		p, err := ProfileByName(tt.name)
		if tt.err == "" && (err != nil || p.Emitter != tt.emitter || p.Name != tt.name) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s %v, %v", tt.desc, p, err)
		}
	}
}
