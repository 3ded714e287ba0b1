package guestcode

import "github.com/kjit-project/kjit/bpf"

// needSet is what of the kernel a program's instructions read.
type needSet uint32

const (
	needLen needSet = 1 << iota
	needPacket
	needProtocol
	needPktType
	needIfindex
	needMark
	needQueue
	needHatype
	needRxhash
	needCPU
	needVlan
	needPoff
)

// opcode is an instruction as the interpreter knows it.
type opcode struct {
	number uint16
	needs  needSet
}

// order are the codes in the order of enum op in interp.c.
var order = []struct {
	code  uint16
	needs needSet
}{
	{bpf.RetK, 0}, {bpf.RetA, 0},
	{bpf.AddK, 0}, {bpf.SubK, 0}, {bpf.MulK, 0}, {bpf.DivK, 0}, {bpf.ModK, 0},
	{bpf.AndK, 0}, {bpf.OrK, 0}, {bpf.XorK, 0}, {bpf.LshK, 0}, {bpf.RshK, 0},
	{bpf.AddX, 0}, {bpf.SubX, 0}, {bpf.MulX, 0}, {bpf.DivX, 0}, {bpf.ModX, 0},
	{bpf.AndX, 0}, {bpf.OrX, 0}, {bpf.XorX, 0}, {bpf.LshX, 0}, {bpf.RshX, 0},
	{bpf.Neg, 0},
	{bpf.Ja, 0}, {bpf.JeqK, 0}, {bpf.JgtK, 0}, {bpf.JgeK, 0}, {bpf.JsetK, 0},
	{bpf.JeqX, 0}, {bpf.JgtX, 0}, {bpf.JgeX, 0}, {bpf.JsetX, 0},
	{bpf.LdWAbs, needPacket}, {bpf.LdHAbs, needPacket}, {bpf.LdBAbs, needPacket},
	{bpf.LdWInd, needPacket}, {bpf.LdHInd, needPacket}, {bpf.LdBInd, needPacket}, {bpf.LdxMsh, needPacket},
	{bpf.LdLen, needLen}, {bpf.LdxLen, needLen}, {bpf.LdImm, 0}, {bpf.LdxImm, 0},
	{bpf.LdMem, 0}, {bpf.LdxMem, 0}, {bpf.St, 0}, {bpf.Stx, 0}, {bpf.Tax, 0}, {bpf.Txa, 0},
}

// extensions are the ancillary loads, in the order of enum op, behind order and
// the load of a seccomp filter.
var extensions = []struct {
	ext   bpf.Extension
	needs needSet
}{
	{bpf.ExtProtocol, needProtocol}, {bpf.ExtPktType, needPktType}, {bpf.ExtIfindex, needIfindex},
	{bpf.ExtMark, needMark}, {bpf.ExtQueue, needQueue}, {bpf.ExtHatype, needHatype}, {bpf.ExtRxhash, needRxhash},
	{bpf.ExtCPU, needCPU}, {bpf.ExtVlanTCI, needVlan}, {bpf.ExtVlanPr, needVlan}, {bpf.ExtPayOffset, needPoff},
}

var (
	byCode      = map[uint16]opcode{}
	byExtension = map[bpf.Extension]opcode{}
	seccompLoad opcode
)

func init() {
	for i, o := range order {
		byCode[o.code] = opcode{uint16(i), o.needs}
	}
	seccompLoad = opcode{uint16(len(order)), 0}
	for i, e := range extensions {
		byExtension[e.ext] = opcode{uint16(len(order) + 1 + i), e.needs}
	}
	// Not a load at all: A ^= X.
	byExtension[bpf.ExtXorX] = byCode[bpf.XorX]
}

// opcodeOf finds the interpreter's opcode of an instruction.
func opcodeOf(in bpf.Instruction, kind bpf.Kind, rules bpf.Rules) (opcode, bool) {
	if kind == bpf.Seccomp {
		switch in.Code {
		case bpf.LdWAbs:
			return seccompLoad, true
		case bpf.LdLen, bpf.LdxLen:
			// A constant there: nothing of a packet is needed.
			op := byCode[in.Code]
			op.needs = 0
			return op, true
		}
	} else if ext, ok := rules.Extension(in); ok {
		op, ok := byExtension[ext]
		return op, ok
	}
	op, ok := byCode[in.Code]
	return op, ok
}
