// Package repro keeps divergences as files that people read and kjit runs again:
// text archives (txtar) with a program, an input, the JIT, what was expected and
// what came.
//
// In front are lines of "key: value", and lines that begin with # for people:
//
//	jit         what ran it, as kjit replay --jit takes it, or image:PROFILE
//	kind        socket or seccomp (default socket)
//	expect      diverge: it still does; agree: it is mended (default diverge)
//	divergence  value, fault, timeout, broken, refusal, rejected, undefined, failed
//	rule        what was compiled wrongly: and-k, ldh-ind, vlan_tci, entry-x
//	accesses    checked: memory accesses were looked at
//	want, got   the outcomes, for people; how: where they part
//	found       how it was found
//
// The files are: program, in any text form; input.json; for images of real
// kernels image.json, a record as kjit jit --json prints; and for people
// place.txt, where they part with the registers there, and listing.txt, the
// program and its machine code side by side.
package repro

import (
	"bytes"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// Extension ends the names of the files.
const Extension = ".txtar"

// ImagePrefix in front of a profile's name is the JIT of a repro that has its
// image with it.
const ImagePrefix = "image:"

// Expect says what is right when a repro is run again.
type Expect string

const (
	Diverge Expect = "diverge" // the divergence still shows
	Agree   Expect = "agree"   // the runner does what the reference does
)

// Repro is one divergence as a file holds it.
type Repro struct {
	JIT        string // "linux-3.0-x86_64", "mutant:arm-rsh0", "exec:COMMAND", "image:linux-6.18-x86_64"
	Kind       bpf.Kind
	Expect     Expect
	Divergence judge.Kind
	Rule       string
	Accesses   bool // the machine looked at accesses ([emulator.WithAccessChecks])

	// For people; lines without a line end.
	Want, Got, How, Found string
	Comments              []string

	Program bpf.Program
	Input   kernelabi.Input
	Image   *kernelabi.JITRecord // for ImagePrefix

	Place, Listing string // texts for people
}

// New returns the repro of a divergence. The runner's name is taken for what
// kjit replay --jit takes; where it is not, as with plugins, JIT is to be set.
// The image of an imported one comes along.
func New(d *judge.Divergence) *Repro {
	r := &Repro{
		JIT: d.Runner, Kind: d.ProgramKind, Expect: Diverge, Divergence: d.Kind, Rule: d.Rule,
		Want: d.Want.String(), Got: d.Got.Long(), Program: d.Program, Input: d.Input,
		Comments: []string{"kjit replay FILE runs this again; in corpus/findings it is a test."},
	}
	if d.Got.Why != "" {
		r.How = oneLine(d.Got.Why)
	}
	if d.Place == nil {
		return r
	}
	p := d.Place
	r.How = p.Story()
	var text bytes.Buffer
	p.Print(&text)
	r.Place = text.String()
	if !p.Image.Unfilled { // nothing is known of its bytes
		text.Reset()
		listing.SideBySide(&text, p.Program, p.Image, nil, func(offset int) bool { return offset == p.Offset })
		r.Listing = text.String()
	}
	if strings.HasPrefix(r.JIT, ImagePrefix) {
		r.Image = kernelabi.NewJITRecord("image", p.Program, p.Kind, p.Image.Profile, p.Image, nil)
		r.JIT = ImagePrefix + p.Image.Profile.Name
	}
	return r
}

// Signature returns the name of the divergence.
func (r *Repro) Signature() judge.Signature {
	return judge.Signature{Runner: r.JIT, Rule: r.Rule, Kind: r.Divergence}
}

// Name is a file name for r: the same for all of its signature.
func (r *Repro) Name() string { return r.Signature().String() + Extension }

// oneLine keeps a text from beginning another line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
