package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Protocol is the version of the protocol, which docs/plugin.md describes.
const Protocol = 1

const (
	maxImage = 1 << 20 // bytes of code, as many as the emulator loads
	maxNotes = 16
)

// helloRequest is the first line to a process.
type helloRequest struct {
	ID       uint64 `json:"id"`
	Op       string `json:"op"`
	Protocol int    `json:"protocol"`
}

// compileRequest is every other line. The order of the fields is part of the
// protocol, for plugins that search instead of parsing.
type compileRequest struct {
	ID        uint64                       `json:"id"`
	Op        string                       `json:"op"`
	Kind      bpf.Kind                     `json:"kind"`
	Arch      kernelabi.Arch               `json:"arch"`
	Profile   string                       `json:"profile"`
	Base      kernelabi.HexUint            `json:"base"`
	Program   bpf.Program                  `json:"program"`
	Symbols   map[string]kernelabi.HexUint `json:"symbols"`
	Layout    kernelabi.Layout             `json:"layout"`
	Features  kernelabi.Features           `json:"features"`
	Semantics kernelabi.Semantics          `json:"semantics"`
}

func newCompileRequest(id uint64, prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) *compileRequest {
	return &compileRequest{
		ID: id, Op: "compile", Kind: kind, Arch: p.Arch, Profile: p.Name, Base: kernelabi.HexUint(p.Base),
		Program: prog, Symbols: kernelabi.HexAddresses(p.Symbols), Layout: p.Layout,
		Features: p.Features, Semantics: p.Semantics,
	}
}

// reply is what all answers have.
type reply struct {
	ID    *uint64 `json:"id"`
	Error *reason `json:"error"` // the plugin itself says that it failed
}

type reason struct {
	Reason string `json:"reason"`
	PC     *int   `json:"pc"` // for refusals
}

// helloAnswer says what a plugin is.
type helloAnswer struct {
	reply
	Protocol          int              `json:"protocol"`
	Name              string           `json:"name"`
	Archs             []kernelabi.Arch `json:"archs"`
	Profile           string           `json:"profile"`            // the kernel it emits for if nobody asks for another
	StandardRegisters bool             `json:"standard_registers"` // see Image.OtherRegisters
}

// is reports whether two answers come from the same plugin.
func (a *helloAnswer) is(b *helloAnswer) bool {
	return a.Name == b.Name && slices.Equal(a.Archs, b.Archs) && a.Profile == b.Profile && a.StandardRegisters == b.StandardRegisters
}

// compileAnswer has an image or says why there is none.
type compileAnswer struct {
	reply
	Image   *kernelabi.HexBytes          `json:"image"`
	PCMap   []int                        `json:"pc_map"`
	Externs map[string]kernelabi.HexUint `json:"externs"`
	Notes   []string                     `json:"notes"`
	Refusal *reason                      `json:"refusal"`
}

// said is an error that the plugin reported in a proper answer: it can go on.
type said struct{ reason string }

func (e *said) Error() string { return "it reports an error: " + e.reason }

// decode reads an answer to request id into a, whose reply is r.
func decode(line []byte, id uint64, a any, r *reply) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(a); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return fmt.Errorf("the answer is not as the protocol has it: %s: %s", shown(err.Error()), excerpt(line))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more than one value on the line: %s", excerpt(line))
	}
	switch {
	case r.ID == nil:
		return fmt.Errorf("the answer has no id: %s", excerpt(line))
	case *r.ID != id:
		return fmt.Errorf("the answer is to request %d, the question was %d", *r.ID, id)
	case r.Error != nil:
		return &said{shown(r.Error.Reason)}
	}
	return nil
}

// excerpt quotes the beginning of a line.
func excerpt(line []byte) string { return fmt.Sprintf("%q", line[:min(len(line), 60)]) }

// nameOK is made when a plugin is started, not when kjit is.
var nameOK = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,39}$`)
})

// decodeHello reads the answer to the first line.
func decodeHello(line []byte, id uint64) (*helloAnswer, error) {
	var a helloAnswer
	if err := decode(line, id, &a, &a.reply); err != nil {
		return nil, err
	}
	switch {
	case a.Protocol != Protocol:
		return nil, fmt.Errorf("it speaks protocol %d, kjit speaks %d", a.Protocol, Protocol)
	case !nameOK().MatchString(a.Name):
		return nil, fmt.Errorf("its name is %s: want up to 40 letters, digits and ._+-", excerpt([]byte(a.Name)))
	case len(a.Archs) == 0:
		return nil, errors.New("it names no architecture (archs)")
	}
	return &a, nil
}

// decodeCompile reads the answer to the request to compile prog for p. Errors:
// *kernelabi.Refusal and *said are proper answers, every other is not.
func decodeCompile(line []byte, id uint64, prog bpf.Program, p *kernelabi.Profile) (*kernelabi.Image, error) {
	var a compileAnswer
	if err := decode(line, id, &a, &a.reply); err != nil {
		return nil, err
	}
	switch {
	case a.Refusal != nil && a.Image != nil:
		return nil, errors.New("the answer has an image and a refusal")
	case a.Refusal != nil:
		pc := -1
		if a.Refusal.PC != nil {
			pc = *a.Refusal.PC
		}
		if pc < -1 || pc >= len(prog) {
			return nil, fmt.Errorf("it refuses instruction %d of a program of %d", pc, len(prog))
		}
		return nil, &kernelabi.Refusal{PC: pc, Reason: shown(a.Refusal.Reason)}
	case a.Image == nil:
		return nil, errors.New("the answer has no image, no refusal and no error")
	}
	code := []byte(*a.Image)
	if len(code) == 0 || len(code) > maxImage {
		return nil, fmt.Errorf("the image has %d bytes: want 1 to %d", len(code), maxImage)
	}
	if err := checkMap(a.PCMap, len(prog), len(code)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Externs)) {
		addr, ok := p.Symbols[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("the image refers to %s, which is no symbol of profile %s", shown(name), p.Name)
		case addr != uint64(a.Externs[name]):
			return nil, fmt.Errorf("the image refers to %s at %#x, it is at %#x", shown(name), uint64(a.Externs[name]), addr)
		}
	}
	img := &kernelabi.Image{
		Code: code, Base: p.Base, BaseKnown: true, Profile: p, Insns: len(prog), PCMap: a.PCMap,
	}
	for _, note := range a.Notes[:min(len(a.Notes), maxNotes)] {
		img.Notes = append(img.Notes, shown(note))
	}
	return img, nil
}

// checkMap returns what is wrong with a map from the instructions of a program
// to offsets in its code.
func checkMap(m []int, insns, size int) error {
	if m == nil {
		return nil
	}
	if len(m) != insns+1 {
		return fmt.Errorf("pc_map has %d offsets: want %d, one for each instruction and the end", len(m), insns+1)
	}
	last := 0
	for i, off := range m {
		if off < last || off > size {
			return fmt.Errorf("pc_map[%d] is %d: want offsets in ascending order, up to %d", i, off, size)
		}
		last = off
	}
	return nil
}
