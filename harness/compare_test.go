package harness

import (
	"testing"

	"github.com/kjit-project/kjit/emulator"
)

func TestCompare(t *testing.T) {
	value := func(v uint32) Outcome { return Outcome{Kind: Value, Value: v, PC: -1, ShiftPC: -1} }
	shifted := value(8)
	shifted.ShiftPC = 3
	broken := value(8)
	broken.Broken = emulator.BrokenRBX
	fault := Outcome{Kind: Fault, Fault: &emulator.Fault{}}
	for _, tt := range []struct {
		desc      string
		want, got Outcome
		verdict   Verdict
	}{
		{"Equal values agree.", value(8), value(8), Agree},
		{"Another value diverges.", value(8), value(9), Diverge},
		{"The right value with a broken promise diverges.", value(8), broken, Diverge},
		{"A fault diverges.", value(0), fault, Diverge},
		{"A timeout diverges.", value(0), Outcome{Kind: Timeout, Fault: &emulator.Fault{}}, Diverge},
		{"A runner that failed diverges, whatever it had to give.", Outcome{Kind: Rejected}, Outcome{Kind: Failed}, Diverge},
		{"Another value after a shift by 32 or more is undefined.", shifted, value(0), Undefined},
		{"The same value after such a shift agrees.", shifted, value(8), Agree},
		{"A fault after such a shift is still a divergence.", shifted, fault, Diverge},
		{"A program the JIT declines was not run.", value(8), Outcome{Kind: Refused}, NotRun},
		{"A program that runner and reference reject was not run.", Outcome{Kind: Rejected}, Outcome{Kind: Rejected}, NotRun},
		{"A runner that rejects what the reference takes diverges.", value(8), Outcome{Kind: Rejected}, Diverge},
		{"A runner that runs what the reference rejects diverges.", Outcome{Kind: Rejected}, value(8), Diverge},
	} {
		if got := Compare(tt.want, tt.got); got != tt.verdict {
			t.Errorf("%s got %s, want %s", tt.desc, got, tt.verdict)
		}
	}
}
