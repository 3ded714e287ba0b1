package kernelabi

import (
	"encoding/json"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// JITRecord is a golden image: what a kernel's own JIT made of a program. Files
// hold one a line.
//
// The same form has what another JIT made that is nobody's golden: then
// ProfileName is set, and Kernel names the JIT. Its bytes are right if they do
// what the program says.
type JITRecord struct {
	Name        string      `json:"name"`
	Kernel      string      `json:"kernel"`            // "linux-3.10.99", or "published", or "exec:NAME"
	ProfileName string      `json:"profile,omitempty"` // of an external JIT: the kernel that it emits for
	Arch        Arch        `json:"arch"`
	Kind        bpf.Kind    `json:"kind"`
	Program     bpf.Program `json:"program"`

	Base       *HexUint           `json:"base"`    // nil where the bytes do not depend on it
	Symbols    map[string]HexUint `json:"symbols"` // what the image may refer to
	LayoutName string             `json:"layout_name"`
	Layout     Layout             `json:"layout"` // as the file names fields; see [Layout.With]
	Features   Features           `json:"features"`

	Image  *HexBytes `json:"image"` // nil unless Result is ok
	Result JITResult `json:"result"`
	Pass   int       `json:"pass,omitempty"` // number of the writing pass; 0 where unknown
	Note   string    `json:"note,omitempty"`

	PCMap []int `json:"pc_map,omitempty"` // as in [Image]; not in records of kernels
}

// NewJITRecord states what the emitter of a profile made of a program: img, or
// the *Refusal that it gave instead. The kernel's name is the profile's.
func NewJITRecord(name string, prog bpf.Program, kind bpf.Kind, p *Profile, img *Image, refusal *Refusal) *JITRecord {
	base := HexUint(p.Base)
	rec := &JITRecord{
		Name: name, Kernel: p.Name, Arch: p.Arch, Kind: kind, Program: prog, Base: &base,
		Symbols: HexAddresses(p.Symbols), Layout: p.Layout, Features: p.Features,
	}
	switch {
	case refusal != nil:
		rec.Result, rec.Note = ResultNoJIT, refusal.Error()
	case img.Unfilled:
		rec.Result, rec.Pass = ResultUnfilled, img.Pass
	default:
		code := HexBytes(img.Code)
		rec.Result, rec.Image, rec.Pass, rec.PCMap = ResultOK, &code, img.Pass, img.PCMap
	}
	return rec
}

// External makes r the record of a JIT that is not the kernel's: the image is
// compared with no other.
func (r *JITRecord) External(jit string) { r.Kernel, r.ProfileName = jit, r.Kernel }

// JITResult is what became of a program that a kernel was given.
type JITResult string

const (
	ResultOK       JITResult = "ok"       // there is an image
	ResultNoJIT    JITResult = "nojit"    // the JIT declined, the interpreter runs
	ResultInvalid  JITResult = "einval"   // the checker refused the program
	ResultUnfilled JITResult = "unfilled" // the image was allocated and never written
)

// Features are the options of a kernel and its processor that an image may
// depend on.
type Features struct {
	SMP          bool   `json:"smp,omitempty"`           // x86: the processor number is a per-CPU variable
	Idiva        bool   `json:"idiva,omitempty"`         // ARM: hardware divide
	FramePointer bool   `json:"frame_pointer,omitempty"` // ARM
	ThreadSize   int    `json:"thread_size,omitempty"`   // ARM: bytes of a kernel stack
	Endian       string `json:"endian,omitempty"`        // ARM: "little"
}

// UnmarshalJSON reads a record; unknown fields and results are errors.
func (r *JITRecord) UnmarshalJSON(data []byte) error {
	type plain JITRecord
	var read plain
	if err := decodeStrict(data, &read); err != nil {
		return recordError(read.Name, err)
	}
	*r = JITRecord(read)
	switch r.Result {
	case ResultOK, ResultNoJIT, ResultInvalid, ResultUnfilled:
	default:
		return fmt.Errorf("record %q: result %q: want ok, nojit, einval or unfilled", r.Name, r.Result)
	}
	if (r.Image != nil) != (r.Result == ResultOK) {
		return fmt.Errorf("record %q: result %s and image do not fit together: only ok has one", r.Name, r.Result)
	}
	return nil
}

// Profile returns p with the base, symbols, layout and features of the record.
func (r *JITRecord) Profile(p *Profile) *Profile {
	q := p.WithLayout(r.Layout).WithSymbols(addresses(r.Symbols))
	if r.Base != nil {
		q.Base = uint64(*r.Base)
	}
	q.Arch, q.Features = r.Arch, r.Features
	return q
}

// MutantRecord is a small program and packet that show a historic fault, or a
// slip that emitters and harnesses easily make.
type MutantRecord struct {
	Name     string
	Type     string // "mutant" or "trap"
	Mutant   string // the fault: "x86-and-imm16"
	Arch     string // "x86_64", "arm" or "any"
	Program  bpf.Program
	Input    *Skb
	Want     uint32                         // what a correct runner returns
	Measured map[string]map[string]Measured // by kernel and arch
	Evidence string
}

// Measured is what a kernel's code did. A crash depends on the memory around
// the packet: elsewhere the same code may return a wrong value instead.
type Measured struct {
	Outcome string   `json:"outcome"` // value, crash, int3, endless-loop, nojit, einval, fatal-error
	Value   *HexUint `json:"value,omitempty"`
}

// mutantText is the JSON form: the input is not nested.
type mutantText struct {
	Name    string      `json:"name"`
	Type    string      `json:"type"`
	Mutant  string      `json:"mutant"`
	Arch    string      `json:"arch"`
	Program bpf.Program `json:"program"`
	skbText
	Want     HexUint                        `json:"want"`
	Measured map[string]map[string]Measured `json:"measured"`
	Evidence string                         `json:"evidence"`
}

// MarshalJSON writes the record as UnmarshalJSON reads it.
func (r MutantRecord) MarshalJSON() ([]byte, error) {
	if r.Input == nil {
		return nil, fmt.Errorf("record %q has no packet", r.Name)
	}
	return json.Marshal(mutantText{
		r.Name, r.Type, r.Mutant, r.Arch, r.Program, r.Input.text(), HexUint(r.Want), r.Measured, r.Evidence,
	})
}

// UnmarshalJSON reads a record; unknown fields are errors.
func (r *MutantRecord) UnmarshalJSON(data []byte) error {
	var text mutantText
	if err := decodeStrict(data, &text); err != nil {
		return recordError(text.Name, inPacket(err))
	}
	var input Skb
	if err := text.into(&input); err != nil {
		return recordError(text.Name, err)
	}
	if text.Type != "mutant" && text.Type != "trap" {
		return fmt.Errorf("record %q: type %q: want mutant or trap", text.Name, text.Type)
	}
	if text.Want > 1<<32-1 {
		return fmt.Errorf("record %q: want %#x does not fit in 32 bits", text.Name, uint64(text.Want))
	}
	*r = MutantRecord{
		text.Name, text.Type, text.Mutant, text.Arch, text.Program, &input, uint32(text.Want), text.Measured, text.Evidence,
	}
	return nil
}

func recordError(name string, err error) error {
	if name == "" {
		return fmt.Errorf("record: %w", err)
	}
	return fmt.Errorf("record %q: %w", name, err)
}
