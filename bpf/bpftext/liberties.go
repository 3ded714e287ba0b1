package bpftext

import "strings"

// Liberty is something that form [Asm] accepts and bpf_asm does not.
type Liberty struct {
	Syntax string // an example, or what it is
	Reason string // why it is accepted
}

// liberty is one, as a bit of liberties.
type liberty uint8

type liberties uint8

func (s *liberties) add(l liberty) { *s |= liberties(1) << l }

const (
	_ liberty = iota
	tightIndex
	pcapExtension
	shortLabel
	slashComment
	loneHash
	starComment
	mailAndEditors
)

// Liberties are all that form [Asm] accepts beyond bpf_asm's grammar; form
// [AsmStrict] takes none.
var Liberties = []Liberty{
	tightIndex:     {"ldh [x+14]", "bpf_asm reads +14 as a signed number and fails; the kernel's own documentation and bpf_dbg write it so"},
	pcapExtension:  {"ld vlanp, ld random, ld xor_x", "libpcap's names of ancillary loads, where bpf_asm has another name or none"},
	shortLabel:     {"L: ret #0", "bpf_asm wants labels of two characters, by an accident of its lexer; a, x and m stay reserved"},
	slashComment:   {"// comment", "the comment that the other forms take"},
	loneHash:       {"# alone on a line", "an empty comment line, which bpf_asm takes for the start of an immediate"},
	starComment:    {"/** comment **/", "bpf_asm does not see the end of a comment that has an even number of stars there"},
	mailAndEditors: {"> quoted lines, CR LF, a byte order mark", "what mail and editors do to text"},
}[1:]

// applies reports whether the coming operand is one that the liberty is for.
func (l liberty) applies(p *asmParser) bool {
	switch l {
	case tightIndex:
		n := 2
		if p.peek(1).kind == '%' {
			n = 3
		}
		return p.peek(0).kind == '[' && p.peek(n-1).kind == 'x' && strings.ContainsAny(p.peek(n).text, "+-")
	case pcapExtension:
		_, ok := ancillary[strings.ToLower(p.peek(0).text)]
		return ok && p.peek(1).kind != ':'
	}
	return true
}

// named returns the liberties in the set.
func (s liberties) named() []Liberty {
	var all []Liberty
	for n, l := range Liberties {
		if s&(1<<(n+1)) != 0 {
			all = append(all, l)
		}
	}
	return all
}
