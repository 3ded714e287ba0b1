package kernelabi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// AmbiguousBaseError: an image fits the symbols at more than one address.
type AmbiguousBaseError struct{ Candidates []uint64 }

func (e *AmbiguousBaseError) Error() string {
	var list []string
	for _, c := range e.Candidates[:min(len(e.Candidates), 5)] {
		list = append(list, fmt.Sprintf("%#x", c))
	}
	if len(e.Candidates) > 5 {
		list = append(list, "...")
	}
	return fmt.Sprintf("the base address is ambiguous: the calls fit the symbols at %s: give the base, or the program that the image was made of", strings.Join(list, ", "))
}

// NoBaseError: no address makes the image's calls fit the symbols, or it has
// none to go by.
type NoBaseError struct {
	NoCalls bool
	Reason  string
}

func (e *NoBaseError) Error() string { return "the base address cannot be found: " + e.Reason }

// SolveBase finds where x86_64 code ran from what it calls: every call has to
// lead to a routine that compiled code calls, at the address that the table has
// for it. prog, the program it was made of, says which load every call is, and
// may be nil. printed is the address that a kernel logged, 0 if unknown: its low
// 6 bits are those of the base.
//
// What it jumps to has to be a return thunk.
//
// It returns *AmbiguousBaseError when several addresses fit, *NoBaseError when
// none does, and *CodeError for bytes that are no code.
func SolveBase(img *Image, prog bpf.Program, kind bpf.Kind, symbols *SymbolTable, printed uint64) (uint64, error) {
	at0 := *img
	at0.Base = 0
	refs, err := at0.References()
	if err != nil {
		return 0, err
	}
	refs = slices.DeleteFunc(refs, func(r Reference) bool { return !r.Relative })
	calls := slices.DeleteFunc(slices.Clone(refs), func(r Reference) bool { return !r.Call })
	if len(refs) == 0 {
		return 0, &NoBaseError{NoCalls: true, Reason: "the code calls nothing, so that it runs anywhere"}
	}
	for _, ref := range refs {
		if !ref.Call && !strings.HasPrefix(ref.Text, "jmp ") {
			return 0, &NoBaseError{Reason: fmt.Sprintf("image+%#x is a conditional jump out of the image (%s): no JIT makes one", ref.Offset, ref.Text)}
		}
	}
	names := callees
	if img.Profile.Emitter != "" { // a classic JIT calls assembled routines
		names, prog = nil, nil
		for name := range symbols.byName {
			if strings.HasPrefix(name, "sk_load_") {
				names = append(names, name)
			}
		}
	}
	expected := make([][]string, len(calls))
	for i := range expected {
		expected[i] = names
	}
	if prog != nil {
		names := calledBy(prog, kind)
		if len(names) != len(calls) {
			return 0, &NoBaseError{Reason: fmt.Sprintf("the program has %d loads that need a call, the image %d calls: it was made of another program", len(names), len(calls))}
		}
		for i, name := range names {
			expected[i] = []string{name}
		}
	}
	fits := func(base uint64) bool {
		for i, call := range calls {
			if !slices.ContainsFunc(expected[i], func(name string) bool {
				return slices.Contains(symbols.Addresses(name), base+call.Target)
			}) {
				return false
			}
		}
		for _, ref := range refs {
			if !ref.Call && !isReturnThunk(symbols.Name(base+ref.Target)) {
				return false
			}
		}
		return true
	}
	var candidates []uint64
	consider := func(name string, from uint64) {
		for _, addr := range symbols.Addresses(name) {
			if base := addr - from; fits(base) && !slices.Contains(candidates, base) {
				candidates = append(candidates, base)
			}
		}
	}
	if len(calls) > 0 {
		for _, name := range expected[0] {
			consider(name, calls[0].Target)
		}
	} else {
		for name := range symbols.byName {
			if isReturnThunk(name) {
				consider(name, refs[0].Target)
			}
		}
	}
	if printed != 0 && len(candidates) > 1 {
		near := slices.DeleteFunc(slices.Clone(candidates), func(c uint64) bool { return (c^printed)&63 != 0 })
		if len(near) > 0 {
			candidates = near
		}
	}
	slices.Sort(candidates)
	switch len(candidates) {
	case 0:
		return 0, &NoBaseError{Reason: "there is no address at which all calls lead to symbols: these are another kernel's symbols, or another program"}
	case 1:
		return candidates[0], nil
	}
	return 0, &AmbiguousBaseError{candidates}
}

// callees are the routines that loads call.
var callees = []string{
	"bpf_skb_load_helper_8", "bpf_skb_load_helper_16", "bpf_skb_load_helper_32", "bpf_get_raw_cpu_id",
	"bpf_skb_get_nlattr", "bpf_skb_get_nlattr_nest", "bpf_skb_get_pay_offset", "bpf_user_rnd_u32",
}

// extensionCalls are the ancillary loads that are calls.
var extensionCalls = map[bpf.Extension]string{
	bpf.ExtCPU: "bpf_get_raw_cpu_id", bpf.ExtNlattr: "bpf_skb_get_nlattr", bpf.ExtNlattrN: "bpf_skb_get_nlattr_nest",
	bpf.ExtPayOffset: "bpf_skb_get_pay_offset", bpf.ExtRandom: "bpf_user_rnd_u32",
}

// loadCalls are the routines of packet loads. Every one has a call, for what
// the code itself does not reach.
var loadCalls = map[uint16]string{
	bpf.LdBAbs: "bpf_skb_load_helper_8", bpf.LdBInd: "bpf_skb_load_helper_8", bpf.LdxMsh: "bpf_skb_load_helper_8",
	bpf.LdHAbs: "bpf_skb_load_helper_16", bpf.LdHInd: "bpf_skb_load_helper_16",
	bpf.LdWAbs: "bpf_skb_load_helper_32", bpf.LdWInd: "bpf_skb_load_helper_32",
}

// calledBy lists the calls that a kernel of the 6 series makes of a program's
// loads, in order: images have every instruction, reachable or not. Loads of
// seccomp filters call nothing.
func calledBy(prog bpf.Program, kind bpf.Kind) []string {
	if kind == bpf.Seccomp {
		return nil
	}
	var names []string
	for _, ins := range prog {
		if ext, ok := ins.Extension(); ok {
			if name, ok := extensionCalls[ext]; ok {
				names = append(names, name)
			}
		} else if name, ok := loadCalls[ins.Code]; ok {
			names = append(names, name)
		}
	}
	return names
}
