package harness

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
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

// NewImage returns the runner for img, which has a profile. Errors: a
// *FeatureError. Bytes that are no code are not an error here: they run, and
// fault.
func NewImage(name string, img *kernelabi.Image) (*Image, error) {
	lacks, err := img.Lacks()
	var code *kernelabi.CodeError
	if err != nil && !errors.As(err, &code) {
		return nil, err
	}
	if len(lacks) > 0 {
		return nil, &FeatureError{img.Profile, lacks}
	}
	return &Image{name: name, img: img}, nil
}

func (r *Image) Name() string                { return r.name }
func (r *Image) Profile() *kernelabi.Profile { return r.img.Profile }
func (r *Image) Close() error                { return r.guest.close() }

// Image returns the image, whatever the program.
func (r *Image) Image(bpf.Program, bpf.Kind) (*kernelabi.Image, error) { return r.img, nil }

// Run executes the image on the inputs, whatever the program.
func (r *Image) Run(_ bpf.Program, _ bpf.Kind, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	return r.guest.run(r.img.Profile, r.img, inputs, out)
}

// Prepare starts the emulated kernel and loads the image, which Run otherwise
// does. It returns why that cannot be done.
func (r *Image) Prepare() error { return r.guest.load(r.img.Profile, r.img) }

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
