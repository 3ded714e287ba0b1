package main

import (
	"fmt"

	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

// profileFlags say how a profile (OCI, Docker) becomes a program. Commands that
// load filters embed them; programs are taken as they are.
type profileFlags struct {
	Layout    string   `placeholder:"NAME" default:"ranges" help:"Layout: linear, chain, tree, ranges, or best, which goes by the expected cost (${default})." group:"Profiles:"`
	Histogram string   `placeholder:"FILE" help:"How often each call is made, as strace -c prints it: for --layout best, and for means." group:"Profiles:"`
	Arches    []string `placeholder:"ABI" help:"ABIs of the filter, the native one first, in place of the profile's." group:"Profiles:"`
	Caps      string   `placeholder:"LIST" help:"Capabilities of the container: default, all, none, and names with or without - before them, such as default,SYS_ADMIN." group:"Profiles:"`
	BadArch   string   `placeholder:"ACTION" default:"KILL_THREAD" help:"What calls of other ABIs get (${default})." group:"Profiles:"`
	X32       string   `name:"x32" placeholder:"WAY" default:"bad-arch" help:"What x32 calls get where the profile does not list x32: bad-arch, enosys or default (${default})." group:"Profiles:"`
	Enosys    bool     `help:"Answer numbers above all that the profile names with ENOSYS, as runc does." group:"Profiles:"`
	SameArg   string   `placeholder:"WAY" enum:"or,and" default:"or" help:"Several conditions on one argument: or, as runc does, or and, as the OCI specification says (${default})." group:"Profiles:"`
	Kernel    string   `placeholder:"RELEASE" help:"Release of Linux, such as 6.1: its calls, and what it does with filters."`

	weights *policy.Histogram // what the file said; it may be a pipe
}

// compiledProfile is a profile with the filter that was made of it.
type compiledProfile struct {
	Policy   *policy.Policy
	Options  policy.CompileOptions
	Compiled *policy.Compiled
}

// kernel returns the release that was asked for, or else.
func (f *profileFlags) kernel(otherwise seccompdata.Kernel) (seccompdata.Kernel, error) {
	if f.Kernel == "" {
		return otherwise, nil
	}
	k, err := seccompdata.ParseKernel(f.Kernel)
	if err != nil {
		return k, badInput(fmt.Errorf("--kernel: %w", err))
	}
	return k, nil
}

// builtin returns a profile that comes with kjit.
func (f *profileFlags) builtin(name string) (profile []byte, ok bool) {
	if name != policy.DockerDefaultName {
		return nil, false
	}
	return policy.DockerDefaultProfile(), true
}

// options are those of the flags for reading a profile.
func (f *profileFlags) options() (policy.Options, error) {
	var o policy.Options
	var err error
	if o.ABIs, err = parseABIs("--arches", f.Arches); err != nil {
		return o, err
	}
	if f.Caps != "" {
		if o.Capabilities, err = policy.ParseCapabilities(f.Caps); err != nil {
			return o, badInput(fmt.Errorf("--caps: %w", err))
		}
	}
	if f.SameArg == "and" {
		o.SameArg = policy.SameArgAnd
	}
	o.Kernel, err = f.kernel(seccompdata.Kernel{}) // newer than any condition asks for
	return o, err
}

// compileOptions are those of the flags for making a program.
func (f *profileFlags) compileOptions() (policy.CompileOptions, error) {
	o := policy.CompileOptions{Layout: policy.Layout(f.Layout), X32: policy.X32(f.X32), Enosys: f.Enosys}
	var err error
	if o.BadArch, err = seccompdata.ParseRet(f.BadArch); err != nil {
		return o, badInput(fmt.Errorf("--bad-arch: %w", err))
	}
	o.Histogram, err = f.histogram()
	return o, err
}

// histogram reads the file of the flag; without one nothing is known.
func (f *profileFlags) histogram() (policy.Histogram, error) {
	switch {
	case f.weights != nil:
		return *f.weights, nil
	case f.Histogram == "":
		return policy.Histogram{}, nil
	}
	data, err := readWhole(f.Histogram, maxText)
	if err != nil {
		return policy.Histogram{}, err
	}
	h, err := policy.ParseHistogram(f.Histogram, data)
	if err != nil {
		return h, badInput(err)
	}
	f.weights = &h
	return h, nil
}

// compile compiles a profile.
func (f *profileFlags) compile(name string, data []byte) ([]*seccompFilter, error) {
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(name, data, options)
	if err != nil {
		return nil, badInput(err)
	}
	how, err := f.compileOptions()
	if err != nil {
		return nil, err
	}
	compiled, err := policy.Compile(p, how)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", name, err))
	}
	filters, err := oneFilter(name, name, nil, compiled.Program)
	if err != nil {
		return nil, err
	}
	filters[0].Compiled = &compiledProfile{p, how, compiled}
	return filters, nil
}
