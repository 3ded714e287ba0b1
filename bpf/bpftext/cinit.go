package bpftext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

func formatDD(prog bpf.Program) ([]byte, error) {
	return appendEach(prog, "{ 0x%x, %d, %d, 0x%08x },\n"), nil
}

// formatAsmC writes what bpf_asm -c prints. C's "#" flag leaves 0x out for a
// zero and pads it all the same; Go's does not.
func formatAsmC(prog bpf.Program) ([]byte, error) {
	var b []byte
	for _, ins := range prog {
		b = fmt.Appendf(b, "{ %s, %2d, %2d, %s },\n", cHex(uint32(ins.Code), 4), ins.JT, ins.JF, cHex(ins.K, 10))
	}
	return b, nil
}

// cHex is C's %#0WIDTHx.
func cHex(v uint32, width int) string {
	if v == 0 {
		return strings.Repeat("0", width)
	}
	return fmt.Sprintf("0x%0*x", width-2, v)
}

var (
	initialiser = regexp.MustCompile(`\{|\bBPF_(?:STMT|JUMP)\s*\(`)
	cComment    = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"`)
	cNumber     = regexp.MustCompile(`^-?(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*$`)
	designator  = regexp.MustCompile(`^\.(\w+)\s*=\s*(.*)$`)
)

// parseC reads C initialisers, "{ code, jt, jf, k }" or BPF_STMT and BPF_JUMP,
// with any C text before and after them. Numbers are C's: hex, decimal or
// octal, with U and L suffixes; code and k may be expressions of the BPF_ and
// SKF_ constants. Between two instructions only blanks, comments and one comma
// may stand, so that a damaged initialiser is an error and never skipped.
func parseC(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	text := cComment.ReplaceAllStringFunc(src.text, blank)
	lines := lineCounter{text: text}
	l := &Listing{Comments: src.comments}
	end := 0 // of the last instruction, with its comma
	for pos := 0; ; {
		m := initialiser.FindStringIndex(text[pos:])
		if m == nil {
			break
		}
		start, open := pos+m[0], pos+m[1]
		pos = open
		closer, fields := "}", []int{0, 1, 2, 3}
		if text[open-1] == '(' {
			closer, fields = ")", []int{0, 3}
			if strings.HasPrefix(text[start:], "BPF_JUMP") {
				fields = []int{0, 3, 1, 2}
			}
		}
		body, next, closed := group(text[open:], closer)
		if closer == "}" && !looksLikeInstruction(body) {
			continue // C text: a function, the array's own brace
		}
		line := lines.at(start)
		if !closed {
			return nil, src.errorAt(line, fmt.Sprintf("no %q closes this instruction", closer))
		}
		if len(l.Program) == bpf.MaxInsns {
			return nil, src.errorAt(line, tooLong(fmt.Sprintf("more than %d", bpf.MaxInsns)))
		}
		if reason := checkGap(text[end:start], len(l.Program)); reason != "" {
			return nil, src.errorAt(line, reason)
		}
		ins, reason := parseInitialiser(body, fields)
		if reason != "" {
			return nil, src.errorAt(line, reason)
		}
		l.Program = append(l.Program, ins)
		l.Lines = append(l.Lines, line)
		pos = open + next
		end = pos
	}
	if len(l.Program) == 0 {
		return nil, src.errorAt(0, `no instruction found: want initialisers such as "{ 0x28, 0, 0, 0x0000000c },"`)
	}
	if rest := afterComma(text[end:]); rest != "" && strings.ContainsRune("{0123456789", rune(rest[0])) {
		return nil, src.errorAt(lines.at(len(text)-len(rest)), fmt.Sprintf("after instruction %d: want another { code, jt, jf, k } or the end of the array, got %.20q", len(l.Program)-1, rest))
	}
	return l, nil
}

// blank overwrites all but the line ends.
func blank(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, s)
}

// group returns what stands before closer in text and the offset behind it.
// Braces do not nest in an instruction, parentheses do.
func group(text, closer string) (body string, next int, closed bool) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', ';':
			return text[:i], i, false
		case '(':
			depth++
		case ')', '}':
			if text[i] == closer[0] && (depth == 0 || closer == "}") {
				return text[:i], i + 1, true
			}
			depth--
		}
	}
	return text, len(text), false
}

// looksLikeInstruction tells an instruction, sound or damaged, from other
// things that C has in braces.
func looksLikeInstruction(body string) bool {
	body = strings.TrimSpace(body)
	switch {
	case body == "":
		return false
	case body[0] >= '0' && body[0] <= '9', strings.HasPrefix(body, ".code"):
		return true
	}
	return strings.HasPrefix(body, "BPF_") && !initialiser.MatchString(body)
}

// checkGap judges the text before instruction n: since the one before, or
// since the beginning.
func checkGap(gap string, n int) (reason string) {
	gap = strings.TrimSpace(gap)
	switch {
	case n == 0 && strings.HasSuffix(gap, ","):
		return "a comma before the first instruction: want the whole array, each instruction as { code, jt, jf, k }"
	case n > 0 && gap != "" && gap != ",":
		return fmt.Sprintf("%.40q between instructions %d and %d: want one array of { code, jt, jf, k }", gap, n-1, n)
	}
	return ""
}

func afterComma(text string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), ","))
}

// parseInitialiser reads the numbers between braces or parentheses. fields has
// the meaning of each: 0 code, 1 jt, 2 jf, 3 k.
func parseInitialiser(body string, fields []int) (ins bpf.Instruction, reason string) {
	args := splitArgs(body)
	if last := len(args) - 1; last > 0 && strings.TrimSpace(args[last]) == "" {
		args = args[:last]
	}
	if len(args) != len(fields) {
		return ins, fmt.Sprintf("%.60q has %d fields: want %d", strings.TrimSpace(body), len(args), len(fields))
	}
	var values [4]uint64
	for n, field := range fields {
		limit, arg := limits[field], strings.TrimSpace(args[n])
		if m := designator.FindStringSubmatch(arg); m != nil {
			if m[1] != limit.field {
				return ins, fmt.Sprintf("field .%.20s: want .%s here", m[1], limit.field)
			}
			arg = m[2]
		}
		v, reason := parseCExpr(arg)
		if reason != "" {
			return ins, fmt.Sprintf("%s: %s", limit.field, reason)
		}
		if v < 0 && field == 3 && v >= -1<<31 {
			v = int64(uint32(v))
		}
		if v < 0 || uint64(v) > limit.max {
			return ins, fmt.Sprintf("%s %.40q does not fit: want 0 to %d", limit.field, arg, limit.max)
		}
		values[field] = uint64(v)
	}
	return instruction(values), ""
}

// splitArgs splits at the commas outside parentheses.
func splitArgs(body string) (args []string) {
	depth, start := 0, 0
	for i, c := range body {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			args = append(args, body[start:i])
			start = i + 1
		}
	}
	return append(args, body[start:])
}

// parseCExpr evaluates numbers and constants joined by "+" and "|". All
// constants but SKF_..._OFF are disjoint bits, so parentheses change nothing
// that people write and are dropped.
func parseCExpr(expr string) (value int64, reason string) {
	flat := strings.NewReplacer("(", " ", ")", " ").Replace(expr)
	for _, part := range strings.Split(flat, "|") {
		var sum int64
		for _, term := range strings.Split(part, "+") {
			term = strings.TrimSpace(term)
			v, ok := cConstants[term]
			if !ok {
				if v, ok = parseCNumber(term); !ok {
					return 0, fmt.Sprintf("%.60q: want a number of 32 bits or constants named BPF_ or SKF_", expr)
				}
			}
			sum += v
		}
		value |= sum
	}
	return value, ""
}

func parseCNumber(s string) (v int64, ok bool) {
	if !cNumber.MatchString(s) {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimRight(s, "uUlL"), 0, 34)
	return v, err == nil
}

// cConstants are linux/bpf_common.h and linux/filter.h.
var cConstants = map[string]int64{
	"BPF_LD": 0x00, "BPF_LDX": 0x01, "BPF_ST": 0x02, "BPF_STX": 0x03,
	"BPF_ALU": 0x04, "BPF_JMP": 0x05, "BPF_RET": 0x06, "BPF_MISC": 0x07,
	"BPF_W": 0x00, "BPF_H": 0x08, "BPF_B": 0x10,
	"BPF_IMM": 0x00, "BPF_ABS": 0x20, "BPF_IND": 0x40, "BPF_MEM": 0x60, "BPF_LEN": 0x80, "BPF_MSH": 0xa0,
	"BPF_ADD": 0x00, "BPF_SUB": 0x10, "BPF_MUL": 0x20, "BPF_DIV": 0x30, "BPF_OR": 0x40, "BPF_AND": 0x50,
	"BPF_LSH": 0x60, "BPF_RSH": 0x70, "BPF_NEG": 0x80, "BPF_MOD": 0x90, "BPF_XOR": 0xa0,
	"BPF_JA": 0x00, "BPF_JEQ": 0x10, "BPF_JGT": 0x20, "BPF_JGE": 0x30, "BPF_JSET": 0x40,
	"BPF_K": 0x00, "BPF_X": 0x08, "BPF_A": 0x10, "BPF_TAX": 0x00, "BPF_TXA": 0x80,
	"SKF_AD_OFF": -0x1000, "SKF_NET_OFF": -0x100000, "SKF_LL_OFF": -0x200000,
	"SKF_AD_PROTOCOL": 0, "SKF_AD_PKTTYPE": 4, "SKF_AD_IFINDEX": 8, "SKF_AD_NLATTR": 12,
	"SKF_AD_NLATTR_NEST": 16, "SKF_AD_MARK": 20, "SKF_AD_QUEUE": 24, "SKF_AD_HATYPE": 28,
	"SKF_AD_RXHASH": 32, "SKF_AD_CPU": 36, "SKF_AD_ALU_XOR_X": 40, "SKF_AD_VLAN_TAG": 44,
	"SKF_AD_VLAN_TAG_PRESENT": 48, "SKF_AD_PAY_OFFSET": 52, "SKF_AD_RANDOM": 56, "SKF_AD_VLAN_TPID": 60,
}
