package judge

import (
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/listing"
)

// rules names the emission rules by opcode: the mnemonic of bpf_asm, and what
// it takes. Ancillary loads have the names of bpf_asm, and a packet load of a
// seccomp filter is "ld-data".
var rules = map[uint16]string{
	bpf.LdImm: "ld-imm", bpf.LdMem: "ld-mem", bpf.LdLen: "ld-len",
	bpf.LdWAbs: "ld-abs", bpf.LdHAbs: "ldh-abs", bpf.LdBAbs: "ldb-abs",
	bpf.LdWInd: "ld-ind", bpf.LdHInd: "ldh-ind", bpf.LdBInd: "ldb-ind",
	bpf.LdxImm: "ldx-imm", bpf.LdxMem: "ldx-mem", bpf.LdxLen: "ldx-len", bpf.LdxMsh: "ldx-msh",
	bpf.St: "st", bpf.Stx: "stx",
	bpf.AddK: "add-k", bpf.AddX: "add-x", bpf.SubK: "sub-k", bpf.SubX: "sub-x",
	bpf.MulK: "mul-k", bpf.MulX: "mul-x", bpf.DivK: "div-k", bpf.DivX: "div-x",
	bpf.ModK: "mod-k", bpf.ModX: "mod-x", bpf.AndK: "and-k", bpf.AndX: "and-x",
	bpf.OrK: "or-k", bpf.OrX: "or-x", bpf.XorK: "xor-k", bpf.XorX: "xor-x",
	bpf.LshK: "lsh-k", bpf.LshX: "lsh-x", bpf.RshK: "rsh-k", bpf.RshX: "rsh-x", bpf.Neg: "neg",
	bpf.Ja: "ja", bpf.JeqK: "jeq-k", bpf.JeqX: "jeq-x", bpf.JgtK: "jgt-k", bpf.JgtX: "jgt-x",
	bpf.JgeK: "jge-k", bpf.JgeX: "jge-x", bpf.JsetK: "jset-k", bpf.JsetX: "jset-x",
	bpf.RetK: "ret-k", bpf.RetA: "ret-a", bpf.Tax: "tax", bpf.Txa: "txa",
}

// Names of what is to blame where no instruction is.
const (
	unknownRule   = "unknown"
	unwrittenRule = "unwritten-image"
)

// RuleOf names the emission rule of an instruction.
func RuleOf(ins bpf.Instruction, kind bpf.Kind) string {
	if kind == bpf.Seccomp && ins.Code == bpf.LdWAbs {
		return "ld-data"
	}
	if ext, ok := ins.Extension(); ok {
		return ext.String()
	}
	if name, ok := rules[ins.Code]; ok {
		return name
	}
	return unknownRule
}

// RuleAt names what is to blame at a place: the rule of the instruction; "entry"
// with the register or cell that the prologue leaves wrong; for code that
// belongs to no instruction, such as that of an imported image, the mnemonic of
// the machine instruction ("native-mov").
func RuleAt(p *harness.Place) string {
	switch {
	case p.Image.Unfilled:
		return unwrittenRule
	case p.PC >= 0:
		return RuleOf(p.Program[p.PC], p.Kind)
	case len(p.Image.PCMap) > 0:
		return "entry-" + slug(p.What)
	case p.Offset < 0:
		return unknownRule
	}
	for _, native := range listing.Disassemble(p.Image) {
		if native.Offset == p.Offset {
			mnemonic, _, _ := strings.Cut(native.Text, " ")
			return "native-" + slug(mnemonic)
		}
	}
	return unknownRule
}
