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

// Disassemble returns the instructions of img. A byte that starts no
// instruction becomes a line of its own, "(bad)".
func Disassemble(img *kernelabi.Image) []Native {
	names := symbolNames(img)
	var out []Native
	for off := 0; off < len(img.Code); {
		ins, err := x86asm.Decode(img.Code[off:], 64)
		n, text := ins.Len, ""
		if err != nil || n == 0 {
			n, text = 1, "(bad)"
		} else {
			text = x86asm.GNUSyntax(ins, img.Base+uint64(off), names)
		}
		out = append(out, Native{off, img.Code[off : off+n], text})
		off += n
	}
	return out
}

// symbolNames resolves the addresses the profile knows, and the image's own as
// offsets, so that jumps read as in the listing.
func symbolNames(img *kernelabi.Image) func(uint64) (string, uint64) {
	byAddr := map[uint64]string{}
	for name, addr := range img.Profile.Symbols {
		// Aliases at one address: the shorter name says as much.
		if old, ok := byAddr[addr]; !ok || len(name) < len(old) || len(name) == len(old) && name < old {
			byAddr[addr] = name
		}
	}
	return func(addr uint64) (string, uint64) {
		if img.Contains(addr) || addr == img.End() {
			return "image", img.Base
		}
		if name, ok := byAddr[addr]; ok {
			return name, addr
		}
		return "", 0
	}
}

// SideBySide writes the program and its machine code, each BPF instruction
// above the native ones that its code map gives it. mark, if not nil, chooses
// the native offsets to mark with an arrow; only restricts the output to the
// BPF instructions it accepts (prologue = -1).
func SideBySide(w io.Writer, prog bpf.Program, img *kernelabi.Image, only func(pc int) bool, mark func(offset int) bool) {
	last := -2
	for _, n := range Disassemble(img) {
		pc := img.PCAt(n.Offset)
		if only != nil && !only(pc) {
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
