package kernelabi

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"

	"github.com/kjit-project/kjit/bpf"
)

// KernelImageRecord is what the JIT of a running kernel made of a program, with
// inputs and what they give; or how the kernel refused the program. Files hold
// one a line.
type KernelImageRecord struct {
	Name       string      `json:"name"`
	Expression string      `json:"expression,omitempty"` // the filter expression it was compiled from
	DLT        string      `json:"dlt,omitempty"`        // link type of the expression
	Optimized  *bool       `json:"optimized,omitempty"`  // false: tcpdump -O
	Kind       bpf.Kind    `json:"kind"`
	Program    bpf.Program `json:"program"`
	Kernel     string      `json:"kernel"` // "6.18-x86_64"

	Base  *HexUint  `json:"base"`            // of the image; nil if unknown, and then no matter
	Image *HexBytes `json:"image"`           // nil: refused
	Errno int       `json:"errno,omitempty"` // of a refusal: 22 by the checker, 524 by the JIT
	Flen  int       `json:"flen,omitempty"`  // instructions after conversion to internal ones
	Pass  int       `json:"pass,omitempty"`  // as printed; 0 where unknown

	Symbols map[string]HexUint `json:"symbols,omitempty"` // all that the image calls or jumps to
	Layout  Layout             `json:"layout,omitempty"`  // what the image may read; see [Layout.With]
	CPU     *CPURecord         `json:"cpu,omitempty"`

	Inputs  []Input  `json:"inputs,omitempty"`  // *Skb or *Syscall, by Kind
	Results []uint32 `json:"results,omitempty"` // of a correct run of the program, one per input

	// KnownDivergence: the image gives ImageResults, which are not all Results.
	KnownDivergence bool     `json:"known_divergence,omitempty"`
	ImageResults    []uint32 `json:"image_results,omitempty"`
}

// CPURecord is what processor an image was made for and which groups of
// instructions it has; see [Image.Needs].
type CPURecord struct {
	Arch     string   `json:"arch"`
	Features []string `json:"features"`
}

// Errnos that kernels refuse programs with.
const (
	EINVAL   = syscall.Errno(22)  // the checker
	ENOTSUPP = syscall.Errno(524) // the JIT; no errno of user space
)

// UnmarshalJSON reads a record; unknown fields are errors, and so is what does
// not fit together.
func (r *KernelImageRecord) UnmarshalJSON(data []byte) error {
	type plain KernelImageRecord
	read := struct {
		*plain
		Inputs []json.RawMessage `json:"inputs"`
	}{plain: &plain{}}
	if err := decodeStrict(data, &read); err != nil {
		return recordError(read.Name, err)
	}
	rec := KernelImageRecord(*read.plain)
	for i, text := range read.Inputs {
		input := newInput(rec.Kind)
		if err := json.Unmarshal(text, input); err != nil {
			return recordError(rec.Name, fmt.Errorf("input %d: %w", i, err))
		}
		rec.Inputs = append(rec.Inputs, input)
	}
	if reason := rec.inconsistent(); reason != "" {
		return recordError(rec.Name, fmt.Errorf("%s", reason))
	}
	*r = rec
	return nil
}

// newInput returns an empty input of programs of the kind.
func newInput(kind bpf.Kind) Input {
	if kind == bpf.Seccomp {
		return new(Syscall)
	}
	return new(Skb)
}

func (r *KernelImageRecord) inconsistent() string {
	switch {
	case r.Kernel == "":
		return "kernel is missing"
	case len(r.Program) == 0:
		return "program is missing"
	case r.Image == nil && r.Errno == 0:
		return "there is neither an image nor an errno"
	case r.Image != nil && r.Errno != 0:
		return fmt.Sprintf("there is an image, and errno %d", r.Errno)
	case r.Image != nil && len(*r.Image) == 0:
		return "the image is empty"
	case len(r.Results) != len(r.Inputs):
		return fmt.Sprintf("%d results for %d inputs", len(r.Results), len(r.Inputs))
	case r.KnownDivergence != (r.ImageResults != nil):
		return "image_results go with known_divergence, and with it only"
	case r.KnownDivergence && len(r.ImageResults) != len(r.Inputs):
		return fmt.Sprintf("%d image_results for %d inputs", len(r.ImageResults), len(r.Inputs))
	case r.Errno == int(EINVAL) && len(r.Inputs) > 0:
		return "a program that the checker refuses has no inputs"
	}
	return ""
}

// kernelsOfRecords says which profile plays a kernel that records name.
var kernelsOfRecords = map[string]string{
	"6.18-x86_64": "linux-6.18-x86_64",
	"6.1-amd64":   "linux-6.1-x86_64",
	"6.1-armv7":   "linux-6.1-armv7",
	"6.1-armv6":   "linux-6.1-armv6",
	"6.1-armv5":   "linux-6.1-armv5",
}

// archesOfRecords says the same for kernels that have no profile, by what the
// record says of the processor. Only the conventions are taken from it.
var archesOfRecords = map[string]string{
	"x86-64": "linux-6.18-x86_64", "x86_64": "linux-6.18-x86_64",
	"armv7-a": "linux-6.1-armv7", "armv6": "linux-6.1-armv6", "armv5te": "linux-6.1-armv5",
}

// Profile returns the kernel of the record: the built-in profile of that kernel,
// or another with its conventions, with the record's symbols and no others, and
// its layout.
func (r *KernelImageRecord) Profile() (*Profile, error) {
	name, known := kernelsOfRecords[r.Kernel]
	if !known && r.CPU != nil {
		name = archesOfRecords[r.CPU.Arch]
	}
	p, err := ProfileByName(name)
	if err != nil {
		return nil, recordError(r.Name, fmt.Errorf("kernel %q: there is no profile for it, and cpu.arch does not say what it is like", r.Kernel))
	}
	q := *p
	if !known {
		q.Name, q.Layout = "linux-"+r.Kernel, nil
		q.Semantics.NegativeOffsetsReachFrags = atLeast(r.Kernel, 6, 16)
	}
	q.Layout = q.Layout.With(r.Layout)
	q.Symbols = r.Addresses()
	return &q, nil
}

// Addresses returns the record's symbols.
func (r *KernelImageRecord) Addresses() map[string]uint64 { return addresses(r.Symbols) }

// atLeast reports whether a kernel's name begins with at least that version.
func atLeast(kernel string, major, minor int) bool {
	var a, b int
	n, _ := fmt.Sscanf(strings.TrimPrefix(kernel, "linux-"), "%d.%d", &a, &b)
	return n == 2 && (a > major || a == major && b >= minor)
}

// Code returns the record's image, or nil for a refusal. Its profile is that of
// [KernelImageRecord.Profile]; without a base in the record it gets the one that
// its calls lead to, or else the profile's.
func (r *KernelImageRecord) Code() (*Image, error) {
	if r.Image == nil {
		return nil, nil
	}
	p, err := r.Profile()
	if err != nil {
		return nil, err
	}
	img := &Image{
		Code: *r.Image, Base: p.Base, Profile: p, Origin: "record " + r.Name,
		Insns: r.Flen, Pass: r.Pass,
	}
	if r.Base != nil {
		img.Base, img.BaseKnown = uint64(*r.Base), true
	} else if p.Arch == X86_64 {
		if base, err := SolveBase(img, r.Program, r.Kind, NewSymbolTable(p.Symbols), 0); err == nil {
			img.Base, img.BaseKnown = base, true
		}
	}
	return img, nil
}
