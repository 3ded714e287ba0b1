package report

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Pair is a BPF instruction with the machine code that was made of it.
type Pair struct {
	BPF    string
	Native []Code
	Parts  bool // here both sides part
}

// Code is a machine instruction.
type Code struct {
	Offset, Bytes, Text string
	Marked              bool
}

// The lines of a listing that stands side by side, as package listing writes
// them.
var listingLines = sync.OnceValues(func() (bpf, native *regexp.Regexp) {
	return regexp.MustCompile(`^(\((\d+)\) .*|\(entry\))$`), regexp.MustCompile(`^(  |=>) +([0-9a-f]+):  ([0-9a-f]+) +(.*)$`)
})

// parseListing takes a listing apart. at is the BPF instruction to mark, -1 for
// none. One that is written otherwise comes back as it is.
func parseListing(text string, at int) (pairs []Pair, plain string) {
	bpfLine, nativeLine := listingLines()
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		if m := bpfLine.FindStringSubmatch(l); m != nil {
			p := Pair{BPF: cut(strings.ReplaceAll(m[1], "\t", "  "), maxLine)}
			if pc, err := strconv.Atoi(m[2]); err == nil {
				p.Parts = pc == at
			}
			pairs = append(pairs, p)
			continue
		}
		m := nativeLine.FindStringSubmatch(l)
		if m == nil {
			return nil, block(text)
		}
		if len(pairs) == 0 {
			pairs = append(pairs, Pair{})
		}
		last := &pairs[len(pairs)-1]
		last.Native = append(last.Native, Code{m[2], m[3], cut(m[4], maxLine), m[1] == "=>"})
		last.Parts = last.Parts || m[1] == "=>"
	}
	return pairs, ""
}
