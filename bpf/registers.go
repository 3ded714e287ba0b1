package bpf

// Registers is a set of the two registers.
type Registers uint8

const (
	RegA Registers = 1 << iota
	RegX
)

// Reads returns the registers whose values the instruction depends on.
func (i Instruction) Reads() Registers {
	if ext, ok := i.Extension(); ok {
		switch ext {
		case ExtNlattr, ExtNlattrN, ExtXorX:
			return RegA | RegX
		}
		return 0
	}
	switch i.Class() {
	case ClassLd:
		if i.Code == LdWInd || i.Code == LdHInd || i.Code == LdBInd {
			return RegX
		}
	case ClassSt:
		return RegA
	case ClassStx:
		return RegX
	case ClassAlu, ClassJmp:
		switch {
		case i.Code == Ja, IsCondJump(i.Code) && i.JT == i.JF:
			return 0
		case i.Code != Neg && i.Code&0x08 != 0:
			return RegA | RegX
		}
		return RegA
	case ClassRet:
		switch i.Code {
		case RetA:
			return RegA
		case RetX:
			return RegX
		}
	case ClassMisc:
		if i.Code == Tax {
			return RegA
		}
		return RegX
	}
	return 0
}

// Writes returns the registers that the instruction gives a new value.
func (i Instruction) Writes() Registers {
	switch i.Class() {
	case ClassLd, ClassAlu:
		return RegA
	case ClassLdx:
		return RegX
	case ClassMisc:
		if i.Code == Tax {
			return RegX
		}
		return RegA
	}
	return 0
}
