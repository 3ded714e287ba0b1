package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// checkKernelImage holds checker, interpreter and the recorded image to what a
// record of a running kernel says.
func checkKernelImage(c *Checker, rec *kernelabi.KernelImageRecord) error {
	p, err := rec.Profile()
	if err != nil {
		return &invalidRecord{err}
	}
	if rec.Errno == int(kernelabi.EINVAL) {
		if err := bpf.Check(rec.Program, rec.Kind, p.Rules); err == nil {
			return fmt.Errorf("the kernel's checker refuses the program, kjit's accepts it")
		}
		return nil
	}
	want, err := harness.NewInterpreter(p).Run(rec.Program, rec.Kind, rec.Inputs, nil)
	if err != nil {
		return err
	}
	var wrong differences
	for i, w := range want {
		if w.Kind != harness.Value || w.Value != rec.Results[i] {
			wrong.add(i, "the interpreter gives %s, the record has %d", w, rec.Results[i])
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	if rec.Image == nil {
		// The kernel's JIT gave up, here there is none: the checker and the
		// results are all that can be judged.
		return bpf.Check(rec.Program, rec.Kind, p.Rules)
	}
	img, err := rec.Code()
	if err != nil {
		return &invalidRecord{err}
	}
	if err := checkRecordedCode(rec, img); err != nil {
		return err
	}
	got, err := c.runRecorded(rec, img)
	if err != nil {
		return err
	}
	return compareRecorded(rec, want, got)
}

// checkRecordedCode compares what the record says of the image's bytes with
// what is in them: where it goes, and what processor it needs.
func checkRecordedCode(rec *kernelabi.KernelImageRecord, img *kernelabi.Image) error {
	if err := img.Mislabelled(); err != nil {
		return err
	}
	if _, err := kernelabi.NewSymbolTable(img.Profile.Symbols).Resolve(img); err != nil {
		return err
	}
	needs, err := img.Needs()
	if err != nil {
		return err
	}
	if rec.CPU == nil {
		return nil
	}
	stated := slices.DeleteFunc(slices.Sorted(slices.Values(rec.CPU.Features)), func(name string) bool {
		return !slices.Contains(kernelabi.NeedNames, name)
	})
	if !slices.Equal(needs, stated) {
		return fmt.Errorf("the image has instructions of %q, the record says %q", needs, rec.CPU.Features)
	}
	return nil
}

// runRecorded executes the record's image on its inputs.
func (c *Checker) runRecorded(rec *kernelabi.KernelImageRecord, img *kernelabi.Image) ([]harness.Outcome, error) {
	// Symbols that this image does not need are no harm, and let records of one
	// kernel share a machine.
	if full, err := kernelabi.ProfileByName(img.Profile.Name); err == nil {
		img.Profile = img.Profile.WithSymbols(full.WithSymbols(img.Profile.Symbols).Symbols)
	}
	runner, err := c.machines.foreign(img)
	if err != nil {
		return nil, err
	}
	return runner.Run(rec.Program, rec.Kind, rec.Inputs, nil)
}

// compareRecorded compares what the image gave with what the record says it
// gives. A known divergence must be of the one class that the language leaves
// open.
func compareRecorded(rec *kernelabi.KernelImageRecord, want, got []harness.Outcome) error {
	results := rec.Results
	if rec.KnownDivergence {
		results = rec.ImageResults
	}
	var wrong differences
	diverges := false
	for i, g := range got {
		if g.Kind != harness.Value || g.Broken != 0 || g.Value != results[i] {
			wrong.add(i, "the image gives %s, the record has %d", g, results[i])
			continue
		}
		if verdict := harness.Compare(want[i], g); verdict == harness.Undefined {
			diverges = true
		} else if verdict != harness.Agree {
			wrong.add(i, "the image gives %s, the interpreter %s", g, want[i])
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	if diverges != rec.KnownDivergence {
		return errors.New("the record marks a known divergence, but there is none")
	}
	return nil
}

// differences are those of a record's inputs.
type differences []string

func (d *differences) add(input int, format string, args ...any) {
	*d = append(*d, fmt.Sprintf("input %d: ", input)+fmt.Sprintf(format, args...))
}

// err joins the first few.
func (d differences) err() error {
	if len(d) == 0 {
		return nil
	}
	const limit = 4
	lines := d
	if len(lines) > limit {
		lines = append(slices.Clone(lines[:limit]), fmt.Sprintf("and %d more inputs", len(d)-limit))
	}
	return errors.New(strings.Join(lines, "\n"))
}
