package x86

import (
	"flag"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kjit-project/kjit/internal/jit/jittest"
)

var update = flag.Bool("update", false, "rewrite testdata/encodings.txt; review the difference")

// TestEncodings compares the bytes of calls in testdata/encodings.txt, and what
// an independent decoder (x/arch) reads in them.
func TestEncodings(t *testing.T) {
	encode := func(call string) ([]byte, error) {
		var buf Buf
		err := jittest.Call(&buf, call, names)
		return buf, err
	}
	jittest.Encodings(t, *update, encode, decode)
}

// decode returns what x/arch reads in the bytes of one instruction.
func decode(code []byte) string {
	inst, err := x86asm.Decode(code, 64)
	if err != nil {
		return err.Error()
	}
	return jittest.Decoded(code, inst.Len, x86asm.GNUSyntax(inst, 0, nil))
}

// names are the identifiers that calls in the test data use.
var names = map[string]any{
	"AX": AX, "CX": CX, "DX": DX, "BX": BX, "SP": SP, "BP": BP, "SI": SI, "DI": DI,
	"R8": R8, "R9": R9, "R10": R10, "R11": R11, "R12": R12, "R13": R13, "R14": R14, "R15": R15,
	"AH": AH, "CH": CH, "DH": DH, "BH": BH,
	"W8": W8, "W16": W16, "W32": W32, "W64": W64,
	"Add": Add, "Or": Or, "Adc": Adc, "Sbb": Sbb, "And": And, "Sub": Sub, "Xor": Xor, "Cmp": Cmp,
	"Not": Not, "Neg": Neg, "Mul": Mul, "Imul1": Imul1, "Div": Div, "Idiv": Idiv,
	"Rol": Rol, "Ror": Ror, "Rcl": Rcl, "Rcr": Rcr, "Shl": Shl, "Shr": Shr, "Sar": Sar,
	"CondO": CondO, "CondNO": CondNO, "CondB": CondB, "CondAE": CondAE,
	"CondE": CondE, "CondNE": CondNE, "CondBE": CondBE, "CondA": CondA,
	"CondS": CondS, "CondNS": CondNS, "CondP": CondP, "CondNP": CondNP,
	"CondL": CondL, "CondGE": CondGE, "CondLE": CondLE, "CondG": CondG,
	"Ret": Ret, "Leave": Leave, "Hlt": Hlt, "Nop": Nop, "Int3": Int3, "Ud2": Ud2, "Cld": Cld,
	"Std": Std, "Cli": Cli, "Sti": Sti, "Pushf": Pushf, "Popf": Popf, "Cdq": Cdq, "Cqo": Cqo,
	"Rdtsc": Rdtsc, "RepMovsb": RepMovsb, "RepMovsq": RepMovsq, "RepStosb": RepStosb,
	"RepStosq": RepStosq, "Iretq": Iretq, "Swapgs": Swapgs,
	"R": R, "At": At, "At8": At8, "At32": At32, "Indexed": Indexed, "Abs": Abs, "GS": GS, "RIP": RIP,
}
