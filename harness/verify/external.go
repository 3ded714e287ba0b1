package verify

import (
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// checkExternal judges what a JIT made that is neither a kernel's nor kjit's own.
// Its bytes are its own business: they are run on inputs for the program, and
// have to give what the interpreter gives.
func checkExternal(c *Checker, rec *kernelabi.JITRecord) error {
	if len(c.JITs) > 0 {
		return notAmongJITs
	}
	base, err := kernelabi.ProfileByName(rec.ProfileName)
	if err != nil {
		return &invalidRecord{err}
	}
	p := rec.Profile(base)
	check := bpf.Check(rec.Program, rec.Kind, p.Rules)
	if rec.Result == kernelabi.ResultInvalid {
		if check == nil {
			return errors.New("the record has a program that the checker refuses, kjit's accepts it")
		}
		return nil
	}
	if check != nil || rec.Image == nil {
		return check // a JIT may refuse what it likes
	}
	runner, err := c.machines.foreign(&kernelabi.Image{
		Code: *rec.Image, Base: p.Base, BaseKnown: rec.Base != nil, Profile: p, Origin: rec.Kernel, PCMap: rec.PCMap,
	})
	if err != nil {
		return err
	}
	inputs, err := harness.DefaultInputs(rec.Program, rec.Kind)
	if err != nil {
		return err
	}
	want, err := harness.NewInterpreter(p).Run(rec.Program, rec.Kind, inputs, nil)
	if err != nil {
		return err
	}
	got, err := runner.Run(rec.Program, rec.Kind, inputs, nil)
	if err != nil {
		return fmt.Errorf("the image cannot be run: %w", err)
	}
	var wrong differences
	for i, g := range got {
		if harness.Compare(want[i], g) == harness.Diverge {
			wrong.add(i, "the image gives %s, the interpreter %s", g, want[i])
		}
	}
	return wrong.err()
}
