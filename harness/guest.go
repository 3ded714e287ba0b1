package harness

import (
	"errors"
	"maps"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/kernelabi"
)

// guest is an emulated kernel that is started when the first image comes, and
// anew when an image comes that was made for another one.
type guest struct {
	options []emulator.Option
	machine *emulator.Machine
	profile *kernelabi.Profile // what it was made for, but for the base
	loaded  *kernelabi.Image
	results []emulator.Result
}

// run executes img under profile on every input and appends the outcomes.
func (g *guest) run(profile *kernelabi.Profile, img *kernelabi.Image, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	if err := g.load(profile, img); err != nil {
		return out, err
	}
	var err error
	if g.results, err = g.machine.Run(inputs, g.results[:0]); err != nil {
		return out, err
	}
	for i := range g.results {
		out = append(out, OutcomeOf(&g.results[i]))
	}
	return out, nil
}

func (g *guest) load(profile *kernelabi.Profile, img *kernelabi.Image) error {
	if g.machine != nil && g.loaded == img && g.profile == profile {
		return nil
	}
	g.loaded = nil
	if g.machine != nil && (g.profile == profile || sameKernel(g.profile, profile)) {
		if g.machine.Load(img) == nil {
			g.loaded = img
			return nil
		}
		// Something may be in its way that is elsewhere in a machine made for it.
	}
	g.close()
	m, err := emulator.New(profile.WithBase(img.Base), g.options...)
	if err != nil {
		return err
	}
	g.machine, g.profile = m, profile
	if err := m.Load(img); err != nil {
		return err
	}
	g.loaded = img
	return nil
}

// sameKernel reports whether code made for b runs in a machine made for a.
func sameKernel(a, b *kernelabi.Profile) bool {
	return a.Arch == b.Arch && a.Features == b.Features && a.Semantics == b.Semantics && a.LoadHelpers == b.LoadHelpers &&
		maps.Equal(a.Symbols, b.Symbols) && maps.Equal(a.Layout, b.Layout)
}

// Attribution tells where the instructions went that the program or image which ran
// last has executed since it was loaded. The runner must have been made with
// emulator.WithAttribution, and have run something.
func (g *guest) Attribution() (emulator.Attribution, error) {
	if g.machine == nil {
		return emulator.Attribution{}, errors.New("nothing ran yet")
	}
	return g.machine.Attribution()
}

func (g *guest) close() error {
	if g.machine == nil {
		return nil
	}
	m := g.machine
	g.machine = nil
	return m.Close()
}

// machineOptions are those that the machine was made with.
func (g *guest) machineOptions() []emulator.Option { return g.options }
