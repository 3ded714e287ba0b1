package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/kernelabi"
)

// Image runs code that some kernel's own JIT made, in the emulator under the
// profile of that kernel. It runs whatever program it is given as that code: to
// know that the code was made of the program is up to the caller.
type Image struct {
	name string
	img  *kernelabi.Image
	guest
}

// FeatureError is an image with instructions that its profile's processor does
// not have.
type FeatureError struct {
	Profile *kernelabi.Profile
	Lacks   []string
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("the image needs %s, which the processor of profile %s does not have: choose another with --profile",
		strings.Join(e.Lacks, " and "), e.Profile.Name)
}

// NewImage returns the runner for img, which has a profile, with options for its
// machine. Errors: a *FeatureError. Bytes that are no code are not an error
// here: they run, and fault.
func NewImage(name string, img *kernelabi.Image, options ...emulator.Option) (*Image, error) {
	lacks, err := img.Lacks()
	var code *kernelabi.CodeError
	if err != nil && !errors.As(err, &code) {
		return nil, err
	}
	if len(lacks) > 0 {
		return nil, &FeatureError{img.Profile, lacks}
	}
	return &Image{name: name, img: img, guest: guest{options: options}}, nil
}

func (r *Image) Name() string                { return r.name }
func (r *Image) Profile() *kernelabi.Profile { return r.img.Profile }
func (r *Image) Close() error                { return r.guest.close() }

// Image returns the image, whatever the program.
func (r *Image) Image(bpf.Program, bpf.Kind) (*kernelabi.Image, error) { return r.img, nil }

// Run executes the image on the inputs, whatever the program.
func (r *Image) Run(_ bpf.Program, _ bpf.Kind, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	if err := r.load(); err != nil {
		return out, err
	}
	return r.guest.run(r.img.Profile, r.img, inputs, out)
}

// load puts the image into the emulated kernel. Unlike the images of kjit's own
// emitters it is looked through first: nobody knows who made it.
func (r *Image) load() error {
	if r.guest.loaded != r.img {
		if err := r.img.Privileged(); err != nil {
			return err
		}
	}
	return r.guest.load(r.img.Profile, r.img)
}

// MissingError is an image that calls what is not emulated.
type MissingError struct{ Routines []string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the image calls %s, which the emulator does not have", strings.Join(e.Routines, " and "))
}

// Prepare starts the emulated kernel and loads the image, which Run otherwise
// does. It returns why that cannot be done; a *MissingError is what Run would
// not notice before the call.
func (r *Image) Prepare() error {
	if err := r.load(); err != nil {
		return err
	}
	refs, err := r.img.References()
	if err != nil {
		return nil // no code at all: it will fault
	}
	var missing []string
	for _, name := range r.guest.machine.Missing() {
		if slices.ContainsFunc(refs, func(ref kernelabi.Reference) bool { return ref.Target == r.img.Profile.Symbols[name] }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return &MissingError{missing}
	}
	return nil
}

// Switch makes r run another image. What the emulated kernel has in common with
// that of the image before is kept.
func (r *Image) Switch(img *kernelabi.Image) error {
	next, err := NewImage(r.name, img)
	if err != nil {
		return err
	}
	r.img = next.img
	return nil
}
