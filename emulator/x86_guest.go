package emulator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kjit-project/kjit/internal/x86"
)

// The kernel's routines as guest machine code. They are written for this
// machine; what they keep of the kernel's is the calling convention (Linux
// 3.0 to 3.15, arch/x86/net/bpf_jit.S) and the number of instructions of the
// fast paths.
//
// Common convention of the load helpers: rdi skb, r8 skb->data, r9d headlen,
// esi offset, rbp the filter's frame, ebx X. They return eax (MSH: ebx, eax
// kept) and preserve rdi, r8, r9, rbp, and rbx except in MSH. The C functions
// behind them destroy every caller-saved register, on purpose.

// Private words in front of every sk_buff, where the routines find the packet.
// They do not depend on the profile's layout, which may know three fields only.
const (
	hdrFrags    = -64 // address of pairs {address, length}, one for each fragment
	hdrLen      = -56 // skb->len
	hdrData     = -48
	hdrTail     = -40 // end of the linear part
	hdrHead     = -32
	hdrMac      = -24 // address of the link-layer header
	hdrNetwork  = -16
	hdrSize     = 64
	scratchWord = -12 // in the filter's frame, for slow loads
)

// loadSize names the load helpers' sizes.
var loadSizes = []struct {
	name  string
	bytes int8
}{{"word", 4}, {"half", 2}, {"byte", 1}, {"byte_msh", 1}}

// guestAsm assembles routines that refer to each other by name.
type guestAsm struct {
	x86.Asm
	names map[string]x86.Label
}

func (a *guestAsm) label(name string) x86.Label {
	l, ok := a.names[name]
	if !ok {
		l = a.NewLabel()
		a.names[name] = l
	}
	return l
}

// begin starts the routine of that name.
func (a *guestAsm) begin(name string) { a.Bind(a.label(name)) }

// assembleRoutines makes the routines for loading at base. cpu is the address
// of the word that holds the processor number; reachFrags see loadHelper.
func assembleRoutines(base, cpu uint64, reachFrags bool) (*routines, error) {
	a := &guestAsm{names: map[string]x86.Label{}}
	for _, s := range loadSizes {
		a.loadSlow(s.name, s.bytes)
		a.loadNegative(s.name, s.bytes)
	}
	a.bpfError()
	a.skbCopyBits()
	a.loadPointerNeg()
	for _, s := range loadSizes[:3] {
		a.loadHelper(s.bytes, reachFrags)
	}
	a.begin("bpf_get_raw_cpu_id")
	a.LeaLabel(x86.AX, a.label("cpu"))
	a.Load(x86.W64, x86.AX, x86.At(x86.AX, 0))
	a.Load(x86.W32, x86.AX, x86.At(x86.AX, 0))
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.Bare(x86.Ret)
	a.carried(laterRandomSymbol, fragRandom)
	a.carried(laterPayOffsetSymbol, fragPayOffset)
	a.nlattr()
	a.begin("return_thunk")
	a.Bare(x86.Ret)
	a.begin("clear_bhb_loop")
	a.poison(x86.AX, x86.CX)
	a.Bare(x86.Ret)
	a.begin("cpu")
	a.Imm64(cpu)

	// The fast paths, for symbols that have no room for them in place.
	for _, name := range slices.Sorted(maps.Keys(pieces)) {
		p := pieces[name]
		a.begin(name)
		for {
			a.Raw(p.code...)
			a.Jcc(p.cond, a.label(p.to))
			if p.next == "" {
				break
			}
			p = pieces[p.next]
		}
		a.Raw(p.rest...)
	}
	code, err := a.Bytes(base)
	if err != nil {
		return nil, err
	}
	r := &routines{code: code, labels: map[string]uint64{}}
	for name, l := range a.names {
		if a.Offset(l) < 0 {
			return nil, fmt.Errorf("guest routine %s is not defined", name)
		}
		r.labels[name] = base + uint64(a.Offset(l))
	}
	for _, thunk := range []string{"__x86_return_thunk", "srso_return_thunk", "srso_alias_return_thunk",
		"its_return_thunk", "retbleed_return_thunk", "zen_return_thunk"} {
		r.labels[thunk] = r.labels["return_thunk"]
	}
	return r, nil
}

// poison leaves nothing useful in registers that a C function may destroy.
func (a *guestAsm) poison(regs ...x86.Reg) {
	for _, r := range regs {
		a.MovImm(x86.W64, x86.R(r), poisonFor(r))
	}
}

// poisonFor is a value unlike any address or count; its upper half is set, so
// that using it as an offset faults.
func poisonFor(r x86.Reg) int32 { return -0x5eb1a000 + int32(r)*0x111 }

// finish turns the loaded value in eax into the helper's result and returns.
func (a *guestAsm) finish(size string) {
	switch size {
	case "word":
		a.Bswap(x86.W32, x86.AX)
	case "half":
		a.ShiftImm(x86.Rol, x86.W16, x86.R(x86.AX), 8)
		a.MovZX(x86.AX, x86.W16, x86.R(x86.AX))
	case "byte_msh":
		// A waits in ebx.
		a.AluImm8(x86.And, x86.W32, x86.R(x86.AX), 15)
		a.ShiftImm(x86.Shl, x86.W32, x86.R(x86.AX), 2)
		a.Xchg(x86.W32, x86.R(x86.BX), x86.AX)
	}
	a.Bare(x86.Ret)
}

// loadValue loads a value of the size from memory into eax.
func (a *guestAsm) loadValue(bytes int8, from x86.RM) {
	switch bytes {
	case 4:
		a.Load(x86.W32, x86.AX, from)
	case 2:
		a.MovZX(x86.AX, x86.W16, from)
	default:
		a.MovZX(x86.AX, x86.W8, from)
	}
}

// saved calls a C function with rdi, r9 and r8 on the stack.
func (a *guestAsm) saved(name string, arguments func()) {
	a.Push(x86.DI)
	a.Push(x86.R9)
	a.Push(x86.R8)
	arguments()
	a.CallLabel(a.label(name))
	a.Pop(x86.R8)
	a.Pop(x86.R9)
	a.Pop(x86.DI)
}

// loadSlow is what follows when an offset is not wholly in the linear part:
// skb_copy_bits into the scratch word.
func (a *guestAsm) loadSlow(size string, bytes int8) {
	a.begin("slow_" + size)
	if size == "byte_msh" {
		a.Xchg(x86.W32, x86.R(x86.BX), x86.AX)
	}
	a.saved("skb_copy_bits", func() {
		a.Lea(x86.W64, x86.DX, x86.At(x86.BP, scratchWord))
		a.MovImm32(x86.CX, uint32(bytes))
	})
	a.Test(x86.W32, x86.R(x86.AX), x86.AX)
	a.Jcc(x86.CondS, a.label("bpf_error"))
	a.loadValue(bytes, x86.At(x86.BP, scratchWord))
	a.finish(size)
}

// loadNegative is the path of negative offsets (3.4 and later). The plain
// entry sends what is below SKF_LL_OFF to the error exit.
func (a *guestAsm) loadNegative(size string, bytes int8) {
	a.begin("negative_" + size)
	a.AluImm(x86.Cmp, x86.W32, x86.R(x86.SI), -0x200000)
	a.Jcc(x86.CondL, a.label("bpf_error"))
	a.begin("sk_load_" + size + "_negative_offset")
	if size == "byte_msh" {
		a.Xchg(x86.W32, x86.R(x86.BX), x86.AX)
	}
	a.saved("bpf_internal_load_pointer_neg_helper", func() { a.MovImm32(x86.DX, uint32(bytes)) })
	a.Test(x86.W64, x86.R(x86.AX), x86.AX)
	a.Jcc(x86.CondE, a.label("bpf_error"))
	a.loadValue(bytes, x86.At(x86.AX, 0))
	a.finish(size)
}

// bpfError leaves the filter, not the helper, with 0.
func (a *guestAsm) bpfError() {
	a.begin("bpf_error")
	a.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.AX)
	a.Load(x86.W64, x86.BX, x86.At(x86.BP, -8))
	a.Bare(x86.Leave)
	a.Bare(x86.Ret)
}

// skbCopyBits: rdi skb, esi offset, rdx to, ecx bytes; eax is 0, or -14 when
// not all bytes are in the packet.
func (a *guestAsm) skbCopyBits() {
	const position, end, frag, limit = x86.R9, x86.R10, x86.R11, x86.R8
	loop, copyByte, done, fail := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	part, notWord := a.NewLabel(), a.NewLabel()
	// findPart goes on to found once position is within a part: parts follow each
	// other, and the excess is carried over.
	findPart := func(found x86.Label) {
		again := a.Here()
		a.Alu(x86.Cmp, x86.W64, x86.R(position), end)
		a.Jcc(x86.CondB, found)
		a.Alu(x86.Sub, x86.W64, x86.R(position), end)
		a.Load(x86.W64, end, x86.At(frag, 0))
		a.Alu(x86.Add, x86.W64, x86.R(position), end)
		a.AluLoad(x86.Add, x86.W64, end, x86.At(frag, 8))
		a.AluImm8(x86.Add, x86.W64, x86.R(frag), 16)
		a.Jmp(again)
	}
	a.begin("skb_copy_bits")
	a.MovSX(x86.W64, x86.SI, x86.W32, x86.R(x86.SI))
	a.MovSX(x86.W64, x86.CX, x86.W32, x86.R(x86.CX))
	a.Load(x86.W64, limit, x86.At(x86.DI, hdrLen))
	a.Alu(x86.Sub, x86.W64, x86.R(limit), x86.CX)
	a.Alu(x86.Cmp, x86.W64, x86.R(x86.SI), limit)
	a.Jcc(x86.CondG, fail)
	a.Load(x86.W64, position, x86.At(x86.DI, hdrData))
	a.Alu(x86.Add, x86.W64, x86.R(position), x86.SI)
	a.AluLoad(x86.Cmp, x86.W64, position, x86.At(x86.DI, hdrHead))
	a.Jcc(x86.CondB, fail)
	a.Load(x86.W64, end, x86.At(x86.DI, hdrTail))
	a.Load(x86.W64, frag, x86.At(x86.DI, hdrFrags))
	a.Test(x86.W64, x86.R(x86.CX), x86.CX)
	a.Jcc(x86.CondE, done)

	// Nearly always it is 4, 2 or 1 bytes of one part.
	findPart(part)
	a.Bind(part)
	a.Lea(x86.W64, x86.AX, x86.Indexed(position, x86.CX, 1, 0))
	a.Alu(x86.Cmp, x86.W64, x86.R(x86.AX), end)
	a.Jcc(x86.CondA, copyByte)
	a.AluImm8(x86.Cmp, x86.W64, x86.R(x86.CX), 4)
	a.Jcc(x86.CondNE, notWord)
	a.Load(x86.W32, x86.AX, x86.At(position, 0))
	a.Mov(x86.W32, x86.At(x86.DX, 0), x86.AX)
	a.Jmp(done)
	a.Bind(notWord)
	a.AluImm8(x86.Cmp, x86.W64, x86.R(x86.CX), 2)
	a.Jcc(x86.CondNE, copyByte)
	a.MovZX(x86.AX, x86.W16, x86.At(position, 0))
	a.Mov(x86.W16, x86.At(x86.DX, 0), x86.AX)
	a.Jmp(done)

	a.Bind(loop)
	a.Test(x86.W64, x86.R(x86.CX), x86.CX)
	a.Jcc(x86.CondE, done)
	findPart(copyByte)

	a.Bind(copyByte)
	a.MovZX(x86.AX, x86.W8, x86.At(position, 0))
	a.Mov(x86.W8, x86.At(x86.DX, 0), x86.AX)
	a.Inc(x86.W64, x86.R(position))
	a.Inc(x86.W64, x86.R(x86.DX))
	a.Dec(x86.W64, x86.R(x86.CX))
	a.Jmp(loop)

	a.Bind(done)
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.AX)
	a.Bare(x86.Ret)
	a.Bind(fail)
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.MovImm32(x86.AX, 0xfffffff2)
	a.Bare(x86.Ret)
}

// loadPointerNeg: rdi skb, esi offset, edx size; rax is the address, or NULL
// when it is not in the linear part.
func (a *guestAsm) loadPointerNeg() {
	link, check, fail, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.begin("bpf_internal_load_pointer_neg_helper")
	a.MovSX(x86.W64, x86.SI, x86.W32, x86.R(x86.SI))
	a.Mov(x86.W32, x86.R(x86.DX), x86.DX)
	a.AluImm(x86.Cmp, x86.W64, x86.R(x86.SI), -0x100000)
	a.Jcc(x86.CondL, link)
	a.Load(x86.W64, x86.AX, x86.At(x86.DI, hdrNetwork))
	a.Lea(x86.W64, x86.AX, x86.Indexed(x86.AX, x86.SI, 1, 0x100000))
	a.Jmp(check)
	a.Bind(link)
	a.AluImm(x86.Cmp, x86.W64, x86.R(x86.SI), -0x200000)
	a.Jcc(x86.CondL, fail)
	a.Load(x86.W64, x86.AX, x86.At(x86.DI, hdrMac))
	a.Lea(x86.W64, x86.AX, x86.Indexed(x86.AX, x86.SI, 1, 0x200000))
	a.Bind(check)
	a.Alu(x86.Add, x86.W64, x86.R(x86.DX), x86.AX)
	a.AluLoad(x86.Cmp, x86.W64, x86.AX, x86.At(x86.DI, hdrHead))
	a.Jcc(x86.CondB, fail)
	a.AluLoad(x86.Cmp, x86.W64, x86.DX, x86.At(x86.DI, hdrTail))
	a.Jcc(x86.CondBE, out)
	a.Bind(fail)
	a.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.AX)
	a.Bind(out)
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.Bare(x86.Ret)
}

// loadHelper is bpf_skb_load_helper_N of later kernels (Linux 4.19 on): rdi skb,
// rsi data, edx headlen, ecx offset; rax is the value in host order or -14. As
// in the kernel it trusts what its caller says of the linear part. reachFrags:
// negative offsets may lead to page fragments (Linux 6.16 on).
func (a *guestAsm) loadHelper(bytes int8, reachFrags bool) {
	slow, negative, value, fail, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	name := fmt.Sprintf("bpf_skb_load_helper_%d", int(bytes)*8)

	// For programs that do not keep data and headlen: rdi skb, esi offset.
	a.begin(name + "_no_cache")
	a.Mov(x86.W32, x86.R(x86.CX), x86.SI)
	a.Load(x86.W64, x86.SI, x86.At(x86.DI, hdrData))
	a.Load(x86.W64, x86.DX, x86.At(x86.DI, hdrTail))
	a.Alu(x86.Sub, x86.W64, x86.R(x86.DX), x86.SI)

	a.begin(name)
	a.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), 8)
	a.Mov(x86.W32, x86.R(x86.CX), x86.CX) // callers add X and K in 64 bits
	a.Test(x86.W32, x86.R(x86.CX), x86.CX)
	a.Jcc(x86.CondS, negative)
	a.Alu(x86.Sub, x86.W32, x86.R(x86.DX), x86.CX)
	a.AluImm8(x86.Cmp, x86.W32, x86.R(x86.DX), bytes)
	a.Jcc(x86.CondL, slow)
	a.Lea(x86.W64, x86.AX, x86.Indexed(x86.SI, x86.CX, 1, 0))
	a.Jmp(value)

	a.Bind(slow)
	a.Mov(x86.W32, x86.R(x86.SI), x86.CX)
	a.Lea(x86.W64, x86.DX, x86.At(x86.SP, 0))
	a.MovImm32(x86.CX, uint32(bytes))
	a.CallLabel(a.label("skb_copy_bits"))
	a.Test(x86.W32, x86.R(x86.AX), x86.AX)
	a.Jcc(x86.CondS, fail)
	a.Lea(x86.W64, x86.AX, x86.At(x86.SP, 0))

	a.Bind(value)
	a.loadValue(bytes, x86.At(x86.AX, 0))
	switch bytes {
	case 4:
		a.Bswap(x86.W32, x86.AX)
	case 2:
		a.ShiftImm(x86.Rol, x86.W16, x86.R(x86.AX), 8)
	}
	a.Bind(out)
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.AluImm8(x86.Add, x86.W64, x86.R(x86.SP), 8)
	a.Bare(x86.Ret)

	a.Bind(negative)
	if reachFrags {
		link, done := a.NewLabel(), a.NewLabel()
		fromHeader := func(base, header int32, below x86.Label) {
			a.AluImm(x86.Cmp, x86.W32, x86.R(x86.CX), base)
			a.Jcc(x86.CondL, below)
			a.Load(x86.W64, x86.AX, x86.At(x86.DI, header))
			a.AluLoad(x86.Sub, x86.W64, x86.AX, x86.At(x86.DI, hdrData))
			a.Lea(x86.W64, x86.AX, x86.Indexed(x86.AX, x86.CX, 1, -base))
		}
		fromHeader(-0x100000, hdrNetwork, link)
		a.Jmp(done)
		a.Bind(link)
		fromHeader(-0x200000, hdrMac, fail)
		a.Bind(done)
		a.Mov(x86.W32, x86.R(x86.CX), x86.AX)
		a.Jmp(slow)
	} else {
		a.Mov(x86.W32, x86.R(x86.SI), x86.CX)
		a.MovImm32(x86.DX, uint32(bytes))
		a.CallLabel(a.label("bpf_internal_load_pointer_neg_helper"))
		a.Test(x86.W64, x86.R(x86.AX), x86.AX)
		a.Jcc(x86.CondNE, value)
	}
	a.Bind(fail)
	a.MovImm(x86.W64, x86.R(x86.AX), -14)
	a.Jmp(out)
}

// carried is a routine whose result the packet in rdi carries in its fragment
// table.
func (a *guestAsm) carried(name string, at int32) {
	a.begin(name)
	a.Load(x86.W64, x86.AX, x86.At(x86.DI, hdrFrags))
	a.Load(x86.W32, x86.AX, x86.At(x86.AX, at))
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.Bare(x86.Ret)
}

// piece is a routine short enough to stand at its symbol's address: code, a
// conditional jump to a routine, and the rest; or in place of the rest the
// symbol that it runs on into.
type piece struct {
	code []byte
	cond x86.Cond
	to   string
	rest []byte
	next string
}

func code(emit func(b *x86.Buf)) []byte {
	var b x86.Buf
	emit(&b)
	return b
}

// pieces are the fast paths of the load helpers.
var pieces = makePieces()

func makePieces() map[string]piece {
	out := map[string]piece{}
	for _, s := range loadSizes {
		fast := piece{cond: x86.CondLE, to: "slow_" + s.name}
		if s.bytes > 1 {
			fast.code = code(func(b *x86.Buf) {
				b.Mov(x86.W32, x86.R(x86.AX), x86.R9)
				b.Alu(x86.Sub, x86.W32, x86.R(x86.AX), x86.SI)
				b.AluImm8(x86.Cmp, x86.W32, x86.R(x86.AX), s.bytes-1)
			})
		} else {
			fast.code = code(func(b *x86.Buf) { b.Alu(x86.Cmp, x86.W32, x86.R(x86.R9), x86.SI) })
		}
		fast.rest = code(func(b *x86.Buf) {
			from := x86.Indexed(x86.R8, x86.SI, 1, 0)
			switch s.name {
			case "word":
				b.Load(x86.W32, x86.AX, from)
				b.Bswap(x86.W32, x86.AX)
			case "half":
				b.MovZX(x86.AX, x86.W16, from)
				b.ShiftImm(x86.Rol, x86.W16, x86.R(x86.AX), 8)
			case "byte":
				b.MovZX(x86.AX, x86.W8, from)
			case "byte_msh":
				b.MovZX(x86.BX, x86.W8, from)
				b.AluImm8(x86.And, x86.W8, x86.R(x86.BX), 15)
				b.ShiftImm(x86.Shl, x86.W8, x86.R(x86.BX), 2)
			}
			b.Bare(x86.Ret)
		})
		name := "sk_load_" + s.name
		out[name+"_positive_offset"] = fast
		// 3.4 and later: negative offsets leave first.
		out[name+"/3.4"] = piece{
			code: code(func(b *x86.Buf) { b.Test(x86.W32, x86.R(x86.SI), x86.SI) }),
			cond: x86.CondS, to: "negative_" + s.name, next: name + "_positive_offset",
		}
		// 3.0: X is added by an entry of its own, and a negative sum is an error.
		out[name+"/3.0"] = fast
		out[name+"_ind"] = piece{
			code: code(func(b *x86.Buf) { b.Alu(x86.Add, x86.W32, x86.R(x86.SI), x86.BX) }),
			cond: x86.CondS, to: "bpf_error", next: name + "/3.0",
		}
	}
	delete(out, "sk_load_byte_msh_ind") // never existed
	return out
}
