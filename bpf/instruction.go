// Package bpf is the classic BPF language of Linux: instructions and programs,
// the checker a kernel runs before it accepts one, control flow, and the
// reference interpreter that every other runner is judged by.
//
// # The language
//
// There are two registers, A and X, and sixteen scratch cells M[0] to M[15],
// all unsigned 32-bit. A and X are 0 at entry. An instruction is {code, jt, jf,
// k}; P[i] below is a byte of the packet.
//
//	ld   #k  M[k]  len  [k]  [x+k]      A = k, M[k], length, word at k or X+k
//	ldh  [k]  [x+k]                     A = the half there
//	ldb  [k]  [x+k]                     A = the byte there
//	ldx  #k  M[k]  len                  X = k, M[k], length
//	ldxb 4*([k]&0xf)                    X = 4 * (P[k] & 15), A stays
//	st   M[k]                           M[k] = A
//	stx  M[k]                           M[k] = X
//	add sub mul div mod and or xor      A = A op k, or A op X
//	lsh rsh                             the same; rsh is logical
//	neg                                 A = -A
//	ja   k                              skip k instructions
//	jeq jgt jge jset                    compare A with k or X; skip jt if true, jf if not
//	tax txa                             X = A, A = X
//	ret  #k  a                          end with k, or with A
//
// Loads from packets are big endian. One that does not find its bytes ends the
// program with 0, and so does a division by X = 0. Offsets are 32-bit, so X+k
// wraps; those from [LLOff] up are negative: they count from the link-layer
// header, and from [NetOff] up from the network header. Absolute loads from
// [ADOff] up are ancillary: they fetch an [Extension] instead.
//
// Seccomp filters read struct seccomp_data: ld [k] alone, aligned words in the
// byte order of the host. They have no ldh, ldb, [x+k], ldxb and mod.
//
// A shift by X > 31 is where Linux releases and JITs differ. [Machine] takes
// the count mod 32, as Linux does since 5.14, and says so in [Result].ShiftPC.
//
// # Use
//
// [Check] tells what a kernel refuses, [Compile] checks and makes a [Machine],
// whose Run and Trace read an [Input]. [Flow] gives the control-flow graph of
// any program. The text forms of programs are in [bpftext].
//
// [bpftext]: https://pkg.go.dev/github.com/kjit-project/kjit/bpf/bpftext
package bpf

import "fmt"

// MaxInsns is the most instructions a program may have (Linux, BPF_MAXINSNS).
const MaxInsns = 4096

// MemWords is the number of scratch cells M[] (Linux, BPF_MEMWORDS).
const MemWords = 16

// Instruction is one struct sock_filter. JT and JF count instructions from the
// one that follows; K is unsigned, whatever sign a text form prints it with.
type Instruction struct {
	Code uint16
	JT   uint8
	JF   uint8
	K    uint32
}

// Class returns the instruction class, bits 0 to 2 of the code.
func (i Instruction) Class() uint16 { return i.Code & 0x07 }

// Extension returns the ancillary load that i performs. Linux gives LD ABS of
// any size with K = SKF_AD_OFF + n that meaning, for the n it knows.
func (i Instruction) Extension() (Extension, bool) {
	switch i.Code {
	case LdWAbs, LdHAbs, LdBAbs:
		if ext := Extension(i.K - ADOff); i.K >= ADOff && ext.Known() {
			return ext, true
		}
	}
	return 0, false
}

// Program is a classic BPF program. Nothing about it is checked until [Check].
type Program []Instruction

// Kind says what a program is attached to, and so what it reads.
type Kind uint8

const (
	Socket  Kind = iota // reads a packet, big endian; returns how many bytes to keep
	Seccomp             // reads struct seccomp_data, host endian; returns an action
)

func (k Kind) String() string {
	if k == Seccomp {
		return "seccomp"
	}
	return "socket"
}

// MarshalText writes "socket" or "seccomp".
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads "socket", "seccomp", or nothing, which means socket.
func (k *Kind) UnmarshalText(text []byte) error {
	switch string(text) {
	case "socket", "":
		*k = Socket
	case "seccomp":
		*k = Seccomp
	default:
		return fmt.Errorf("kind %q: want socket or seccomp", text)
	}
	return nil
}
