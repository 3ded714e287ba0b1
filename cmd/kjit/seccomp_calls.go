package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/seccompdata"
)

// callFlags say which system calls are asked about.
type callFlags struct {
	ABI  []string `name:"abi" placeholder:"NAME" help:"Only calls of these ABIs (default: those of the machine that the filters are for)."`
	Call []string `placeholder:"NAME" help:"Only these calls: names with * and ?, numbers, or ranges of numbers such as 100-120."`
}

// callSelection is what callFlags ask for.
type callSelection struct {
	abis    []*seccompdata.ABI
	filters []callFilter // none: all calls
	texts   []string     // of the filters
}

// selection reads the flags.
func (f *callFlags) selection() (s callSelection, err error) {
	if s.abis, err = parseABIs("--abi", f.ABI); err != nil {
		return s, err
	}
	s.filters, err = parseCalls(f.Call)
	s.texts = f.Call
	return s, err
}

// on completes a selection without ABIs with those of the chain's machine.
func (s *callSelection) on(machine *seccompdata.ABI) {
	if len(s.abis) == 0 {
		s.abis = abisOn[machine]
	}
}

// has reports whether a call is among them.
func (s *callSelection) has(abi *seccompdata.ABI, nr uint32) bool {
	return len(s.filters) == 0 || slices.ContainsFunc(s.filters, func(f callFilter) bool { return f.matches(abi, nr) })
}

// nothing is the error where no call was among them.
func (s *callSelection) nothing(k seccompdata.Kernel) error {
	return badInput(fmt.Errorf("--call %s: no call of %s in Linux %s", strings.Join(s.texts, ","), abiList(s.abis), k))
}

// numbers are the single ones of --call, with the bit of each ABI: they are
// tried whether they have a name or not.
func (s *callSelection) numbers() map[*seccompdata.ABI][]uint32 {
	out := map[*seccompdata.ABI][]uint32{}
	for _, f := range s.filters {
		if f.pattern != "" || f.first != f.last || int64(int32(f.first)) != f.first && int64(uint32(f.first)) != f.first {
			continue
		}
		for _, abi := range s.abis {
			nr := uint32(f.first)
			if int32(nr) >= 0 {
				nr |= abi.Bit
			}
			if seccompdata.ABIOf(abi.Arch, nr) == abi {
				out[abi] = append(out[abi], nr)
			}
		}
	}
	return out
}

// parseABI reads the ABI that a flag names.
func parseABI(flag, name string) (*seccompdata.ABI, error) {
	abi, err := seccompdata.ABIByName(name)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", flag, err))
	}
	return abi, nil
}

func parseABIs(flag string, names []string) (abis []*seccompdata.ABI, err error) {
	for _, name := range names {
		abi, err := parseABI(flag, name)
		if err != nil {
			return nil, err
		}
		abis = append(abis, abi)
	}
	return abis, nil
}

// callFilter is one of --call.
type callFilter struct {
	pattern     string // of names; "": a range
	first, last int64
}

func parseCalls(texts []string) (filters []callFilter, err error) {
	for _, text := range texts {
		first, last, isRange := strings.Cut(text, "-")
		if text != "" && first == "" {
			first, last, isRange = text, "", false // a negative number
		}
		from, err := strconv.ParseInt(first, 0, 64)
		if err != nil {
			if _, err := path.Match(text, ""); err != nil || text == "" {
				return nil, badInput(fmt.Errorf("--call %q: want a name, which may have * and ?, a number, or a range of numbers", text))
			}
			filters = append(filters, callFilter{pattern: text})
			continue
		}
		to := from
		if isRange {
			if to, err = strconv.ParseInt(last, 0, 64); err != nil || to < from {
				return nil, badInput(fmt.Errorf("--call %q: want two numbers, the smaller first", text))
			}
		}
		filters = append(filters, callFilter{first: from, last: to})
	}
	return filters, nil
}

// matches reports whether the filter means a call: by its name, or by its number
// with or without the bit of its ABI.
func (f callFilter) matches(abi *seccompdata.ABI, nr uint32) bool {
	if f.pattern != "" {
		name, ok := abi.Call(nr)
		matched, _ := path.Match(f.pattern, name)
		return ok && matched
	}
	for _, n := range []int64{int64(int32(nr)), int64(nr), int64(nr &^ abi.Bit)} {
		if n >= f.first && n <= f.last {
			return true
		}
	}
	return false
}

// parseArgs reads --args.
func parseArgs(texts []string) (all [][6]uint64, err error) {
	for _, text := range texts {
		var args [6]uint64
		parts := strings.Split(text, ",")
		if len(parts) > len(args) {
			return nil, badInput(fmt.Errorf("--args %s: %d arguments, a system call has %d", text, len(parts), len(args)))
		}
		for i, part := range parts {
			n, err := parseArgument(strings.TrimSpace(part))
			if err != nil {
				return nil, badInput(fmt.Errorf("--args %s: %w", text, err))
			}
			args[i] = n
		}
		all = append(all, args)
	}
	return all, nil
}

// parseArgument reads a 64-bit number; a negative one is sign-extended.
func parseArgument(text string) (uint64, error) {
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, errors.New(strconv.Quote(text) + " is no number of up to 64 bits")
	}
	return n, nil
}

// argumentsText is what of an input is not 0.
func argumentsText(d *seccompdata.Data) string {
	var parts []string
	for i, arg := range d.Args {
		if arg != 0 {
			parts = append(parts, fmt.Sprintf("args[%d]=%#x", i, arg))
		}
	}
	if d.IP != 0 {
		parts = append(parts, fmt.Sprintf("ip=%#x", d.IP))
	}
	return strings.Join(parts, " ")
}
