package policy

import (
	"fmt"
	"math/bits"

	"github.com/kjit-project/kjit/seccompdata"
)

// Op compares an argument with a constant. All comparisons are of unsigned
// 64-bit numbers; arguments of 32-bit ABIs have zero high words.
type Op uint8

const (
	EQ       Op = iota // arg == Value
	NE                 // arg != Value
	LT                 // arg < Value
	LE                 // arg <= Value
	GT                 // arg > Value
	GE                 // arg >= Value
	MaskedEQ           // arg & Mask == Value
)

var opSigns = [...]string{EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=", MaskedEQ: "=="}

func (o Op) String() string {
	if int(o) < len(opSigns) {
		return opSigns[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Condition is a comparison of one argument of a call.
type Condition struct {
	Arg   int // 0 to 5
	Op    Op
	Value uint64
	Mask  uint64 // of MaskedEQ alone
}

func (c Condition) String() string {
	if c.Op == MaskedEQ {
		return fmt.Sprintf("arg%d & %#x == %#x", c.Arg, c.Mask, c.Value)
	}
	return fmt.Sprintf("arg%d %s %#x", c.Arg, c.Op, c.Value)
}

// Holds reports whether an argument fulfils the condition.
func (c Condition) Holds(arg uint64) bool {
	switch c.Op {
	case EQ:
		return arg == c.Value
	case NE:
		return arg != c.Value
	case LT:
		return arg < c.Value
	case LE:
		return arg <= c.Value
	case GT:
		return arg > c.Value
	case GE:
		return arg >= c.Value
	}
	return arg&c.Mask == c.Value
}

func (c Condition) check() error {
	switch {
	case c.Arg < 0 || c.Arg > 5:
		return fmt.Errorf("there is no argument %d, only 0 to 5", c.Arg)
	case c.Op > MaskedEQ:
		return fmt.Errorf("unknown comparison %s", c.Op)
	}
	return nil
}

// test is what one or two instructions can find out about a word of struct
// seccomp_data.
type test struct {
	off  uint32 // of the word
	op   testOp
	k    uint32
	mask uint32 // of isEqual; all ones for the whole word
}

type testOp uint8

const (
	isEqual testOp = iota // word & mask == k
	isAbove               // word > k
	isFrom                // word >= k
)

// Where a step goes that ends the condition.
const (
	holds = -1
	fails = -2
)

// step is a test and the steps that follow: indexes, or holds, or fails.
type step struct {
	test
	yes, no int
}

// steps takes the condition apart into tests of words, the high one first.
func (c Condition) steps() []step {
	low := uint32(seccompdata.OffArgs + 8*c.Arg)
	high := low + 4
	vh, vl := uint32(c.Value>>32), uint32(c.Value)
	const all = ^uint32(0)
	equal := func(off, k uint32, yes, no int) step { return step{test{off, isEqual, k, all}, yes, no} }
	ordered := func(op testOp, yes, no int) []step {
		return []step{
			{test{high, isAbove, vh, 0}, yes, 1},
			equal(high, vh, 2, no),
			{test{low, op, vl, 0}, yes, no},
		}
	}
	switch c.Op {
	case EQ:
		return []step{equal(high, vh, 1, fails), equal(low, vl, holds, fails)}
	case NE:
		return []step{equal(high, vh, 1, holds), equal(low, vl, fails, holds)}
	case GT:
		return ordered(isAbove, holds, fails)
	case GE:
		return ordered(isFrom, holds, fails)
	case LE:
		return ordered(isAbove, fails, holds)
	case LT:
		return ordered(isFrom, fails, holds)
	}
	return []step{
		{test{high, isEqual, vh, uint32(c.Mask >> 32)}, 1, fails},
		{test{low, isEqual, vl, uint32(c.Mask)}, holds, fails},
	}
}

// oneBit reports whether exactly one bit is set.
func oneBit(word uint32) bool { return bits.OnesCount32(word) == 1 }
