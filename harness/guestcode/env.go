package guestcode

import (
	"encoding/binary"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// env is the interpreter's struct env before encoding: addresses, which are as
// wide as the target's pointers, then 32-bit words.
type env struct {
	addresses [6]uint64
	words     [wordCount]uint32
}

// The places in env.
const (
	addrCopyBits = iota
	addrPointerNeg
	addrGetByte
	addrGetHalf
	addrGetWord
	addrPoff
)

const (
	wordLen = iota
	wordDataLen
	wordData
	wordProtocol
	wordPktType
	wordDev
	wordMark
	wordQueue
	wordRxhash
	wordVlanTCI
	wordIfindex
	wordHatype
	wordCPU
	wordThreadSize
	wordSeccomp
	wordSMP
	wordCount
)

// fields are the offsets that a program may need.
var fields = []struct {
	needs needSet
	word  int
	field string
}{
	{needLen | needPacket, wordLen, kernelabi.SkbLen},
	{needPacket, wordDataLen, kernelabi.SkbDataLen},
	{needPacket, wordData, kernelabi.SkbData},
	{needProtocol, wordProtocol, kernelabi.SkbProtocol},
	{needPktType, wordPktType, kernelabi.SkbPktType},
	{needIfindex | needHatype, wordDev, kernelabi.SkbDev},
	{needMark, wordMark, kernelabi.SkbMark},
	{needQueue, wordQueue, kernelabi.SkbQueue},
	{needRxhash, wordRxhash, kernelabi.SkbRxhash},
	{needVlan, wordVlanTCI, kernelabi.SkbVlanTCI},
	{needIfindex, wordIfindex, kernelabi.DevIfindex},
	{needHatype, wordHatype, kernelabi.DevType},
}

// helpers are the routines that packet loads outside the linear part call.
var helpersX86 = map[int]string{
	addrCopyBits: "skb_copy_bits", addrPointerNeg: "bpf_internal_load_pointer_neg_helper",
}

// The C functions of the ARM JITs stand in for the same two there: profiles of
// ARM kernels have no other way to a packet's fragments.
var helpersARM = map[int]string{
	addrGetByte: "jit_get_skb_b", addrGetHalf: "jit_get_skb_h", addrGetWord: "jit_get_skb_w",
}

// newEnv collects what the program needs of the profile's kernel.
func newEnv(p *kernelabi.Profile, kind bpf.Kind, needs needSet) (*env, error) {
	e := &env{}
	for _, f := range fields {
		if needs&f.needs == 0 {
			continue
		}
		off, err := p.Layout.Offset(f.field)
		if err != nil {
			return nil, err
		}
		e.words[f.word] = uint32(off)
	}
	if needs&needPacket != 0 {
		helpers := helpersARM
		if p.Arch == kernelabi.X86_64 {
			helpers = helpersX86
		}
		for at, name := range helpers {
			addr, err := p.Symbol(name)
			if err != nil {
				return nil, err
			}
			e.addresses[at] = addr
		}
	}
	if needs&needPoff != 0 {
		addr, ok := p.Symbols["skb_get_poff"]
		if !ok {
			return nil, &kernelabi.Refusal{PC: -1, Reason: fmt.Sprintf("profile %s has no skb_get_poff", p.Name)}
		}
		e.addresses[addrPoff] = addr
	}
	if needs&needCPU != 0 && p.Features.SMP {
		if err := e.processor(p); err != nil {
			return nil, err
		}
	}
	if kind == bpf.Seccomp {
		e.words[wordSeccomp] = 1
	}
	return e, nil
}

// processor says where the number of the processor is.
func (e *env) processor(p *kernelabi.Profile) error {
	e.words[wordSMP] = 1
	if p.Arch == kernelabi.X86_64 {
		offset, err := p.Symbol("cpu_number")
		e.words[wordCPU] = uint32(offset)
		return err
	}
	offset, err := p.Layout.Offset(kernelabi.ThreadInfoCPU)
	e.words[wordCPU], e.words[wordThreadSize] = uint32(offset), uint32(p.Features.ThreadSize)
	return err
}

// encode writes struct env as the target's C compiler lays it out.
func (e *env) encode(t *target) []byte {
	var b []byte
	for _, addr := range e.addresses {
		b = t.appendAddress(b, addr)
	}
	for _, w := range e.words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}
