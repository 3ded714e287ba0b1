package listing

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/arch/arm/armasm"

	"github.com/kjit-project/kjit/kernelabi"
)

// armAhead is how far the program counter that an instruction reads is ahead of it.
const armAhead = 8

// armDecoder decodes ARM code from its beginning on.
type armDecoder struct {
	img   *kernelabi.Image
	names symbols
	lower [16]uint32   // by register, the half of a constant that the last MOVW made
	pool  map[int]bool // offsets of constants that instructions in front load
}

func newARMDecoder(img *kernelabi.Image, names symbols) decoder {
	d := &armDecoder{img: img, names: names, pool: map[int]bool{}}
	return d.decode
}

func (d *armDecoder) decode(off int) (string, int, error) {
	if d.pool[off] {
		return fmt.Sprintf(".word %#x", binary.LittleEndian.Uint32(d.img.Code[off:])), 4, nil
	}
	ins, err := armasm.Decode(d.img.Code[off:], armasm.ModeARM)
	if err != nil {
		return "", 4, err
	}
	text := armasm.GNUSyntax(ins)
	if rel, ok := ins.Args[0].(armasm.PCRel); ok {
		// armasm has a distance here, and one that is 4 bytes short.
		mnemonic, _, _ := strings.Cut(text, " ")
		text = mnemonic + " " + d.name(d.img.Base+uint64(off+armAhead)+uint64(int64(rel)))
	}
	if value, ok := d.constant(&ins, off); ok {
		text += "  @ " + d.name(uint64(value)) // as assemblers write comments
	}
	return text, ins.Len, nil
}

// name is that of an address, or the address.
func (d *armDecoder) name(addr uint64) string {
	if name, _ := d.names(addr); name != "" {
		return name
	}
	return fmt.Sprintf("%#x", addr)
}

// constant returns what an instruction completes in a register, by halves or from
// the literal pool: what calls go to is among it.
func (d *armDecoder) constant(ins *armasm.Inst, off int) (value uint32, ok bool) {
	const allConditions = 15
	reg, isReg := ins.Args[0].(armasm.Reg)
	if !isReg || reg > armasm.R15 {
		return 0, false
	}
	imm, _ := ins.Args[1].(armasm.Imm)
	switch ins.Op &^ allConditions {
	case armasm.MOVW_EQ:
		d.lower[reg] = uint32(imm)
	case armasm.MOVT_EQ:
		return uint32(imm)<<16 | d.lower[reg], true
	case armasm.LDR_EQ:
		mem, isMem := ins.Args[1].(armasm.Mem)
		at := off + armAhead + int(mem.Offset)
		if isMem && mem.Base == armasm.PC && mem.Sign == 0 && mem.Mode == armasm.AddrOffset && at >= 0 && at+4 <= len(d.img.Code) {
			d.pool[at] = true
			return binary.LittleEndian.Uint32(d.img.Code[at:]), true
		}
	}
	return 0, false
}
