package imagefile

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Placing is what a file does not say of an image, or what the user knows
// better.
type Placing struct {
	// Profile is nil for the record's kernel. To another one go the symbols and
	// the layout of the record.
	Profile *kernelabi.Profile
	Symbols *kernelabi.SymbolTable // nil: the record's symbols, or the profile's
	Base    *uint64                // nil: as the file says, or solved

	// Layout is that of the kernel, where it is known better than from the
	// profile; nil: the profile's, unless the code's first loads say otherwise.
	Layout kernelabi.Layout
	// Fields are single fields of the layout that are known better still, named
	// as kernelabi.Layout.With takes them.
	Fields map[string]int

	// Program is what the image was made of, if that is known: it helps to find
	// the base. A record has its own.
	Program bpf.Program
	Kind    bpf.Kind
}

// Image returns the image ready to run: at its base, with its profile, whose
// symbols are those that the code refers to. Without a base that anybody knows,
// and with nothing in the code that depends on it, it is placed where the
// profile has its images.
//
// Errors: *Error when no profile is given or the record is a refusal,
// *kernelabi.ArchError, *kernelabi.CodeError, *kernelabi.UnresolvedError, *kernelabi.NoBaseError,
// *kernelabi.AmbiguousBaseError.
func (e *Entry) Image(p Placing) (*kernelabi.Image, error) {
	if e.Record != nil && e.Code == nil {
		return nil, &Error{e.File, e.Line, fmt.Sprintf("record %s has no image: the kernel refused the program with errno %d", e.Name, e.Record.Errno)}
	}
	if e.Record != nil {
		p.Program, p.Kind = e.Record.Program, e.Record.Kind
		own, err := e.Record.Profile()
		switch {
		case p.Profile != nil:
			p.Profile = p.Profile.WithLayout(e.Record.Layout).WithSymbols(e.Record.Addresses())
		case err != nil:
			return nil, &Error{e.File, e.Line, err.Error()}
		default:
			p.Profile = own
		}
	}
	if p.Profile == nil {
		return nil, &Error{e.File, e.Line, fmt.Sprintf("a %s does not say what kernel the code is for: name its profile", e.Form)}
	}
	symbols := p.Symbols
	if symbols == nil {
		symbols = kernelabi.NewSymbolTable(p.Profile.Symbols)
	}
	img := &kernelabi.Image{
		Code: e.Code, Base: p.Profile.Base, Profile: p.Profile,
		Origin: e.String(), Insns: e.Insns, Pass: e.Pass,
	}
	if err := img.Mislabelled(); err != nil {
		return nil, err
	}
	e.findLayout(img, p.Layout)
	img.Profile = img.Profile.WithLayout(p.Fields)
	if err := e.findBase(img, p, symbols); err != nil {
		return nil, err
	}
	found, err := symbols.Resolve(img)
	if err != nil {
		return nil, err
	}
	profile := *img.Profile
	if profile.Emitter == "" {
		profile.Symbols = found
	} else {
		// Old images refer to more than code: the processor number.
		profile.Symbols = maps.Clone(profile.Symbols)
		maps.Copy(profile.Symbols, found)
	}
	img.Profile = &profile
	return img, nil
}

// findLayout gives the image's profile another layout if there is reason to. A
// kernel whose code reads the packet's length elsewhere than the profile has it
// is another kernel: nothing else is known of its structs then.
func (e *Entry) findLayout(img *kernelabi.Image, known kernelabi.Layout) {
	profile := *img.Profile
	switch found, ok := img.InferLayout(); {
	case known != nil:
		profile.Layout = known
	case !ok || e.Record != nil || profile.Emitter != "" || covers(profile.Layout, found):
		return
	default:
		profile.Layout = found
	}
	img.Profile = &profile
}

// covers reports whether a layout has all the fields of another, where they are.
func covers(layout, other kernelabi.Layout) bool {
	for field, off := range other {
		if at, ok := layout[field]; !ok || at != off {
			return false
		}
	}
	return true
}

// findBase sets the image's base.
func (e *Entry) findBase(img *kernelabi.Image, p Placing, symbols *kernelabi.SymbolTable) error {
	set := func(base uint64) error {
		img.Base, img.BaseKnown = base, true
		return nil
	}
	switch {
	case p.Base != nil:
		return set(*p.Base)
	case e.Printed != 0 && !(e.Form == Log && p.Profile.LogsCopy):
		return set(e.Printed)
	case p.Profile.Arch != kernelabi.X86_64:
		return nil // calls are to absolute addresses
	}
	printed := uint64(0)
	if e.Form == Log {
		// Whatever the profile says: a place where all calls lead somewhere is
		// the right one.
		printed = e.Printed
		there := *img
		there.Base = printed
		if found, err := symbols.Resolve(&there); err == nil && len(found) > 0 {
			return set(printed)
		}
	}
	base, err := kernelabi.SolveBase(img, p.Program, p.Kind, symbols, printed)
	var none *kernelabi.NoBaseError
	switch {
	case err == nil:
		return set(base)
	case errors.As(err, &none) && none.NoCalls:
		return nil
	}
	return err
}
