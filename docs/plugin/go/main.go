// A small JIT for 32-bit ARM that speaks kjit's plugin protocol
// (docs/plugin.md). It uses the standard library only, so that it can be copied.
//
//	go build -o tinyjit ./docs/plugin/go
//	kjit replay 'ip' trace.pcap --jit exec:./tinyjit
//
// It takes loads at fixed offsets, the packet's length, a few operations, jumps
// and returns, and refuses the rest. A is in r4, X in r5, the skb in r6.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

// request has what this JIT looks at of the requests.
type request struct {
	ID      uint64            `json:"id"`
	Op      string            `json:"op"`
	Kind    string            `json:"kind"`
	Program [][4]uint32       `json:"program"` // code, jt, jf, k
	Symbols map[string]string `json:"symbols"` // hex addresses
	Layout  map[string]int    `json:"layout"`  // offsets of fields
}

type answer struct {
	ID uint64 `json:"id"`

	// Of the answer to hello.
	Protocol          int      `json:"protocol,omitempty"`
	Name              string   `json:"name,omitempty"`
	Archs             []string `json:"archs,omitempty"`
	Profile           string   `json:"profile,omitempty"`
	StandardRegisters bool     `json:"standard_registers,omitempty"`

	// Of the answer to compile.
	Image   string            `json:"image,omitempty"`
	PCMap   []int             `json:"pc_map,omitempty"`
	Externs map[string]string `json:"externs,omitempty"`
	Refusal *refusal          `json:"refusal,omitempty"`
	Error   *refusal          `json:"error,omitempty"`
}

type refusal struct {
	Reason string `json:"reason"`
	PC     *int   `json:"pc,omitempty"`
}

func main() {
	out := json.NewEncoder(os.Stdout) // writes a line at once
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // the end of the input is the end of the work
		}
		var q request
		if err := json.Unmarshal(line, &q); err != nil {
			fmt.Fprintln(os.Stderr, "request:", err)
			os.Exit(1)
		}
		if err := out.Encode(q.answer()); err != nil {
			os.Exit(1)
		}
	}
}

func (q *request) answer() answer {
	switch {
	case q.Op == "hello":
		return answer{ID: q.ID, Protocol: 1, Name: "tinyjit-go", Archs: []string{"armv5", "armv6", "armv7"},
			Profile: "linux-4.5-armv7", StandardRegisters: true}
	case q.Op != "compile":
		return answer{ID: q.ID, Error: &refusal{Reason: "unknown op"}}
	case q.Kind == "seccomp":
		return answer{ID: q.ID, Refusal: &refusal{Reason: "a seccomp filter"}}
	}
	c := compiler{request: q, externs: map[string]string{}}
	if reason := c.compile(); reason != "" {
		return answer{ID: q.ID, Refusal: &refusal{reason, &c.pc}}
	}
	return answer{ID: q.ID, Image: hex.EncodeToString(c.code), PCMap: c.start, Externs: c.externs}
}

// The registers, as numbers.
const (
	r0, r1, r3 = 0, 1, 3
	regA       = 4
	regX       = 5
	regSkb     = 6
)

// Conditions of instructions, in their top four bits.
const (
	eq, ne = 0 << 28, 1 << 28
	hs, lo = 2 << 28, 3 << 28
	hi, ls = 8 << 28, 9 << 28
	always = 14 << 28
)

// compiler writes the code twice: instructions have the same size wherever they
// jump to, so that the first pass finds the offsets for the second.
type compiler struct {
	*request
	pc      int
	code    []byte
	start   []int // offset of each instruction, and of the end, where the epilogue is
	externs map[string]string
}

// compile returns a reason to refuse, which is instruction c.pc, or "".
func (c *compiler) compile() string {
	c.start = make([]int, len(c.Program)+1)
	for range 2 {
		c.code = c.code[:0]
		c.word(0xe92d4070)                    // push {r4, r5, r6, lr}
		c.word(0xe1a00000 | regSkb<<12)       // mov r6, r0
		c.word(always | 0x3a00000 | regA<<12) // mov r4, #0
		c.word(always | 0x3a00000 | regX<<12) // mov r5, #0
		for c.pc = range c.Program {
			c.start[c.pc] = len(c.code)
			if reason := c.instruction(c.Program[c.pc]); reason != "" {
				return reason
			}
		}
		c.start[len(c.Program)] = len(c.code)
		c.word(0xe1a00000 | regA) // mov r0, r4
		c.word(0xe8bd8070)        // pop {r4, r5, r6, pc}
	}
	return ""
}

// Arithmetic of ARM: op rD, rN, rM and cmp or tst rN, rM.
const (
	and = 0x0000000
	sub = 0x0400000
	add = 0x0800000
	orr = 0x1800000
	tst = 0x1100000
	cmp = 0x1500000
)

// jumps are the comparison of each jump with a constant, and the conditions
// under which it goes either way.
var jumps = map[uint32]struct{ test, yes, no uint32 }{
	0x15: {cmp, eq, ne},
	0x25: {cmp, hi, ls},
	0x35: {cmp, hs, lo},
	0x45: {tst, ne, eq},
}

// alu are the operations with a constant; with X they have bit 3 set.
var alu = map[uint32]uint32{0x04: add, 0x14: sub, 0x44: orr, 0x54: and}

// loads are the routines that load from the packet.
var loads = map[uint32]string{0x20: "jit_get_skb_w", 0x28: "jit_get_skb_h", 0x30: "jit_get_skb_b"}

// instruction writes the code of one instruction or returns a reason to refuse.
func (c *compiler) instruction(ins [4]uint32) string {
	code, k := ins[0], ins[3]
	if j, ok := jumps[code]; ok {
		c.constant(r1, k)
		c.word(always | j.test | regA<<16 | r1)
		c.branch(j.yes, c.start[c.pc+1+int(ins[1])])
		c.branch(j.no, c.start[c.pc+1+int(ins[2])])
		return ""
	}
	if op, ok := alu[code]; ok {
		c.constant(r1, k)
		c.word(always | op | regA<<16 | regA<<12 | r1)
		return ""
	}
	if op, ok := alu[code&^8]; ok {
		c.word(always | op | regA<<16 | regA<<12 | regX)
		return ""
	}
	if name, ok := loads[code]; ok {
		return c.load(name, k)
	}
	switch code {
	case 0x80: // ld len
		offset, ok := c.Layout["sk_buff.len"]
		if !ok || offset > 0xfff {
			return "the layout has no sk_buff.len that an ldr reaches"
		}
		c.word(always | 0x5900000 | regSkb<<16 | regA<<12 | uint32(offset)) // ldr r4, [r6, #offset]
	case 0x00:
		c.constant(regA, k)
	case 0x01:
		c.constant(regX, k)
	case 0x07:
		c.word(always | 0x1a00000 | regX<<12 | regA)
	case 0x87:
		c.word(always | 0x1a00000 | regA<<12 | regX)
	case 0x05:
		c.branch(always, c.start[c.pc+1+int(k)])
	case 0x06:
		c.constant(regA, k)
		c.branch(always, c.start[len(c.Program)])
	case 0x16:
		c.branch(always, c.start[len(c.Program)])
	default:
		return "no rule for this opcode"
	}
	return ""
}

// load calls a routine that returns what it loaded in r0 and whether it failed
// in r1; then the program ends with 0.
func (c *compiler) load(name string, k uint32) string {
	if k >= 1<<31 {
		return "a negative offset or an ancillary load"
	}
	addr, err := strconv.ParseUint(c.Symbols[name], 0, 32)
	if err != nil {
		return "the kernel has no symbol " + name
	}
	c.externs[name] = c.Symbols[name]
	c.constant(r3, uint32(addr))
	c.constant(r1, k)
	c.word(always | 0x1a00000 | r0<<12 | regSkb) // mov r0, r6
	c.word(always | 0x12fff30 | r3)              // blx r3
	c.word(always | 0x1a00000 | regA<<12 | r0)   // mov r4, r0
	c.word(always | 0x3500000 | r1<<16)          // cmp r1, #0
	c.word(ne | 0x3a00000 | regA<<12)            // movne r4, #0
	c.branch(ne, c.start[len(c.Program)])
	return ""
}

// constant loads a constant, which lies in the code behind a branch.
func (c *compiler) constant(reg, k uint32) {
	c.word(always | 0x59f0000 | reg<<12) // ldr reg, [pc]
	c.branch(always, len(c.code)+8)
	c.word(k)
}

func (c *compiler) branch(cond uint32, to int) {
	distance := (to - (len(c.code) + 8)) / 4
	c.word(cond | 0xa000000 | uint32(distance)&0xffffff)
}

func (c *compiler) word(w uint32) {
	c.code = append(c.code, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
}
