package livekernel

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// Path is a way that programs take to the kernel's JIT.
type Path string

const (
	// ViaAttach is the classic way: SO_ATTACH_FILTER or seccomp(2). The image is
	// read from kernel memory.
	ViaAttach Path = "attach"
	// ViaBPF is bpf(2): the program is converted to eBPF here, the kernel hands
	// out the image (BPF_OBJ_GET_INFO_BY_FD). Only for socket filters, and the
	// code is not that of the classic way: loads have no inline part.
	ViaBPF Path = "bpf"
)

// Request is a program to be compiled by the running kernel.
type Request struct {
	Name    string
	Kind    bpf.Kind
	Program bpf.Program
	Inputs  []kernelabi.Input // to be recorded with what they give
}

// compiled is what a kernel made of a program.
type compiled struct {
	Errno int    // it refused, and there is nothing else
	Base  uint64 // of the image
	Image []byte
	Flen  int // instructions after conversion
}

// record is the record of an image, with all that another host needs to run it.
func (r *Request) record(kernel, cpu string, c *compiled, layout kernelabi.Layout, symbols *kernelabi.SymbolTable) (*kernelabi.KernelImageRecord, error) {
	rec := &kernelabi.KernelImageRecord{
		Name: r.Name, Kind: r.Kind, Program: r.Program, Kernel: kernel, Errno: c.Errno,
		CPU: &kernelabi.CPURecord{Arch: cpu},
	}
	if c.Errno == int(kernelabi.EINVAL) {
		rec.CPU = nil
		return rec, nil
	}
	if c.Errno == 0 {
		base, image := kernelabi.HexUint(c.Base), kernelabi.HexBytes(c.Image)
		rec.Base, rec.Image, rec.Flen, rec.Layout = &base, &image, c.Flen, layout
	}
	profile, err := rec.Profile()
	if err != nil {
		return nil, err
	}
	rec.Inputs = r.Inputs
	outcomes, err := harness.NewInterpreter(profile).Run(r.Program, r.Kind, r.Inputs, nil)
	if err != nil {
		return nil, err
	}
	for _, o := range outcomes {
		if o.Kind == harness.Rejected {
			return nil, fmt.Errorf("%s: the running kernel takes the program, kjit's checker does not: %s", r.Name, o.Why)
		}
		rec.Results = append(rec.Results, o.Value)
	}
	if c.Errno != 0 {
		return rec, nil
	}
	img, err := rec.Code()
	if err != nil {
		return nil, err
	}
	found, err := symbols.Resolve(img)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	rec.Symbols = kernelabi.HexAddresses(found)
	if rec.CPU.Features, err = img.Needs(); err != nil {
		return nil, err
	}
	if rec.CPU.Features == nil {
		rec.CPU.Features = []string{}
	}
	return rec, r.divergence(rec, outcomes)
}

// divergence marks a record whose image differs from the language where the
// language leaves it to the processor. What else the image does wrong is for
// those to find who check the record.
func (r *Request) divergence(rec *kernelabi.KernelImageRecord, want []harness.Outcome) error {
	img, err := rec.Code()
	if err != nil {
		return err
	}
	runner, err := harness.NewImage(r.Name, img)
	if err != nil {
		return nil // a processor that is not emulated here
	}
	defer runner.Close()
	got, err := runner.Run(r.Program, r.Kind, r.Inputs, nil)
	if err != nil {
		return fmt.Errorf("%s: the image cannot be run: %w", r.Name, err)
	}
	results := make([]uint32, len(got))
	for i, g := range got {
		switch harness.Compare(want[i], g) {
		case harness.Undefined:
			rec.KnownDivergence = true
		case harness.Agree:
		default:
			rec.KnownDivergence = false
			return nil
		}
		results[i] = g.Value
	}
	if rec.KnownDivergence {
		rec.ImageResults = results
	}
	return nil
}
