package bpftext

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// formatSS writes the line that ss -0b of iproute2 prints below a socket.
func formatSS(prog bpf.Program) ([]byte, error) {
	b := fmt.Appendf(nil, "\tbpf filter (%d): ", len(prog))
	b = append(b, appendEach(prog, " 0x%02x %d %d %d,")...)
	return append(b, '\n'), nil
}

// parseSS reads the filter in the output of ss -0b. The socket lines around it
// are passed over; the filter may be wrapped over several lines.
func parseSS(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	found := markSS.FindAllStringIndex(src.text, 2)
	switch len(found) {
	case 0:
		return nil, src.errorAt(0, `no filter found: want a line such as "bpf filter (1):  0x06 0 0 0,"`)
	case 2:
		lines := lineCounter{text: src.text}
		return nil, src.errorAt(lines.at(found[1][0]), "a second bpf filter: want one program")
	}
	lines := lineCounter{text: src.text}
	off := found[0][1]
	mark := src.text[found[0][0]:off]
	count, reason := parseCount(mark[strings.Index(mark, "(")+1 : strings.Index(mark, ")")])
	if reason != "" {
		return nil, src.errorAt(lines.at(found[0][0]), reason)
	}
	l := &Listing{Comments: src.comments}
	for range count {
		start := off + blanks(src.text[off:], " \t\n")
		item := src.text[start:]
		if end := strings.IndexAny(item, ",()"); end >= 0 {
			item = item[:end]
		} else if len(l.Program) == count-1 {
			item, _, _ = strings.Cut(item, "\n")
		}
		line := lines.at(start)
		if strings.TrimSpace(item) == "" {
			return nil, src.errorAt(line, fmt.Sprintf("%d instructions: want %d, the count", len(l.Program), count))
		}
		ins, reason := parseFields(item, true)
		if reason != "" {
			return nil, src.errorAt(line, reason)
		}
		l.Program = append(l.Program, ins)
		l.Lines = append(l.Lines, line)
		off = start + len(item)
		if strings.HasPrefix(src.text[off:], ",") {
			off++
		}
	}
	if more, _, _ := strings.Cut(src.text[off:], "\n"); strings.TrimSpace(more) != "" {
		return nil, src.errorAt(lines.at(off), fmt.Sprintf("%.40q after the %d instructions of the count", more, count))
	}
	return l, nil
}

// blanks counts the bytes of cutset that text begins with.
func blanks(text, cutset string) int { return len(text) - len(strings.TrimLeft(text, cutset)) }
