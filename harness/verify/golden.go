package verify

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// kernelProfiles says which profile plays a kernel that records name, on which
// architecture.
var kernelProfiles = map[string]map[kernelabi.Arch]string{
	"linux-3.0.1":   {kernelabi.X86_64: "linux-3.0-x86_64"},
	"linux-3.10.99": {kernelabi.X86_64: "linux-3.10-x86_64"},
	"linux-3.12.9":  {kernelabi.ARMv5: "linux-3.12-armv5", kernelabi.ARMv7: "linux-3.12-armv7"},
	"linux-4.5":     {kernelabi.ARMv5: "linux-4.5-armv5", kernelabi.ARMv7: "linux-4.5-armv7"},
}

// publishedProfiles says the same for published images, by the form their note
// names.
var publishedProfiles = map[string]string{
	"linux-3.0 form":  "linux-3.0-x86_64",
	"linux-3.10 form": "linux-3.10-x86_64",
}

// checkGolden compiles the record's program as the record's kernel and compares
// image, result and pass number.
func checkGolden(c *Checker, rec *kernelabi.JITRecord) error {
	if rec.ProfileName != "" {
		return checkExternal(c, rec)
	}
	name, ok := kernelProfiles[rec.Kernel][rec.Arch]
	if rec.Kernel == "published" {
		name, ok = publishedProfiles[rec.Note]
	}
	if !ok {
		name = rec.Kernel // a record that kjit itself wrote
	}
	p, err := kernelabi.ProfileByName(name)
	if err != nil || p.Emitter == "" {
		return skipped(fmt.Sprintf("there is no emitter for %s on %s", rec.Kernel, rec.Arch))
	}
	if !c.wants(name) {
		return notAmongJITs
	}
	jit, err := harness.NewJIT(rec.Profile(p))
	if err != nil {
		return err
	}
	img, err := jit.Image(rec.Program, rec.Kind)
	result, why, err := jitResult(img, err)
	if err != nil {
		return err
	}
	switch {
	case result != rec.Result:
		return fmt.Errorf("result %s (%s), the record has %s%s", result, why, rec.Result, inParens(rec.Note))
	case img == nil:
		return sameReason(rec.Note, why)
	case rec.Image != nil && !bytes.Equal(img.Code, *rec.Image):
		return imageDiff(rec.Program, img, *rec.Image)
	case rec.Pass != 0 && img.Pass != rec.Pass:
		return fmt.Errorf("written in pass %d, the record has %d", img.Pass, rec.Pass)
	case noteFor(img) != mismatchNote(rec.Note):
		return fmt.Errorf("note %q, the record has %q", noteFor(img), rec.Note)
	}
	return nil
}

func inParens(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// jitResult is what became of a program, in the words of the records.
func jitResult(img *kernelabi.Image, err error) (result kernelabi.JITResult, why string, failure error) {
	var check *bpf.CheckError
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &check):
		return kernelabi.ResultInvalid, check.Error(), nil
	case errors.As(err, &refusal):
		return kernelabi.ResultNoJIT, refusal.Reason, nil
	case err != nil:
		return "", "", err
	case img.Unfilled:
		return kernelabi.ResultUnfilled, "allocated and never written", nil
	}
	return kernelabi.ResultOK, fmt.Sprintf("%d bytes", len(img.Code)), nil
}

// reasons maps the notes of refusals to the emitters' words for them.
var reasons = map[string]string{
	"fatal-error":                 "fatal error",
	"no-convergence-in-10-passes": "no convergence",
}

// sameReason compares why there is no image, where the record says why.
func sameReason(note, why string) error {
	if want, ok := reasons[note]; ok && !strings.Contains(why, want) {
		return fmt.Errorf("refused for another reason: %s; the record has %s", why, note)
	}
	return nil
}

const sizeMismatch = "size-mismatch-warning"

// noteFor is the record's note for what the emitter remarked.
func noteFor(img *kernelabi.Image) string {
	for _, note := range img.Notes {
		if strings.Contains(note, "size mismatch") {
			return sizeMismatch
		}
	}
	return ""
}

func mismatchNote(note string) string {
	if note == sizeMismatch {
		return note
	}
	return ""
}

// imageDiff shows the first instruction that differs.
func imageDiff(prog bpf.Program, img *kernelabi.Image, want []byte) error {
	at := 0
	for at < len(img.Code) && at < len(want) && img.Code[at] == want[at] {
		at++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "images differ from offset %#x on (%d bytes, the record has %d)", at, len(img.Code), len(want))
	show := func(title string, code []byte) {
		other := *img
		other.Code = code
		pc := img.PCAt(at)
		fmt.Fprintf(&b, "\n%s:\n", title)
		listing.SideBySide(&b, prog, &other, func(p, _ int) bool { return p == pc }, func(off int) bool { return off == at })
	}
	show("ours", img.Code)
	show("recorded", want)
	return errors.New(strings.TrimRight(b.String(), "\n"))
}
