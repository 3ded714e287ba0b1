package kernelabi

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SymbolTable holds the names of a kernel's functions and their addresses. A
// name may have several addresses, an address several names.
type SymbolTable struct {
	byName map[string][]uint64
	byAddr map[uint64]string // the best name
}

// NewSymbolTable makes a table of one address per name.
func NewSymbolTable(symbols map[string]uint64) *SymbolTable {
	t := &SymbolTable{byName: map[string][]uint64{}, byAddr: map[uint64]string{}}
	for name, addr := range symbols {
		t.add(name, addr)
	}
	return t
}

func (t *SymbolTable) add(name string, addr uint64) {
	if slices.Contains(t.byName[name], addr) {
		return
	}
	t.byName[name] = append(t.byName[name], addr)
	if old, ok := t.byAddr[addr]; !ok || rank(name, old) < 0 {
		t.byAddr[addr] = name
	}
}

// rank orders names of one address: those that compiled code refers to, then
// plain ones before those with more underscores or marks in front.
func rank(a, b string) int {
	known := func(name string) int {
		if _, ok := routines[name]; ok || isReturnThunk(name) {
			return 0
		}
		return 1
	}
	marks := func(name string) int { return len(name) - len(strings.TrimLeft(name, "_$.")) }
	return cmp.Or(cmp.Compare(known(a), known(b)), cmp.Compare(marks(a), marks(b)),
		cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// Len returns the number of names.
func (t *SymbolTable) Len() int { return len(t.byName) }

// Name returns the name of an address, "" if there is none.
func (t *SymbolTable) Name(addr uint64) string { return t.byAddr[addr] }

// Addresses returns those of a name.
func (t *SymbolTable) Addresses(name string) []uint64 { return t.byName[name] }

// SymbolError is a symbol file with a fault.
type SymbolError struct {
	File   string
	Line   int // 0: the whole file
	Reason string
}

func (e *SymbolError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// ParseSymbols reads /proc/kallsyms or System.map ("address type name", a
// module's name in brackets behind it), or a list of name=address, separated by
// line ends, commas or blanks. Addresses are hex, with or without 0x. Empty
// lines and lines that begin with # are passed over. name is the file's, for
// messages; errors are *SymbolError.
func ParseSymbols(name string, data []byte) (*SymbolTable, error) {
	t := NewSymbolTable(nil)
	zeros := 0
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		entries, err := parseSymbolLine(line)
		if err != nil {
			return nil, &SymbolError{name, n, err.Error()}
		}
		for _, e := range entries {
			switch {
			case e.addr == 0:
				zeros++
			case e.code:
				t.add(e.name, e.addr)
			}
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, &SymbolError{name, n + 1, "the line is too long"}
	case t.Len() == 0 && zeros > 0:
		return nil, &SymbolError{name, 0, "all addresses are 0: read /proc/kallsyms as root, with kernel.kptr_restrict = 0"}
	case t.Len() == 0:
		return nil, &SymbolError{name, 0, "there are no symbols in it"}
	}
	return t, nil
}

type symbolEntry struct {
	name string
	addr uint64
	code bool // a function, or not known what
}

func parseSymbolLine(line string) ([]symbolEntry, error) {
	if strings.Contains(line, "=") {
		var entries []symbolEntry
		for _, item := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			name, text, ok := strings.Cut(item, "=")
			addr, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
			if !ok || name == "" || err != nil {
				return nil, fmt.Errorf("%.60q: want name=address, the address in hex", item)
			}
			entries = append(entries, symbolEntry{name, addr, true})
		}
		return entries, nil
	}
	fields := strings.Fields(line)
	if len(fields) < 3 || len(fields[1]) != 1 {
		return nil, fmt.Errorf("%.60q: want an address, a type and a name, as in System.map, or name=address", line)
	}
	addr, err := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("%.40q is no hex address of up to 64 bits", fields[0])
	}
	return []symbolEntry{{fields[2], addr, strings.Contains("tTwW", fields[1])}}, nil
}

// routines are the functions that code compiled from classic programs calls or
// jumps to on kernels of the 4.15 to 6 series, beside return thunks.
var routines = map[string]struct{}{
	"bpf_skb_load_helper_8": {}, "bpf_skb_load_helper_16": {}, "bpf_skb_load_helper_32": {},
	"bpf_skb_load_helper_8_no_cache": {}, "bpf_skb_load_helper_16_no_cache": {}, "bpf_skb_load_helper_32_no_cache": {},
	"bpf_get_raw_cpu_id": {}, "bpf_skb_get_nlattr": {}, "bpf_skb_get_nlattr_nest": {},
	"bpf_skb_get_pay_offset": {}, "bpf_user_rnd_u32": {},
	"jit_udiv32": {}, "jit_mod32": {}, "clear_bhb_loop": {}, "clear_bhb_loop_nofence": {},
}

// isReturnThunk: x86_64 code may end with a jump to one in place of a ret.
func isReturnThunk(name string) bool { return strings.HasSuffix(name, "_return_thunk") }

// UnresolvedError is an address that an image calls or jumps to and that no
// symbol has.
type UnresolvedError struct {
	Reference
	BaseKnown bool // otherwise the address may be wrong
}

func (e *UnresolvedError) Error() string {
	text := fmt.Sprintf("image+%#x: %s: no symbol is at %#x: ", e.Offset, e.Text, e.Target)
	switch {
	case e.Relative && !e.BaseKnown:
		return text + "give the image's base, which is not known, or the kernel's symbols, such as its /proc/kallsyms"
	case e.Relative:
		return text + "the base is wrong, or the kernel's symbols are others: give those, such as its /proc/kallsyms"
	}
	return text + "give the kernel's symbols, such as its /proc/kallsyms"
}

// Resolve finds the names of all addresses outside an image that its code
// refers to. The first without a name is an *UnresolvedError; bytes that are no
// code are a *CodeError.
func (t *SymbolTable) Resolve(img *Image) (map[string]uint64, error) {
	refs, err := img.References()
	if err != nil {
		return nil, err
	}
	found := map[string]uint64{}
	for _, ref := range refs {
		name := t.Name(ref.Target)
		if name == "" {
			return nil, &UnresolvedError{ref, img.BaseKnown}
		}
		found[name] = ref.Target
	}
	return found, nil
}
