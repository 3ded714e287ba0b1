package verify

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// cleanProfiles are held to the correct result on every record.
var cleanProfiles = map[kernelabi.Arch][]string{
	kernelabi.X86_64: {"linux-3.10-x86_64", "inline-x86_64"},
	kernelabi.ARMv5:  {"kjit-armv5"},
	kernelabi.ARMv7:  {"kjit-armv7", "kjit-armv7-idiv"},
}

// mutantArchs says which architectures a record's arch stands for.
var mutantArchs = map[string][]kernelabi.Arch{
	"x86_64": {kernelabi.X86_64},
	"arm":    {kernelabi.ARMv5, kernelabi.ARMv7},
	"any":    {kernelabi.X86_64, kernelabi.ARMv5, kernelabi.ARMv7},
}

// checkMutant runs the record's program on its packet, on every architecture
// that it is for: under each profile whose outcome was measured, and under the
// correct ones. Each architecture is a check of its own.
func checkMutant(c *Checker, rec *kernelabi.MutantRecord) []error {
	archs, ok := mutantArchs[rec.Arch]
	if !ok {
		return []error{&invalidRecord{fmt.Errorf("arch %q: want x86_64, arm or any", rec.Arch)}}
	}
	var errs []error
	for _, arch := range archs {
		errs = append(errs, checkMutantOn(c, rec, arch))
	}
	return errs
}

func checkMutantOn(c *Checker, rec *kernelabi.MutantRecord, arch kernelabi.Arch) error {
	var errs []error
	asked := false
	if err := checkWant(rec, cleanProfiles[arch][0]); err != nil {
		errs = append(errs, fmt.Errorf("interpreter: %w", err))
	}
	for _, kernel := range slices.Sorted(maps.Keys(rec.Measured)) {
		profile, ok := kernelProfiles[kernel][arch]
		measured, has := rec.Measured[kernel][string(arch)]
		if !ok || !has || !c.wants(profile) {
			continue
		}
		asked = true
		got, err := c.outcome(profile, rec.Program, rec.Input, true)
		if err == nil {
			err = sameOutcome(measured, rec.Want, got)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", profile, err))
		}
	}
	for _, profile := range cleanProfiles[arch] {
		if !c.wants(profile) {
			continue
		}
		asked = true
		got, err := c.outcome(profile, rec.Program, rec.Input, false)
		if err == nil && (got.Kind != harness.Value || got.Value != rec.Want || got.Broken != 0) {
			err = fmt.Errorf("gives %s, want %d", got, rec.Want)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", profile, err))
		}
	}
	if !asked {
		return notAmongJITs
	}
	return errors.Join(errs...)
}

// checkWant holds the reference itself to the record, with the rules and
// semantics of a correct profile: a record may use codes that the oldest
// kernel's checker refuses.
func checkWant(rec *kernelabi.MutantRecord, profile string) error {
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		return err
	}
	outs, err := harness.NewInterpreter(p).Run(rec.Program, bpf.Socket, []kernelabi.Input{rec.Input}, nil)
	if err != nil {
		return err
	}
	if outs[0].Kind != harness.Value || outs[0].Value != rec.Want {
		return fmt.Errorf("gives %s, want %d", outs[0], rec.Want)
	}
	return nil
}

// outcome runs a record's program on its input in a profile, for measured outcomes
// or for those that a correct kernel has.
func (c *Checker) outcome(profile string, prog bpf.Program, input kernelabi.Input, measured bool) (harness.Outcome, error) {
	r, err := c.machines.runner(profile, measured)
	if err != nil {
		return harness.Outcome{}, err
	}
	outs, err := r.Run(prog, harness.KindOf(input), []kernelabi.Input{input}, nil)
	if err != nil {
		return harness.Outcome{}, err
	}
	return outs[0], nil
}

// sameOutcome compares an outcome with a measured one. Values have to be equal,
// and so has the kind of everything else. A crash is any fault.
func sameOutcome(measured kernelabi.Measured, want uint32, got harness.Outcome) error {
	ok := false
	switch measured.Outcome {
	case "value":
		ok = got.Kind == harness.Value && measured.Value != nil && got.Value == uint32(*measured.Value) && got.Broken == 0
	case "crash":
		ok = got.Kind == harness.Fault
	case "int3":
		ok = got.Kind == harness.Fault && got.Fault.Kind == emulator.Breakpoint
	case "endless-loop":
		ok = got.Kind == harness.Timeout
	case "nojit", "fatal-error":
		ok = got.Kind == harness.Refused
	case "einval":
		ok = got.Kind == harness.Rejected
	default:
		return &invalidRecord{fmt.Errorf("measured outcome %q is unknown", measured.Outcome)}
	}
	if ok {
		return nil
	}
	text := measured.Outcome
	if measured.Value != nil {
		text = fmt.Sprintf("value %#x", uint64(*measured.Value))
	}
	return fmt.Errorf("gives %s, the kernel's own code gave: %s (a correct one gives %d)", got, text, want)
}
