package arm

import (
	"flag"
	"testing"

	"golang.org/x/arch/arm/armasm"

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
	inst, err := armasm.Decode(code, armasm.ModeARM)
	if err != nil {
		return err.Error()
	}
	return jittest.Decoded(code, inst.Len, armasm.GNUSyntax(inst))
}

// names are the identifiers that calls in the test data use.
var names = map[string]any{
	"R0": R0, "R1": R1, "R2": R2, "R3": R3, "R4": R4, "R5": R5, "R6": R6, "R7": R7, "R8": R8,
	"R9": R9, "R10": R10, "FP": FP, "IP": IP, "SP": SP, "LR": LR, "PC": PC,
	"EQ": EQ, "NE": NE, "HS": HS, "LO": LO, "MI": MI, "PL": PL, "VS": VS, "VC": VC,
	"HI": HI, "LS": LS, "GE": GE, "LT": LT, "GT": GT, "LE": LE, "AL": AL,
	"And": And, "Eor": Eor, "Sub": Sub, "Rsb": Rsb, "Add": Add, "Adc": Adc, "Sbc": Sbc, "Rsc": Rsc,
	"Tst": Tst, "Teq": Teq, "Cmp": Cmp, "Cmn": Cmn, "Orr": Orr, "Bic": Bic,
	"LSL": LSL, "LSR": LSR, "ASR": ASR, "ROR": ROR,
	"Wfi": Wfi, "Bkpt": Bkpt, "Udf": Udf,
	"R": R, "Imm": Imm, "Shifted": Shifted, "ShiftedBy": ShiftedBy, "Regs": Regs,
	"At": At, "Indexed": Indexed, "Pre": Pre, "Post": Post,
}
