package jittest

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/kernelabi"
)

// Seeded returns a source of random numbers that KJIT_SEED may seed.
func Seeded(t *testing.T) *rand.Rand {
	seed := uint64(1)
	if s := os.Getenv("KJIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Rounds is n, less for short tests.
func Rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// A Check tries a program on a packet with every emitter and reports whether
// the checker took it, so that there was something to execute.
type Check func(t testing.TB, prog bpf.Program, skb *kernelabi.Skb) bool

// RandomPrograms checks random programs with the given ancillary loads, each on
// some random packets.
func RandomPrograms(t *testing.T, programs, packets int, exts []bpf.Extension, check Check) {
	rng, programs, valid := Seeded(t), Rounds(programs), 0
	for range programs {
		prog := RandomProgram(rng, bpf.Socket, exts)
		for range packets {
			if check(t, prog, randomSkb(rng)) {
				valid++
			}
		}
	}
	t.Logf("%d runs", valid)
	if valid < programs {
		t.Errorf("of %d programs so few were valid that only %d runs were made", programs, valid)
	}
}

// Fuzz is RandomPrograms on what the fuzzer finds, starting from the programs
// of a file of golden records.
func Fuzz(f *testing.F, file string, check Check) {
	for _, r := range Records[kernelabi.JITRecord](f, file) {
		f.Add(programBytes(r.Program), []byte("a packet of 22 bytes.."), uint8(20))
	}
	f.Fuzz(func(t *testing.T, code, packet []byte, headlen uint8) {
		skb := &kernelabi.Skb{Packet: packet, Headlen: min(int(headlen), len(packet)), NetworkHeader: 14}
		if rest := len(packet) - skb.Headlen; rest > 0 {
			skb.Frags = []int{rest}
		}
		check(t, bytesProgram(code), skb)
	})
}

// programBytes and bytesProgram are the layout of struct sock_filter.
func programBytes(prog bpf.Program) []byte {
	var code []byte
	for _, in := range prog {
		code = binary.LittleEndian.AppendUint16(code, in.Code)
		code = append(code, in.JT, in.JF)
		code = binary.LittleEndian.AppendUint32(code, in.K)
	}
	return code
}

func bytesProgram(code []byte) bpf.Program {
	var prog bpf.Program
	for ; len(code) >= 8; code = code[8:] {
		prog = append(prog, bpf.Instruction{
			Code: binary.LittleEndian.Uint16(code), JT: code[2], JF: code[3],
			K: binary.LittleEndian.Uint32(code[4:]),
		})
	}
	return prog
}

// constants are the k where encodings and bounds change.
var constants = []uint32{
	0, 1, 2, 3, 4, 7, 14, 23, 31, 32, 60, 63, 64, 65, 0x7f, 0x80, 0xff, 0x100, 0x8000, 0xff00, 0xffff, 0x10000,
	0x7ffffffb, 0x7ffffffc, 0x7ffffffd, 0x7ffffffe, 0x7fffffff, 0x80000000, 0xffdfffff,
	bpf.LLOff, bpf.LLOff + 1, bpf.LLOff + 14, bpf.LLOff + 60, bpf.NetOff - 1, bpf.NetOff, bpf.NetOff + 9, bpf.NetOff + 48,
	0xffffff00, 0xffffff7f, 0xffffff80, 0xffffffff, 0x3fc, 0x102, 0x12345678, 0xf000000f, 0xffffefff, 0x01010101, 33,
}

var randomCodes = []uint16{
	bpf.LdImm, bpf.LdLen, bpf.LdxImm, bpf.LdxImm, bpf.LdxLen, bpf.LdxMsh,
	bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdWInd, bpf.LdHInd, bpf.LdBInd,
	bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdWInd, bpf.LdHInd, bpf.LdBInd,
	bpf.AddK, bpf.AddX, bpf.SubK, bpf.SubX, bpf.MulK, bpf.MulX, bpf.DivK, bpf.DivX, bpf.ModK, bpf.ModX,
	bpf.OrK, bpf.OrX, bpf.AndK, bpf.AndX, bpf.XorK, bpf.XorX, bpf.LshK, bpf.LshX, bpf.RshK, bpf.RshX, bpf.Neg,
	bpf.JeqK, bpf.JeqX, bpf.JgtK, bpf.JgtX, bpf.JgeK, bpf.JgeX, bpf.JsetK, bpf.JsetX, bpf.Ja,
	bpf.RetK, bpf.RetA, bpf.Tax, bpf.Txa, bpf.St, bpf.Stx, bpf.LdMem, bpf.LdxMem,
}

// RandomProgram makes a program that the checker most likely takes. A seccomp
// filter has no ancillary loads.
func RandomProgram(rng *rand.Rand, kind bpf.Kind, exts []bpf.Extension) bpf.Program {
	body := 1 + rng.IntN(14)
	prog := bpf.Program{{Code: bpf.St, K: 1}, {Code: bpf.Stx, K: 2}}[:rng.IntN(2)*2]
	for i := range body {
		left := body - i + 1 // instructions behind this one, with the two returns at the end
		in := bpf.Instruction{Code: randomCodes[rng.IntN(len(randomCodes))]}
		if !(bpf.Rules{}).Accepts(in.Code, kind) {
			in.Code = bpf.LdWAbs
		}
		in.K = constants[rng.IntN(len(constants))]
		switch {
		case kind == bpf.Seccomp && in.Code == bpf.LdWAbs:
			in.K = uint32(4 * rng.IntN(jit.SeccompDataSize/4))
		case kind == bpf.Socket && rng.IntN(12) == 0:
			in = bpf.Instruction{Code: bpf.LdWAbs, K: exts[rng.IntN(len(exts))].K()}
		case bpf.IsCondJump(in.Code):
			in.JT, in.JF = uint8(rng.IntN(left)), uint8(rng.IntN(left))
		case in.Code == bpf.Ja:
			in.K = uint32(rng.IntN(left))
		case in.Code == bpf.St, in.Code == bpf.Stx, in.Code == bpf.LdMem, in.Code == bpf.LdxMem:
			in.K = uint32(1 + rng.IntN(2))
		case bpf.IsRet(in.Code) && rng.IntN(4) > 0, (in.Code == bpf.DivK || in.Code == bpf.ModK) && in.K == 0:
			in = bpf.Instruction{Code: bpf.Tax}
		}
		prog = append(prog, in)
	}
	return append(prog, bpf.Instruction{Code: bpf.RetA}, bpf.Instruction{Code: bpf.RetK, K: uint32(rng.IntN(2))})
}

func randomSkb(rng *rand.Rand) *kernelabi.Skb {
	packet := make([]byte, rng.IntN(80))
	for i := range packet {
		packet[i] = byte(rng.Uint32())
	}
	skb := &kernelabi.Skb{
		Packet: packet, Headlen: len(packet), NetworkHeader: rng.IntN(16),
		Protocol: uint16(rng.Uint32()), PktType: uint8(rng.IntN(8)), Mark: rng.Uint32(), Rxhash: rng.Uint32(),
		Queue: uint16(rng.Uint32()), VlanTCI: uint16(rng.Uint32()), VlanPresent: rng.IntN(2) == 0,
		NoDevice: rng.IntN(4) == 0, Ifindex: rng.Uint32(), DevType: uint16(rng.Uint32()), CPU: rng.Uint32(),
	}
	if rng.IntN(2) == 0 {
		skb.Headlen = rng.IntN(len(packet) + 1)
		skb.Frags = []int{len(packet) - skb.Headlen}
	}
	return skb
}
