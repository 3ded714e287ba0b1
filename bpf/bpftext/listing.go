package bpftext

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// shape is how tcpdump -d lays out an operand: a number between two strings.
type shape struct {
	pre, post string
	number    numberStyle
}

type numberStyle uint8

const (
	noNumber numberStyle = iota
	signed               // decimal, k as an int32
	hex                  // 0x, no padding
	target               // decimal, the absolute index n+1+k as an int32
)

var (
	absolute = shape{"[", "]", signed}
	indexed  = shape{"[x + ", "]", signed}
	header   = shape{"4*([", "]&0xf)", signed}
	scratch  = shape{"M[", "]", signed}
	hexImm   = shape{"#", "", hex}
	decImm   = shape{"#", "", signed}
	jump     = shape{"", "", target}
	length   = shape{"#pktlen", "", noNumber}
	register = shape{"x", "", noNumber}
	nothing  = shape{"", "", noNumber}
)

// pcapOp is one code that libpcap prints by name.
type pcapOp struct {
	code  uint16
	name  string
	shape shape
}

// pcapOps are the 48 codes that bpf_image of libpcap 1.10 knows; it prints any
// other as "unimp". LDX LEN, which Linux takes, is not among them.
var pcapOps = []pcapOp{
	{bpf.LdWAbs, "ld", absolute}, {bpf.LdHAbs, "ldh", absolute}, {bpf.LdBAbs, "ldb", absolute},
	{bpf.LdWInd, "ld", indexed}, {bpf.LdHInd, "ldh", indexed}, {bpf.LdBInd, "ldb", indexed},
	{bpf.LdImm, "ld", hexImm}, {bpf.LdMem, "ld", scratch}, {bpf.LdLen, "ld", length},
	{bpf.LdxImm, "ldx", hexImm}, {bpf.LdxMem, "ldx", scratch}, {bpf.LdxMsh, "ldxb", header},
	{bpf.St, "st", scratch}, {bpf.Stx, "stx", scratch},

	{bpf.AddK, "add", decImm}, {bpf.SubK, "sub", decImm}, {bpf.MulK, "mul", decImm},
	{bpf.DivK, "div", decImm}, {bpf.ModK, "mod", decImm},
	{bpf.AndK, "and", hexImm}, {bpf.OrK, "or", hexImm}, {bpf.XorK, "xor", hexImm},
	{bpf.LshK, "lsh", decImm}, {bpf.RshK, "rsh", decImm},
	{bpf.AddX, "add", register}, {bpf.SubX, "sub", register}, {bpf.MulX, "mul", register},
	{bpf.DivX, "div", register}, {bpf.ModX, "mod", register},
	{bpf.AndX, "and", register}, {bpf.OrX, "or", register}, {bpf.XorX, "xor", register},
	{bpf.LshX, "lsh", register}, {bpf.RshX, "rsh", register},
	{bpf.Neg, "neg", nothing},

	{bpf.Ja, "ja", jump},
	{bpf.JeqK, "jeq", hexImm}, {bpf.JgtK, "jgt", hexImm}, {bpf.JgeK, "jge", hexImm}, {bpf.JsetK, "jset", hexImm},
	{bpf.JeqX, "jeq", register}, {bpf.JgtX, "jgt", register}, {bpf.JgeX, "jge", register}, {bpf.JsetX, "jset", register},

	{bpf.RetK, "ret", decImm}, {bpf.RetA, "ret", nothing},
	{bpf.Tax, "tax", nothing}, {bpf.Txa, "txa", nothing},
}

const unimp = "unimp"

var (
	pcapByCode = map[uint16]pcapOp{}
	pcapByName = map[string][]pcapOp{}
)

func init() {
	for _, op := range pcapOps {
		pcapByCode[op.code] = op
		pcapByName[op.name] = append(pcapByName[op.name], op)
	}
}

// pcapNames are the words that may follow "(NNN)".
func pcapNames() []string {
	names := []string{unimp}
	for _, op := range pcapOps {
		names = append(names, op.name)
	}
	return names
}

// FormatInstruction writes one instruction as libpcap's bpf_image does, and so
// tcpdump -d: "(001) jeq      #0x800           jt 2\tjf 23". Jump targets are
// absolute and need pc, the index of the instruction. There is no line end, but
// an instruction without operand ends in blanks.
func FormatInstruction(pc int, ins bpf.Instruction) string {
	op, ok := pcapByCode[ins.Code]
	operand := op.shape.pre + op.shape.number.format(pc, ins.K) + op.shape.post
	if ext, isExt := ins.Extension(); isExt {
		operand = "[" + ext.PcapName() + "]"
	}
	if !ok {
		op.name, operand = unimp, fmt.Sprintf("0x%x", ins.Code)
	}
	if hasBranches(ins.Code) {
		return fmt.Sprintf("(%03d) %-8s %-16s jt %d\tjf %d", pc, op.name, operand, pc+1+int(ins.JT), pc+1+int(ins.JF))
	}
	return fmt.Sprintf("(%03d) %-8s %s", pc, op.name, operand)
}

// hasBranches reports whether libpcap prints jt and jf: for the whole class of
// jumps but ja, whether it knows the code or not.
func hasBranches(code uint16) bool {
	return code&0x07 == bpf.ClassJmp && code&0xf0 != 0
}

func (s numberStyle) format(pc int, k uint32) string {
	switch s {
	case signed:
		return strconv.Itoa(int(int32(k)))
	case hex:
		return fmt.Sprintf("0x%x", k)
	case target:
		return strconv.Itoa(int(int32(uint32(pc) + 1 + k)))
	}
	return ""
}

func formatD(prog bpf.Program) ([]byte, error) {
	var b bytes.Buffer
	for pc, ins := range prog {
		fmt.Fprintln(&b, FormatInstruction(pc, ins))
	}
	return b.Bytes(), nil
}

var (
	numbered = regexp.MustCompile(`^\s*\((\d+)\)\s*(\S.*)$`)
	// damaged lines were meant to be numbered: passing them over as prose could
	// cut the end off a program.
	damaged  = regexp.MustCompile(`^\s*(?:\(\s*\d|\(?\d+\)?\s*(?:` + strings.Join(pcapNames(), "|") + `)\b\s*(?:$|[\[#]|x\b|M\[|4\*|\d+\s*$|0x))`)
	branches = regexp.MustCompile(`^(.*\S)\s+jt\s+(\d+)\s+jf\s+(\d+)$`)
	aroundOp = regexp.MustCompile(`\s*([\[\]()*&+#])\s*`)
)

// parseD reads a tcpdump -d listing. Lines that are not numbered are passed
// over, whatever they are: command lines, warnings, prose. Blanks and tabs are
// all the same, and ";" or "//" after an instruction starts a remark.
func parseD(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	l := &Listing{Comments: src.comments}
	line := 0
	for text := range strings.Lines(src.text) {
		line++
		text = strings.TrimRight(text, "\n")
		m := numbered.FindStringSubmatch(text)
		if m == nil {
			if damaged.MatchString(text) {
				return nil, src.errorAt(line, fmt.Sprintf("damaged line %.60q: want \"(%03d) \" and an instruction", text, len(l.Program)))
			}
			continue
		}
		pc := len(l.Program)
		if reason := checkNumber(m[1], pc); reason != "" {
			return nil, src.errorAt(line, reason)
		}
		ins, reason := parsePcap(pc, m[2])
		if reason != "" {
			return nil, src.errorAt(line, reason)
		}
		l.Program = append(l.Program, ins)
		l.Lines = append(l.Lines, line)
	}
	if len(l.Program) == 0 {
		return nil, src.errorAt(0, `no instruction found: want lines such as "(000) ldh      [12]"`)
	}
	return l, nil
}

// checkNumber compares the number of a line with the instructions before it.
func checkNumber(digits string, want int) (reason string) {
	n, err := strconv.ParseUint(digits, 10, 32)
	switch {
	case err == nil && n == uint64(want) && want < bpf.MaxInsns:
		return ""
	case err == nil && n == uint64(want):
		return tooLong(fmt.Sprintf("more than %d", bpf.MaxInsns))
	case err == nil && n < uint64(want):
		return fmt.Sprintf("instruction (%03d) again: want (%03d); a file holds one program", n, want)
	}
	return fmt.Sprintf("instruction (%.20s): want (%03d), which is missing", digits, want)
}

// parsePcap reads what follows "(NNN) ", the exact inverse of
// FormatInstruction but for blanks.
func parsePcap(pc int, text string) (ins bpf.Instruction, reason string) {
	for _, remark := range []string{";", "//"} {
		text, _, _ = strings.Cut(text, remark)
	}
	text = strings.TrimSpace(text)
	name, rest := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		name, rest = text[:i], strings.TrimSpace(text[i:])
	}
	ops, operand := pcapByName[name], rest
	m := branches.FindStringSubmatch(rest)
	if m != nil {
		operand = m[1]
	}
	switch {
	case name == unimp:
		if ins.Code, reason = parseUnimp(operand); reason != "" {
			return ins, reason
		}
	case ops == nil:
		return ins, fmt.Sprintf("unknown instruction %.20q: want one that tcpdump -d prints, such as ld, jeq or ret", name)
	default:
		ins.Code = ops[0].code
	}
	if want := hasBranches(ins.Code); want && m == nil {
		return ins, fmt.Sprintf("%s %.60q: want an operand and \"jt T jf F\"", name, rest)
	} else if !want && m != nil {
		return ins, fmt.Sprintf("%s %.60q: jt and jf belong to conditional jumps", name, rest)
	} else if want {
		if ins.JT, reason = parseBranch(pc, "jt", m[2]); reason == "" {
			ins.JF, reason = parseBranch(pc, "jf", m[3])
		}
	}
	if reason != "" || name == unimp {
		return ins, reason
	}
	operand = aroundOp.ReplaceAllString(operand, "$1")
	for _, op := range ops {
		if k, ok := op.parseOperand(pc, operand); ok {
			ins.Code, ins.K = op.code, k
			return ins, ""
		}
	}
	return ins, fmt.Sprintf("operand %.60q of %s: want %s, numbers of 32 bits", rest, name, operandsOf(ops))
}

// parseUnimp reads "0xCODE". Everything but the code is lost, so codes with a
// name are refused: their operand cannot be made up.
func parseUnimp(operand string) (code uint16, reason string) {
	digits, ok := cutHex(operand)
	v, err := strconv.ParseUint(digits, 16, 16)
	if !ok || err != nil {
		return 0, fmt.Sprintf("operand %.60q of unimp: want a code from 0x0 to 0xffff", operand)
	}
	if op, ok := pcapByCode[uint16(v)]; ok {
		return 0, fmt.Sprintf("unimp 0x%x stands for %s, but its operand is lost: print the program again with a newer tcpdump", v, op.name)
	}
	return uint16(v), ""
}

func parseBranch(pc int, field, digits string) (offset uint8, reason string) {
	t, err := strconv.Atoi(digits)
	if err != nil || t < pc+1 || t > pc+1+255 {
		return 0, fmt.Sprintf("%s %.20s of instruction %d: want a target from %d to %d", field, digits, pc, pc+1, pc+1+255)
	}
	return uint8(t - pc - 1), ""
}

func (op pcapOp) parseOperand(pc int, operand string) (k uint32, ok bool) {
	if op.shape == absolute {
		if m := ancillaryOperand.FindStringSubmatch(operand); m != nil {
			ext, ok := ancillary[m[1]+m[2]]
			return ext.K(), ok
		}
	}
	pre := strings.ReplaceAll(op.shape.pre, " ", "")
	number, ok := strings.CutPrefix(operand, pre)
	if !ok || len(number) < len(op.shape.post) || !strings.HasSuffix(number, op.shape.post) {
		return 0, false
	}
	number = strings.TrimSuffix(number, op.shape.post)
	switch op.shape.number {
	case noNumber:
		return 0, number == ""
	case target:
		t, err := strconv.ParseInt(number, 10, 32)
		return uint32(t) - uint32(pc) - 1, err == nil
	}
	return parseK(number)
}

// ancillaryOperand takes the names in brackets, as libpcap prints them, and
// bare or after "#", as bpf_asm does.
var ancillaryOperand = regexp.MustCompile(`^(?:\[([a-z]\w*)\]|#?([a-z]\w*))$`)

// ancillary has every spelling of an ancillary load that a tool prints or
// takes: libpcap's and bpf_asm's.
var ancillary = func() map[string]bpf.Extension {
	names := map[string]bpf.Extension{"vlan_avail": bpf.ExtVlanPr}
	for e := bpf.Extension(0); e.Known(); e += 4 {
		names[e.String()] = e
		names[e.PcapName()] = e
	}
	return names
}()

func operandsOf(ops []pcapOp) string {
	var forms []string
	for _, op := range ops {
		k := [...]string{noNumber: "", signed: "k", hex: "0xk", target: "the target's index"}[op.shape.number]
		form := op.shape.pre + k + op.shape.post
		if op.shape == nothing {
			form = "nothing"
		}
		if op.shape == absolute {
			form += " or an ancillary name such as [proto]"
		}
		forms = append(forms, form)
	}
	return strings.Join(forms, " or ")
}
