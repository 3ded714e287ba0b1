// Package listing prints machine code for people: native instructions with the
// symbols they refer to, and beside the BPF instructions they were made from.
package listing

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/kernelabi"
)

// Native is one machine instruction.
type Native struct {
	Offset int // in the image
	Bytes  []byte
	Text   string // GNU syntax, call targets by symbol
}

// decoder decodes the instruction at an offset of an image's code.
type decoder func(off int) (text string, size int, err error)

// symbols names an address: the symbol and its address, or "" and 0.
type symbols func(addr uint64) (name string, base uint64)

var decoders = map[kernelabi.Arch]func(img *kernelabi.Image, names symbols) decoder{
	kernelabi.X86_64: newX86Decoder,
	kernelabi.ARMv5:  newARMDecoder,
	kernelabi.ARMv6:  newARMDecoder,
	kernelabi.ARMv7:  newARMDecoder,
}

func newX86Decoder(img *kernelabi.Image, names symbols) decoder {
	return func(off int) (string, int, error) {
		ins, err := x86asm.Decode(img.Code[off:], 64)
		if err == nil && ins.Op == 0 {
			err = x86asm.ErrTruncated // it takes a cut instruction for prefixes
		}
		if err != nil {
			return "", 1, err
		}
		return x86asm.GNUSyntax(ins, img.Base+uint64(off), x86asm.SymLookup(names)), ins.Len, nil
	}
}

// Disassemble returns the instructions of img. What starts no instruction
// becomes a line of its own, "(bad)".
func Disassemble(img *kernelabi.Image) []Native {
	decode := decoders[img.Profile.Arch](img, symbolNames(img))
	var out []Native
	for off := 0; off < len(img.Code); {
		text, n, err := decode(off)
		if err != nil {
			text = "(bad)"
		}
		n = min(n, len(img.Code)-off)
		out = append(out, Native{off, img.Code[off : off+n], text})
		off += n
	}
	return out
}

// Symbols names the addresses that a profile knows.
func Symbols(p *kernelabi.Profile) map[uint64]string {
	byAddr := map[uint64]string{}
	for name, addr := range p.Symbols {
		// Aliases at one address: the shorter name says as much.
		if old, ok := byAddr[addr]; !ok || len(name) < len(old) || len(name) == len(old) && name < old {
			byAddr[addr] = name
		}
	}
	return byAddr
}

// symbolNames resolves the addresses the profile knows, and the image's own to
// offsets, so that jumps read as in the listing.
func symbolNames(img *kernelabi.Image) symbols {
	byAddr := Symbols(img.Profile)
	return func(addr uint64) (string, uint64) {
		if img.Contains(addr) || addr == img.End() {
			return fmt.Sprintf("%#x", addr-img.Base), addr
		}
		return byAddr[addr], addr
	}
}

// SideBySide writes the program and its machine code, each BPF instruction
// above the native ones that its code map gives it. mark, if not nil, chooses
// the native offsets to mark with an arrow; only, if not nil, which native
// instructions are shown, by BPF instruction (-1: none) and offset.
func SideBySide(w io.Writer, prog bpf.Program, img *kernelabi.Image, only func(pc, offset int) bool, mark func(offset int) bool) {
	last := -2
	for _, n := range Disassemble(img) {
		pc := img.PCAt(n.Offset)
		if only != nil && !only(pc, n.Offset) {
			continue
		}
		if pc != last {
			switch {
			case pc >= 0 && pc < len(prog):
				fmt.Fprintln(w, strings.TrimRight(bpftext.FormatInstruction(pc, prog[pc]), " "))
			case n.Offset == 0 && img.PCMap != nil:
				fmt.Fprintln(w, "(entry)")
			}
			last = pc
		}
		arrow := "  "
		if mark != nil && mark(n.Offset) {
			arrow = "=>"
		}
		fmt.Fprintf(w, "%s %5x:  %-24x  %s\n", arrow, n.Offset, n.Bytes, n.Text)
	}
}
