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
var cleanProfiles = []string{"linux-3.10-x86_64", "inline-x86_64"}

// checkMutant runs the record's program on its packet under each profile whose
// outcome was measured, and under the correct ones. A record for any
// architecture is one check per architecture.
func checkMutant(c *Checker, rec *kernelabi.MutantRecord) []error {
	var errs []error
	if rec.Arch == "x86_64" || rec.Arch == "any" {
		errs = append(errs, checkMutantX86(c, rec))
	}
	if rec.Arch == "arm" || rec.Arch == "any" {
		errs = append(errs, skipped("there is no emulated ARM processor in this version"))
	}
	if errs == nil {
		errs = append(errs, &invalidRecord{fmt.Errorf("arch %q: want x86_64, arm or any", rec.Arch)})
	}
	return errs
}

func checkMutantX86(c *Checker, rec *kernelabi.MutantRecord) error {
	var errs []error
	if err := checkWant(rec); err != nil {
		errs = append(errs, fmt.Errorf("interpreter: %w", err))
	}
	for _, kernel := range slices.Sorted(maps.Keys(rec.Measured)) {
		profile, ok := kernelProfiles[kernel][kernelabi.X86_64]
		measured, has := rec.Measured[kernel][string(kernelabi.X86_64)]
		if !ok || !has {
			continue
		}
		got, err := c.outcome(profile, rec)
		if err == nil {
			err = sameOutcome(measured, rec.Want, got)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", profile, err))
		}
	}
	for _, profile := range cleanProfiles {
		got, err := c.outcome(profile, rec)
		if err == nil && (got.Kind != harness.Value || got.Value != rec.Want || got.Broken != 0) {
			err = fmt.Errorf("gives %s, want %d", got, rec.Want)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", profile, err))
		}
	}
	return errors.Join(errs...)
}

// checkWant holds the reference itself to the record.
func checkWant(rec *kernelabi.MutantRecord) error {
	// The reference of the newest profile: a record may use codes that the
	// oldest kernel's checker refuses.
	p, err := kernelabi.ProfileByName(cleanProfiles[0])
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

// outcome runs the record's program on its packet in a profile.
func (c *Checker) outcome(profile string, rec *kernelabi.MutantRecord) (harness.Outcome, error) {
	r, err := c.machines.runner(profile)
	if err != nil {
		return harness.Outcome{}, err
	}
	outs, err := r.Run(rec.Program, bpf.Socket, []kernelabi.Input{rec.Input}, nil)
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
