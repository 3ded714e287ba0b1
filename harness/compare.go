package harness

// Verdict is the judgement of one outcome against the reference.
type Verdict uint8

const (
	Agree     Verdict = iota
	Diverge           // a wrong value, a fault, a timeout, a broken promise, or a runner that failed
	Undefined         // another value after a shift by X >= 32, which old kernels left to the processor
	NotRun            // refused, rejected or not tried: there is nothing to compare
)

var verdictNames = [...]string{"agree", "diverge", "undefined", "not run"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText writes the lower-case name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Compare judges got by want, the reference's outcome for the same program and
// input under the runner's own rules and semantics.
func Compare(want, got Outcome) Verdict {
	switch got.Kind {
	case Refused, Untried:
		return NotRun
	case Rejected:
		if want.Kind == Rejected {
			return NotRun
		}
		return Diverge
	case Fault, Timeout, Failed:
		return Diverge
	}
	switch {
	case want.Kind != Value, got.Broken != 0:
		return Diverge
	case got.Value == want.Value:
		return Agree
	case want.ShiftPC >= 0:
		return Undefined
	}
	return Diverge
}
