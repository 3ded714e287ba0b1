package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

type jitCmd struct {
	Program string            `arg:"" optional:"" help:"Program file in any form, -, corpus:NAME, FILE.txtar for that of a recorded divergence, or a filter expression."`
	JIT     string            `name:"jit" default:"linux-3.10-x86_64" placeholder:"NAME" help:"JIT that compiles it, or exec:COMMAND for one of your own (default ${default})."`
	Form    string            `enum:"log,hex,list" default:"log" help:"log: as the kernel logs images; hex: bytes alone; list: BPF and native side by side (${default})."`
	Base    string            `placeholder:"ADDRESS" help:"Address of the image (hex)."`
	Symbol  map[string]string `placeholder:"NAME=ADDRESS" help:"Address of a kernel symbol (hex; repeatable)."`
	Layout  map[string]string `placeholder:"FIELD=OFFSET" help:"Offset of a struct field, such as len=0x60 (repeatable)."`
	Kind    string            `placeholder:"KIND" help:"What the program is attached to: socket or seccomp (default: as the program says, or socket)."`
	Profile string            `placeholder:"NAME" help:"Kernel that a JIT exec:COMMAND emits for (default: what it says, or linux-3.10-x86_64)."`
	List    bool              `help:"List the JITs and exit."`
	DLT     string            `name:"dlt" default:"EN10MB" placeholder:"TYPE" help:"Link type for filter expressions (default ${default})."`
	pluginFlags
}

func (c *jitCmd) Run(ctx context.Context, std streams, global *cli) error {
	if c.List {
		return listJITs(std, global)
	}
	if c.Program == "" {
		return badInput(errors.New("no program: name a file, - for standard input, corpus:NAME, or a filter expression"))
	}
	runner, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer runner.Close()
	profile := runner.Profile()
	prog, err := loadProgram(ctx, c.Program, c.DLT, std.in)
	if err != nil {
		return err
	}
	kind, err := chooseKind(c.Kind, prog, &inputSet{})
	if err != nil {
		return err
	}
	img, err := runner.Image(prog.Program, kind)
	var (
		refusal *kernelabi.Refusal
		failure *harness.Failure
	)
	switch {
	case errors.As(err, &failure):
		return &codedError{fmt.Errorf("%s: %s: %w", prog.Name, runner.Name(), err), exitDiverged, false}
	case errors.As(err, &refusal):
		// What the kernel would do: interpret, without a word. Here it is the
		// answer to the question that was asked.
		err = told(fmt.Errorf("%s: %s: %w", prog.Name, runner.Name(), err), exitDiverged)
	case err != nil:
		return badInput(fmt.Errorf("%s: %w", prog.Name, err))
	}
	if global.JSON {
		rec := kernelabi.NewJITRecord(prog.Name, prog.Program, kind, profile, img, refusal)
		if usesPlugin(c.JIT) {
			rec.External(runner.Name())
		}
		return errors.Join(json.NewEncoder(std.out).Encode(rec), err)
	}
	if err != nil {
		return err
	}
	c.remark(img, std.err)
	switch c.Form {
	case "hex":
		_, err = fmt.Fprintf(std.out, "%x\n", img.Code)
	case "list":
		listing.SideBySide(std.out, prog.Program, img, nil, nil)
	default:
		err = listing.KernelLog(std.out, img)
	}
	return err
}

// jitProfiles are the profiles that something emits code for.
func jitProfiles() []*kernelabi.Profile {
	return slices.DeleteFunc(kernelabi.Profiles(), func(p *kernelabi.Profile) bool { return p.Emitter == "" })
}

// allJITs names the JITs that kjit has.
func allJITs() []string {
	var names []string
	for _, p := range jitProfiles() {
		names = append(names, p.Name)
	}
	return names
}

// jitProfile finds the profile of a JIT that kjit has.
func jitProfile(name string) (*kernelabi.Profile, error) {
	p, err := harness.ProfileByName(name)
	switch {
	case err == nil && p.Emitter != "":
		return p, nil
	case strings.HasPrefix(name, harness.MutantPrefix):
		return nil, fmt.Errorf("--jit: %w", err)
	}
	return nil, fmt.Errorf("--jit: no JIT %q: there are %s, and mutants (kjit jit --list)", name, strings.Join(allJITs(), ", "))
}

// listJITs prints the profiles that something emits code for, and then those
// whose emitters have a fault on purpose.
func listJITs(std streams, global *cli) error {
	if err := listProfiles(std, global, jitProfiles(), false); err != nil {
		return err
	}
	if !global.JSON {
		fmt.Fprintf(std.out, "\nmutants: one fault that kernels had, put into a JIT that does not have it (NAME@JIT chooses another JIT)\n")
	}
	return listProfiles(std, global, harness.Mutants(), true)
}

func listProfiles(std streams, global *cli, profiles []*kernelabi.Profile, mutants bool) error {
	width := 0
	for _, p := range profiles {
		width = max(width, len(p.Name))
	}
	for _, p := range profiles {
		if !global.JSON {
			fmt.Fprintf(std.out, "%-*s  %s\n", width, p.Name, p.Summary)
			continue
		}
		err := json.NewEncoder(std.out).Encode(struct {
			Name    string         `json:"name"`
			Arch    kernelabi.Arch `json:"arch"`
			Summary string         `json:"summary"`
			Mutant  bool           `json:"mutant,omitempty"`
		}{p.Name, p.Arch, p.Summary, mutants})
		if err != nil {
			return err
		}
	}
	return nil
}

// remark tells on stderr what a reader of the bytes alone would not see.
func (c *jitCmd) remark(img *kernelabi.Image, stderr io.Writer) {
	for _, note := range img.Notes {
		fmt.Fprintf(stderr, "kjit: %s\n", note)
	}
	if img.Unfilled {
		fmt.Fprintln(stderr, "kjit: this kernel allocates the image and never writes it, and uses it all the same; its bytes are shown as cc")
	}
	refs, err := img.References()
	if err != nil {
		return // not a matter of symbols
	}
	for _, name := range slices.Sorted(maps.Keys(c.Symbol)) {
		addr := img.Profile.Symbols[name]
		if !slices.ContainsFunc(refs, func(r kernelabi.Reference) bool { return r.Target == addr }) && name != "cpu_number" {
			fmt.Fprintf(stderr, "kjit: --symbol %s: this image does not refer to it\n", name)
		}
	}
}

// open makes the runner of the JIT, for its profile with the addresses and
// offsets of the flags.
func (c *jitCmd) open(ctx context.Context) (harness.Imager, error) {
	if usesPlugin(c.JIT) {
		r, err := c.pluginFlags.open(ctx, c.JIT, c.Profile)
		if err != nil {
			return nil, err
		}
		p, err := c.adjust(r.Profile())
		if err != nil {
			r.Close()
			return nil, badInput(err)
		}
		r.For(p)
		return r, nil
	}
	if c.Profile != "" {
		return nil, badInput(fmt.Errorf("--profile is for a JIT %sCOMMAND: %s has its own", execPrefix, c.JIT))
	}
	p, err := jitProfile(c.JIT)
	if err == nil {
		p, err = c.adjust(p)
	}
	if err != nil {
		return nil, badInput(err)
	}
	r, err := harness.NewJIT(p)
	if err != nil {
		return nil, badInput(err)
	}
	return r, nil
}

// adjust returns the profile with the addresses and offsets of the flags.
func (c *jitCmd) adjust(p *kernelabi.Profile) (*kernelabi.Profile, error) {
	if c.Base != "" {
		base, err := parseAddress(c.Base)
		if err != nil {
			return nil, fmt.Errorf("--base: %w", err)
		}
		if base > math.MaxUint64-1<<20 {
			return nil, fmt.Errorf("--base %s: an image there would wrap around to address 0", c.Base)
		}
		if p.Arch != kernelabi.X86_64 && (base > math.MaxUint32 || base%4 != 0) {
			return nil, fmt.Errorf("--base %s: ARM code is at multiples of 4 below 4 GiB", c.Base)
		}
		p = p.WithBase(base)
	}
	symbols := map[string]uint64{}
	for name, text := range c.Symbol {
		if _, ok := p.Symbols[name]; !ok {
			return nil, fmt.Errorf("--symbol %s: code of %s refers to no such symbol, only to %s",
				name, p.Name, strings.Join(slices.Sorted(maps.Keys(p.Symbols)), ", "))
		}
		addr, err := parseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("--symbol %s: %w", name, err)
		}
		symbols[name] = addr
	}
	layout := map[string]int{}
	for field, text := range c.Layout {
		off, err := strconv.ParseUint(text, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("--layout %s: %q is not an offset: want a number up to 65535, such as 0x60", field, text)
		}
		layout[field] = int(off)
		if !p.Layout.Has(field) {
			return nil, fmt.Errorf("--layout %s: no such field, there are %s", field, strings.Join(p.Layout.Fields(), ", "))
		}
	}
	return p.WithSymbols(symbols).WithLayout(layout), nil
}

// parseAddress reads hex with or without 0x, as kernels print addresses.
func parseAddress(text string) (uint64, error) {
	addr, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a hex address of up to 64 bits", text)
	}
	return addr, nil
}
