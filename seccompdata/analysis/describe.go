package analysis

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// maxConditions bounds the alternatives that a condition is written as.
const maxConditions = 12

// describe writes a condition on arguments and instruction pointer as
// alternatives, each a conjunction: "args[1] == 0x5413". An input is in the
// condition if it fulfils one of them. There are none if it always holds. more
// says that some were left out. narrow is for ABIs whose registers have 32 bits.
func describe(s *paths.Space, c paths.Cond, narrow bool) (alternatives []string, more bool) {
	if narrow {
		c = narrowed(s, c)
	}
	var walk func(c paths.Cond, before conjunction)
	walk = func(c paths.Cond, before conjunction) {
		switch {
		case more:
			return
		case len(alternatives) == maxConditions:
			more = true
			return
		case c == paths.Always:
			if text := before.String(); text != "" {
				alternatives = append(alternatives, text)
			}
			return
		}
		word := s.Top(c)
		if word == paths.NoWord { // atoms alone are left
			alternatives = append(alternatives, before.with("an outcome of "+strings.Join(s.Atoms(c), ", ")+" (undecided)").String())
			return
		}
		for _, part := range s.Split(c, word) {
			walk(part.Rest, before.word(s, word, part.Values))
		}
	}
	walk(c, conjunction{narrow: narrow})
	return alternatives, more
}

// conjunction collects what is known of words. The halves of an argument come
// one behind the other, the high one first, and become one text.
type conjunction struct {
	texts  []string
	high   *half // of the word before, not yet written
	narrow bool  // upper halves are 0, and not mentioned
}

type half struct {
	word   uint32
	text   string
	single *uint32 // the only value
}

func (c conjunction) with(text string) conjunction {
	texts := append([]string{}, c.texts...)
	if c.high != nil {
		texts = append(texts, c.high.text)
	}
	if text != "" {
		texts = append(texts, text)
	}
	return conjunction{texts: texts, narrow: c.narrow}
}

func (c conjunction) String() string { return strings.Join(c.with("").texts, " && ") }

func (c conjunction) word(s *paths.Space, word uint32, values paths.Cond) conjunction {
	if values == paths.Always {
		return c
	}
	isHigh := word >= seccompdata.OffIP && word%8 == 4
	if isHigh {
		next := c.with("")
		h := &half{word: word, text: wordName(word) + " " + setText(s, word, values, nil)}
		if runs, ok := s.Runs(values, word, 1); ok && runs[0].Lo == runs[0].Hi {
			h.single = &runs[0].Lo
		}
		next.high = h
		return next
	}
	if c.high != nil && c.high.single != nil && c.high.word == word+4 {
		high := *c.high.single
		c.high = nil
		return c.with(wideName(word) + " " + setText(s, word, values, &high))
	}
	name := wordName(word)
	if c.narrow {
		name = wideName(word)
	}
	return c.with(name + " " + setText(s, word, values, nil))
}

// wordName is the name of a word of struct seccomp_data.
func wordName(off uint32) string {
	switch off {
	case seccompdata.OffNr:
		return "nr"
	case seccompdata.OffArch:
		return "arch"
	}
	half := " low"
	if off%8 == 4 {
		half = " high"
	}
	return wideName(off) + half
}

// wideName is the name of the 64-bit field that the word is in.
func wideName(off uint32) string {
	if off < seccompdata.OffIP {
		return wordName(off)
	}
	if off < seccompdata.OffArgs {
		return "instruction_pointer"
	}
	return fmt.Sprintf("args[%d]", (off-seccompdata.OffArgs)/8)
}

// setText writes a set of values of a word: "== 0x5", "in 0x5-0x7, 0x9",
// "& 0x7e020000 == 0". With high it is about both halves, the upper one being
// known: so it cannot say what the set has not.
func setText(s *paths.Space, word uint32, values paths.Cond, high *uint32) string {
	const few = 4
	var base uint64
	if high != nil {
		base = uint64(*high) << 32
	}
	num := func(v uint32) string { return fmt.Sprintf("%#x", base+uint64(v)) }
	list := func(runs []paths.Run) string {
		var parts []string
		for _, r := range runs {
			if r.Lo == r.Hi {
				parts = append(parts, num(r.Lo))
			} else {
				parts = append(parts, num(r.Lo)+"-"+num(r.Hi))
			}
		}
		return strings.Join(parts, ", ")
	}
	runs, ok := s.Runs(values, word, few)
	if ok && len(runs) == 1 && runs[0].Lo == runs[0].Hi {
		return "== " + num(runs[0].Lo)
	}
	others, okOthers := s.Runs(s.Not(values), word, few)
	switch {
	case okOthers && high == nil && points(others) && len(others) == 1:
		return "!= " + num(others[0].Lo)
	case ok && len(runs) == 1 && high == nil && runs[0].Hi == 1<<32-1:
		return ">= " + num(runs[0].Lo)
	case ok && (high != nil || !okOthers || !points(others)):
		return "in " + list(runs)
	case okOthers && high == nil && points(others):
		return "not in " + list(others)
	}
	patterns := func(set paths.Cond, op, join string, limit int) (string, bool) {
		cubes, ok := s.Cubes(set, word, limit)
		var parts []string
		for _, c := range cubes {
			if c.Mask == 1<<32-1 {
				parts = append(parts, fmt.Sprintf("%s %#x", op, c.Value))
			} else {
				parts = append(parts, fmt.Sprintf("& %#x %s %#x", c.Mask, op, c.Value))
			}
		}
		return strings.Join(parts, join), ok
	}
	prefix := ""
	if high != nil {
		prefix = fmt.Sprintf("high == %#x, low ", base>>32)
	}
	if text, ok := patterns(values, "==", " or ", 3); ok {
		return prefix + text
	}
	if text, ok := patterns(s.Not(values), "!=", " and ", 3); ok {
		return prefix + text
	}
	if runs, ok := s.Runs(values, word, 24); ok {
		return "in " + list(runs)
	}
	lowest, _ := s.Witness(values)
	return fmt.Sprintf("%sone of %d values such as %#x", prefix, s.Count(values, word), lowest[word])
}

func points(runs []paths.Run) bool {
	for _, r := range runs {
		if r.Lo != r.Hi {
			return false
		}
	}
	return true
}

// verdictText is a return value in words. Values that depend on the input are
// written as the expression.
func verdictText(value *paths.Expr) string {
	if ret, ok := value.Const(); ok {
		return seccompdata.FormatRet(ret)
	}
	return value.String()
}

// CallText is a system call in words: "x86_64 ioctl(0x0, 0x5413)". Zero
// arguments at the end are left out.
func CallText(d *seccompdata.Data) string {
	name, abi := fmt.Sprintf("arch %#x", d.Arch), seccompdata.ABIOf(d.Arch, d.Nr)
	call := fmt.Sprintf("nr %d", int32(d.Nr))
	if abi != nil {
		name = abi.Name
		if known, ok := abi.Call(d.Nr); ok {
			call = known
		} else if abi.Bit != 0 {
			call = fmt.Sprintf("nr %#x", d.Nr)
		}
	}
	last := 0
	for n, arg := range d.Args {
		if arg != 0 {
			last = n + 1
		}
	}
	var args []string
	for _, arg := range d.Args[:last] {
		args = append(args, fmt.Sprintf("%#x", arg))
	}
	text := fmt.Sprintf("%s %s(%s)", name, call, strings.Join(args, ", "))
	if d.IP != 0 {
		text += fmt.Sprintf(" at %#x", d.IP)
	}
	return text
}
