package campaign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/kernelabi"
)

// Bounds of a [Result].
const (
	MaxResult   = 64 << 20 // bytes of JSON
	MaxFindings = 256      // in a range
	MaxEntries  = 32       // programs that enter the working corpus from a range
	maxValues   = 16
	maxText     = 1000 // bytes
	maxOpcode   = 2*numCodes - 1
)

// numCodes are opcodes and ancillary loads of one kind of program.
const numCodes = 256 + bpf.NumExtensions

// Result is what came of a range. It depends on nothing but the settings, what
// the epoch started from, and the range's number. It may come from anywhere:
// Validate it.
type Result struct {
	Range    uint64  `json:"range"`
	Programs uint64  `json:"programs"`
	Insns    uint64  `json:"insns"` // of the programs
	Inputs   uint64  `json:"inputs"`
	Pairs    uint64  `json:"pairs"` // comparisons of one target on one input
	Targets  []Tally `json:"targets"`

	// Opcodes are the opcodes, and from 256 on the ancillary loads, that some
	// target ran, those of seccomp filters numCodes higher.
	Opcodes engine.Numbers `json:"opcodes,omitzero"`

	// Values are what most of the interpreter's runs ended with.
	Values []ValueCount `json:"values,omitempty"`

	Coverage engine.Features `json:"coverage"`           // what was new
	Corpus   []Entry         `json:"corpus,omitempty"`   // programs that showed most of that
	Findings []Finding       `json:"findings,omitempty"` // one of each signature
}

// Tally counts what a target made of the inputs.
type Tally struct {
	Agree     uint64 `json:"agree"`
	Diverge   uint64 `json:"diverge"`
	Undefined uint64 `json:"undefined"` // shifts by X >= 32
	NotRun    uint64 `json:"not_run"`
	Executed  uint64 `json:"executed"`           // native instructions
	Programs  uint64 `json:"diverging_programs"` // on some input
	Judged    uint64 `json:"judged"`             // of those, the ones that were looked at closely
	Why       string `json:"why,omitempty"`      // of the first that did not run
}

func (t *Tally) add(o *Tally) {
	t.Agree += o.Agree
	t.Diverge += o.Diverge
	t.Undefined += o.Undefined
	t.NotRun += o.NotRun
	t.Executed += o.Executed
	t.Programs += o.Programs
	t.Judged += o.Judged
	if t.Why == "" {
		t.Why = o.Why
	}
}

// ValueCount is a value that runs ended with.
type ValueCount struct {
	Value uint32 `json:"value"`
	Count uint64 `json:"count"`
}

// Entry is a program of the working corpus.
type Entry struct {
	Case     uint64          `json:"case"`
	Kind     bpf.Kind        `json:"kind"`
	Program  bpf.Program     `json:"program"`
	Features engine.Features `json:"features,omitempty"` // what was new, where it was found
}

// Finding is a divergence.
type Finding struct {
	Target string     `json:"target"`
	Rule   string     `json:"rule"`
	How    judge.Kind `json:"how"`

	Case    uint64          `json:"case"`
	Count   uint64          `json:"count"` // programs with that signature that were judged
	Kind    bpf.Kind        `json:"kind"`
	Program bpf.Program     `json:"program"`
	Input   kernelabi.Input `json:"input"`
	Want    string          `json:"want"`
	Got     string          `json:"got"`
}

// Unreproduced is the rule of a finding that the judge did not see when it ran
// program and input alone: the fault depends on what ran before, and is either
// one of kjit's own or that of a JIT with a memory.
const Unreproduced = "unreproduced"

// Signature is the finding's name.
func (f *Finding) Signature() judge.Signature {
	return judge.Signature{Runner: f.Target, Rule: f.Rule, Kind: f.How}
}

// UnmarshalJSON reads the input as one of the program's kind.
func (f *Finding) UnmarshalJSON(data []byte) error {
	type plain Finding
	in := struct {
		*plain
		Input json.RawMessage `json:"input"`
	}{plain: (*plain)(f)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if f.Kind == bpf.Seccomp {
		f.Input = new(kernelabi.Syscall)
	} else {
		f.Input = new(kernelabi.Skb)
	}
	return json.Unmarshal(in.Input, f.Input)
}

// ParseResult reads a result from wherever and validates it.
func ParseResult(data []byte, c *Settings) (*Result, error) {
	if len(data) > MaxResult {
		return nil, fmt.Errorf("a result of %d bytes: at most %d", len(data), MaxResult)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	r := new(Result)
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("no result: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("no result: there is something behind it")
	}
	return r, r.Validate(c)
}

// Validate returns an error unless r can be a result of a campaign with those
// settings. Whether it is the right one only a run of its range can tell.
func (r *Result) Validate(c *Settings) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("result of range %d: %s", r.Range, fmt.Sprintf(format, args...))
	}
	size, targets := uint64(c.Size), len(c.JITs)
	most := size * uint64(c.Inputs)
	switch {
	case r.Range > (1<<62)/size:
		return bad("there is no such range")
	case r.Programs != size:
		return bad("%d programs, want %d", r.Programs, size)
	case r.Insns > size*bpf.MaxInsns:
		return bad("%d instructions", r.Insns)
	case r.Inputs > most || r.Pairs > r.Inputs*uint64(targets):
		return bad("%d inputs, %d pairs", r.Inputs, r.Pairs)
	case len(r.Targets) != targets:
		return bad("%d targets, want %d", len(r.Targets), targets)
	case len(r.Opcodes) > 0 && r.Opcodes[len(r.Opcodes)-1] > maxOpcode:
		return bad("there is no opcode %d", r.Opcodes[len(r.Opcodes)-1])
	case len(r.Values) > maxValues:
		return bad("%d values", len(r.Values))
	case len(r.Corpus) > MaxEntries:
		return bad("%d programs for the corpus", len(r.Corpus))
	case len(r.Findings) > MaxFindings:
		return bad("%d findings", len(r.Findings))
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		for _, n := range []uint64{t.Agree, t.Diverge, t.Undefined, t.NotRun} {
			if n > r.Inputs {
				return bad("%s: %d of %d inputs", c.JITs[i], n, r.Inputs)
			}
		}
		if t.Agree+t.Diverge+t.Undefined+t.NotRun != r.Inputs || t.Programs > size || t.Judged > size*uint64(len(judge.Kinds())) {
			return bad("%s: its counts do not add up", c.JITs[i])
		}
		if len(t.Why) > maxText {
			return bad("%s: a reason of %d bytes", c.JITs[i], len(t.Why))
		}
	}
	for _, v := range r.Values {
		if v.Count > r.Inputs {
			return bad("value %d: %d of %d inputs", v.Value, v.Count, r.Inputs)
		}
	}
	if err := r.Coverage.Validate(targets); err != nil {
		return bad("coverage: %v", err)
	}
	for i := range r.Corpus {
		e := &r.Corpus[i]
		if err := r.checkProgram(c, e.Case, e.Kind, e.Program); err != nil {
			return bad("corpus %d: %v", i, err)
		}
		if err := e.Features.Validate(targets); err != nil {
			return bad("corpus %d: %v", i, err)
		}
	}
	seen := map[judge.Signature]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		err := r.checkProgram(c, f.Case, f.Kind, f.Program)
		switch {
		case err != nil:
			return bad("finding %d: %v", i, err)
		case seen[f.Signature()]:
			return bad("%s is there twice", f.Signature())
		case !slices.Contains(c.JITs, f.Target), !slices.Contains(judge.Kinds(), f.How), f.Rule == "",
			len(f.Rule) > maxText, len(f.Want) > maxText, len(f.Got) > maxText, f.Count == 0, f.Count > size:
			return bad("finding %d: it is no finding of this campaign", i)
		}
		if err := checkInput(f.Kind, f.Input); err != nil {
			return bad("finding %d: %v", i, err)
		}
		seen[f.Signature()] = true
	}
	return nil
}

// checkProgram returns what is wrong with a program of the range. That all
// kernels' checkers accept it whoever runs it finds out.
func (r *Result) checkProgram(c *Settings, at uint64, kind bpf.Kind, prog bpf.Program) error {
	switch {
	case at/uint64(c.Size) != r.Range:
		return fmt.Errorf("case %d is not of the range", at)
	case kind != bpf.Socket && kind != bpf.Seccomp:
		return fmt.Errorf("there is no kind %d", kind)
	}
	var err error
	for _, rules := range bpf.AllRules() {
		if err = bpf.Check(prog, kind, rules); err == nil {
			return nil
		}
	}
	return err
}

func checkInput(kind bpf.Kind, input kernelabi.Input) error {
	switch in := input.(type) {
	case *kernelabi.Skb:
		if kind == bpf.Socket {
			return in.Check()
		}
	case *kernelabi.Syscall:
		if kind == bpf.Seccomp {
			return nil
		}
	}
	return fmt.Errorf("a %T is no input for a %s filter", input, kind)
}

// cut bounds a text.
func cut(text string) string {
	if len(text) > maxText {
		text = text[:maxText-3] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
