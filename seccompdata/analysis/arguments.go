package analysis

import (
	_ "embed"
	"strings"
	"sync"
)

// width says how much of an argument the kernel looks at.
type width uint8

const (
	widthUnknown width = iota
	widthInt           // 32 bits: int, unsigned, and what is cut to that at once
	widthLong          // all 64: long, size_t, off_t
	widthPointer       // all 64, an address
)

// argumentTypes has a line for each call whose arguments are known, and for each
// argument i (int), l (long) or p (pointer). Source: the SYSCALL_DEFINEs of
// Linux 6.12, include/linux/syscalls.h.
//
//go:embed arguments.txt
var argumentTypes string

// widths is parsed when it is first needed: of all commands, lint alone does.
var widths = sync.OnceValue(func() map[string][]width { return parseWidths(argumentTypes) })

func parseWidths(text string) map[string][]width {
	letters := map[rune]width{'i': widthInt, 'l': widthLong, 'p': widthPointer}
	out := map[string][]width{}
	for line := range strings.Lines(text) {
		name, types, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name[0] == '#' {
			continue
		}
		var list []width
		for _, letter := range types {
			list = append(list, letters[letter])
		}
		out[name] = list
	}
	return out
}

// argumentWidth is the width of argument n of a call on a 64-bit ABI.
func argumentWidth(call string, n int) width {
	if list := widths()[call]; n < len(list) {
		return list[n]
	}
	return widthUnknown
}
