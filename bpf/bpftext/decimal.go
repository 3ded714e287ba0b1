package bpftext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

func formatDDD(prog bpf.Program) ([]byte, error) {
	return append(fmt.Appendf(nil, "%d\n", len(prog)), appendEach(prog, "%d %d %d %d\n")...), nil
}

func formatComma(prog bpf.Program) ([]byte, error) {
	b := append(fmt.Appendf(nil, "%d,", len(prog)), appendEach(prog, "%d %d %d %d,")...)
	return append(b, '\n'), nil
}

// parseDDD reads a count line and that many lines "code jt jf k". Text before
// the count and after the last instruction is passed over: command lines and
// warnings.
func parseDDD(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	l := &Listing{Comments: src.comments}
	line, count := 0, 0
	for text := range strings.Lines(src.text) {
		line++
		text = strings.TrimSpace(text)
		number := text != "" && strings.ContainsRune("+-0123456789", rune(text[0]))
		switch {
		case text == "", !number && (count == 0 || len(l.Program) == count):
		case count == 0:
			var reason string
			if count, reason = parseCount(text); reason != "" {
				return nil, src.errorAt(line, reason)
			}
		case len(l.Program) == count:
			return nil, src.errorAt(line, fmt.Sprintf("more instructions than the count, %d", count))
		default:
			ins, reason := parseFields(text, false)
			if reason != "" {
				return nil, src.errorAt(line, reason)
			}
			l.Program = append(l.Program, ins)
			l.Lines = append(l.Lines, line)
		}
	}
	switch {
	case count == 0:
		return nil, src.errorAt(0, "no count found: want the number of instructions alone on a line")
	case len(l.Program) < count:
		return nil, src.errorAt(line, fmt.Sprintf("%d instructions: want %d, the count", len(l.Program), count))
	}
	return l, nil
}

// wrapping is what people copy around the comma form: the bpf_dbg command, an
// iptables rule, or the lines above it in a terminal.
var wrapping = regexp.MustCompile(`--bytecode\s+(["']?)|(?m:^[ \t]*load[ \t]+bpf[ \t]+(["']?))|(?m:^[ \t]*(["']?)[ \t]*[0-9]+[ \t]*,)`)

// unwrap cuts the comma form out of the text around it. off is where it begins.
func (s *source) unwrap() (text string, off int, err error) {
	if strings.Count(s.text, "--bytecode") > 1 {
		return "", 0, s.errorAt(0, "more than one --bytecode: want one program")
	}
	quote := ""
	if m := wrapping.FindStringSubmatchIndex(s.text); m != nil {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				quote, off = s.text[m[g]:m[g+1]], m[g+1]
			}
		}
	}
	text = s.text[off:]
	if quote != "" {
		var closed bool
		if text, _, closed = strings.Cut(text, quote); !closed {
			return "", 0, s.errorAt(0, fmt.Sprintf("no %s closes the program", quote))
		}
		return text, off, nil
	}
	if m := otherText.FindStringIndex(text); m != nil {
		text = text[:m[0]]
	}
	return text, off, nil
}

// otherText is a line below a program that cannot belong to it.
var otherText = regexp.MustCompile(`\n[ \t]*[^-+0-9, \t\n]`)

// parseComma reads "N,code jt jf k,...", with or without the last comma. Line
// ends count as blanks.
func parseComma(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	text, off, err := src.unwrap()
	if err != nil {
		return nil, err
	}
	head, rest, _ := strings.Cut(text, ",")
	lines := lineCounter{text: src.text}
	count, reason := parseCount(head)
	if reason != "" {
		return nil, src.errorAt(lines.at(off), reason)
	}
	l := &Listing{Comments: src.comments}
	off += len(head) + 1
	for strings.TrimSpace(rest) != "" {
		var item string
		start := rest
		item, rest, _ = strings.Cut(rest, ",")
		line := lines.at(off + blanks(item, " \t\n"))
		off += len(start) - len(rest)
		if len(l.Program) == count {
			return nil, src.errorAt(line, fmt.Sprintf("more instructions than the count, %d", count))
		}
		ins, reason := parseFields(item, false)
		if reason != "" {
			return nil, src.errorAt(line, reason)
		}
		l.Program = append(l.Program, ins)
		l.Lines = append(l.Lines, line)
	}
	if len(l.Program) < count {
		return nil, src.errorAt(lines.at(len(src.text)), fmt.Sprintf("%d instructions: want %d, the count", len(l.Program), count))
	}
	return l, nil
}

// maxXT is the most instructions an xt_bpf match has (Linux,
// XT_BPF_MAX_NUM_INSTR).
const maxXT = 64

func formatXT(prog bpf.Program) ([]byte, error) {
	if len(prog) > maxXT {
		return nil, &FormatError{XT, -1, fmt.Sprintf("%d instructions: iptables takes at most %d", len(prog), maxXT)}
	}
	return append(fmt.Appendf(nil, "%d", len(prog)), appendEach(prog, ",%d %d %d %d")...), nil
}

// parseXT reads what iptables 1.8.9 reads, and as it does: numbers are cut to
// the size of their field, a minus sign negates, and whatever follows the four
// numbers of an instruction is ignored. Nobody wants that but to know what
// iptables made of a text; [Parse] takes the same texts as Comma and is strict.
func parseXT(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	text, _, err := src.unwrap()
	if err != nil {
		return nil, err
	}
	text = strings.TrimRight(text, " \t\n")
	head, ok := scanC(&text)
	count := uint16(head)
	switch {
	case !ok || !strings.HasPrefix(text, ","):
		return nil, src.errorAt(1, "no program length: want a decimal number and a comma directly behind it")
	case count == 0 || count > maxXT:
		return nil, src.errorAt(1, fmt.Sprintf("%d instructions: iptables takes 1 to %d", count, maxXT))
	}
	l := &Listing{Comments: src.comments}
	items := strings.Split(text[1:], ",")
	if last := len(items) - 1; items[last] == "" {
		items = items[:last]
	}
	for n, item := range items {
		if n == int(count) {
			return nil, src.errorAt(1, fmt.Sprintf("more instructions than the program length, %d", count))
		}
		var v [4]uint64
		for field := range v {
			if v[field], ok = scanC(&item); !ok {
				return nil, src.errorAt(1, fmt.Sprintf("instruction %d: want code jt jf k in decimal", n))
			}
		}
		l.Program = append(l.Program, instruction(v))
		l.Lines = append(l.Lines, 1)
	}
	if len(l.Program) < int(count) {
		return nil, src.errorAt(1, fmt.Sprintf("%d instructions: want %d, the program length", len(l.Program), count))
	}
	return l, nil
}

// scanC reads a number as C's scanf does for %u on a 64-bit machine: blanks, a
// sign, digits; what is above 64 bits becomes the largest value.
func scanC(s *string) (v uint64, ok bool) {
	rest := strings.TrimLeft(*s, " \t\n\v\f\r")
	negative := strings.HasPrefix(rest, "-")
	if negative || strings.HasPrefix(rest, "+") {
		rest = rest[1:]
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if digits == "" {
		return 0, false
	}
	*s = rest[len(digits):]
	v, err := strconv.ParseUint(digits, 10, 64) // the largest value when out of range
	if negative && err == nil {
		v = -v
	}
	return v, true
}
