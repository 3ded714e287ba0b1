package kernelabi

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"golang.org/x/arch/arm/armasm"
	"golang.org/x/arch/x86/x86asm"
)

// CodeError is a place in an image that is not decoded, because there is no
// instruction or one that the decoder does not know, or that has no place in a
// compiled filter.
type CodeError struct {
	Offset int
	Reason string
}

func (e *CodeError) Error() string { return fmt.Sprintf("image+%#x: %s", e.Offset, e.Reason) }

// notDecoded is all that can be said: the decoders know what compilers use, not
// every instruction that there is.
const notDecoded = "this is no code for that processor, or an instruction that kjit does not know"

// Reference is what an image says about an address outside itself: where its
// code calls or jumps to.
type Reference struct {
	Offset int    // of the instruction that goes there
	Text   string // the instruction
	Call   bool   // it is a call
	Target uint64
	// Relative: the distance is in the instruction, so that the address is right
	// only if the image's base is.
	Relative bool
}

// References returns the addresses outside the image that its code calls or
// jumps to, in the order of the code, once per instruction. Targets that only
// the running code knows are left out. A *CodeError says that the bytes are no
// code of the architecture, or were cut.
func (i *Image) References() ([]Reference, error) {
	switch i.Profile.Arch {
	case X86_64:
		return referencesX86(i)
	case ARMv5, ARMv6, ARMv7:
		return referencesARM(i)
	}
	return nil, fmt.Errorf("architecture %s: its code cannot be read", i.Profile.Arch)
}

// NeedNames are the names that [Image.Needs] knows.
var NeedNames = []string{"bmi2", "movw", "rev", "udiv", "uxth"}

// Needs returns which instructions beyond the least processor of its family the
// image has, sorted: bmi2 on x86_64; movw (ARMv6T2), rev and uxth (ARMv6), udiv
// (ARMv7 with a divide instruction) on ARM.
func (i *Image) Needs() ([]string, error) {
	needs := map[string]bool{}
	switch i.Profile.Arch {
	case X86_64:
		err := eachX86(i.Code, func(_ int, ins x86asm.Inst) {
			switch ins.Op {
			case x86asm.SHLX, x86asm.SHRX, x86asm.SARX:
				needs["bmi2"] = true
			}
		})
		if err != nil {
			return nil, err
		}
	case ARMv5, ARMv6, ARMv7:
		words, err := wordsARM(i.Code)
		if err != nil {
			return nil, err
		}
		for _, w := range words[:codeEndARM(words)] {
			for _, g := range groupsARM {
				if w&g.mask == g.value {
					needs[g.name] = true
				}
			}
		}
	}
	var names []string
	for name := range needs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Lacks returns what of Needs the profile's processor does not have.
func (i *Image) Lacks() ([]string, error) {
	needs, err := i.Needs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(needs, func(name string) bool {
		switch p := i.Profile; name {
		case "movw":
			return p.Arch == ARMv7
		case "rev", "uxth":
			return p.Arch != ARMv5
		case "udiv":
			return p.Features.Idiva
		}
		return true // bmi2: all emulated x86_64 processors have it
	}), nil
}

// eachX86 calls each for every instruction of code.
func eachX86(code []byte, each func(off int, ins x86asm.Inst)) error {
	for off := 0; off < len(code); {
		ins, err := decodeX86(code[off:])
		if err != nil {
			end := min(off+8, len(code))
			reason := fmt.Sprintf("% x is not decoded: %s", code[off:end], notDecoded)
			if err == x86asm.ErrTruncated {
				reason = fmt.Sprintf("the image ends inside an instruction (% x)", code[off:end])
			}
			return &CodeError{off, reason}
		}
		each(off, ins)
		off += ins.Len
	}
	return nil
}

// hintsX86 are instructions of kernel code that the decoder does not know.
var hintsX86 = []string{
	"\xf3\x0f\x1e\xfa",     // endbr64
	"\xf3\x48\x0f\x1e\xf8", // ibhf, which ends the use of branch history
}

func decodeX86(code []byte) (x86asm.Inst, error) {
	for _, hint := range hintsX86 {
		if len(code) >= len(hint) && string(code[:len(hint)]) == hint {
			return x86asm.Inst{Op: x86asm.NOP, Len: len(hint)}, nil
		}
	}
	ins, err := x86asm.Decode(code, 64)
	if err == nil && (ins.Op == 0 || ins.Len == 0) {
		err = x86asm.ErrUnrecognized
		// The decoder does not tell an instruction that goes on behind the end.
		var more [15]byte
		if n := copy(more[:], code); n < len(more) {
			if ins, cut := x86asm.Decode(more[:], 64); cut == nil && ins.Op != 0 && ins.Len > n {
				err = x86asm.ErrTruncated
			}
		}
	}
	return ins, err
}

func referencesX86(i *Image) ([]Reference, error) {
	var refs []Reference
	var before x86asm.Inst // may load the address for an indirect call
	err := eachX86(i.Code, func(off int, ins x86asm.Inst) {
		next := int64(off + ins.Len)
		call := ins.Op == x86asm.CALL
		if rel, ok := ins.Args[0].(x86asm.Rel); ok {
			if to := next + int64(rel); to < 0 || to >= int64(len(i.Code)) {
				target := i.Base + uint64(to)
				text := fmt.Sprintf("%s %#x", mnemonicX86(ins), target)
				refs = append(refs, Reference{off, text, call, target, true})
			}
		} else if reg, ok := ins.Args[0].(x86asm.Reg); ok && (call || ins.Op == x86asm.JMP) {
			imm, known := before.Args[1].(x86asm.Imm)
			if known && before.Op == x86asm.MOV && before.Args[0] == reg && !i.Contains(uint64(imm)) {
				text := fmt.Sprintf("%s %s, which is %#x", mnemonicX86(ins), reg, uint64(imm))
				refs = append(refs, Reference{off, text, call, uint64(imm), false})
			}
		}
		before = ins
	})
	return refs, err
}

func mnemonicX86(ins x86asm.Inst) string { return strings.ToLower(ins.Op.String()) }

// groupsARM are the instruction groups that newer processors have.
var groupsARM = []struct {
	name        string
	mask, value uint32
}{
	{"movw", 0x0fb00000, 0x03000000}, // and movt
	{"rev", 0x0fff0f70, 0x06bf0f30},  // and rev16
	{"uxth", 0x0fff03f0, 0x06ff0070},
	{"udiv", 0x0ff0f0f0, 0x0730f010},
}

func wordsARM(code []byte) ([]uint32, error) {
	if len(code)%4 != 0 {
		return nil, &CodeError{len(code) &^ 3, "the image ends inside an instruction of 4 bytes"}
	}
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	return words, nil
}

// literalARM returns the index of the word that instruction i loads relative to
// the program counter (ldr rN, [pc, #n]).
func literalARM(words []uint32, i int) (at int, ok bool) {
	w := words[i]
	if w&0x0f7f0000 != 0x051f0000 {
		return 0, false
	}
	disp := int(w & 0xfff)
	if w&(1<<23) == 0 {
		disp = -disp
	}
	at = i + 2 + disp/4
	return at, disp%4 == 0 && at >= 0 && at < len(words)
}

// codeEndARM returns the index of the first word of the literal pool, which is
// behind the code, or the number of words.
func codeEndARM(words []uint32) int {
	end := len(words)
	for i := 0; i < end; i++ {
		if at, ok := literalARM(words, i); ok && at > i {
			end = min(end, at)
		}
	}
	return end
}

// constantARM returns what the instructions directly before i put into a
// register: movw and movt, or a load from the literal pool, or a mov.
func constantARM(words []uint32, i int, reg uint32) (value uint32, ok bool) {
	if i < 1 {
		return 0, false
	}
	w := words[i-1]
	if w>>28 != 14 || w>>12&15 != reg {
		return 0, false
	}
	imm16 := w>>4&0xf000 | w&0xfff
	at, literal := literalARM(words, i-1)
	switch {
	case literal:
		return words[at], true
	case w&0x0ff00000 == 0x03400000: // movt
		low, ok := constantARM(words, i-1, reg)
		return imm16<<16 | low&0xffff, ok
	case w&0x0ff00000 == 0x03000000: // movw
		return imm16, true
	case w&0x0fff0000 == 0x03a00000: // mov
		return rotatedARM(w), true
	case w&0x0fff0000 == 0x03e00000: // mvn
		return ^rotatedARM(w), true
	}
	return 0, false
}

// rotatedARM is the immediate operand of a data processing instruction.
func rotatedARM(w uint32) uint32 { return bits.RotateLeft32(w&0xff, -2*int(w>>8&15)) }

func referencesARM(i *Image) ([]Reference, error) {
	words, err := wordsARM(i.Code)
	if err != nil {
		return nil, err
	}
	var refs []Reference
	for n, w := range words[:codeEndARM(words)] {
		ins, err := armasm.Decode(i.Code[4*n:], armasm.ModeARM)
		if err != nil {
			return nil, &CodeError{4 * n, fmt.Sprintf("%#08x is not decoded: %s", w, notDecoded)}
		}
		ref := Reference{Offset: 4 * n, Text: ins.String()}
		switch {
		case w&0x0e000000 == 0x0a000000 && w>>28 != 15: // b, bl
			ref.Call, ref.Relative = w&(1<<24) != 0, true
			to := 4*n + 8 + int(int32(w<<8)>>6)
			if to >= 0 && to < len(i.Code) {
				continue
			}
			ref.Target = uint64(uint32(i.Base) + uint32(to))
			ref.Text = fmt.Sprintf("%s %#x", ins.Op, ref.Target)
		case w&0x0fffffd0 == 0x012fff10: // bx, blx
			value, known := constantARM(words, n, w&15)
			if !known || i.Contains(uint64(value)) {
				continue
			}
			ref.Call = w&0x20 != 0
			ref.Target = uint64(value)
			ref.Text += fmt.Sprintf(", which is %#x", value)
		default:
			continue
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
