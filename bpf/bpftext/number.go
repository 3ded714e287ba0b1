package bpftext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// parseK reads a 32-bit constant as any tool may print it: signed or unsigned
// decimal, or hex with 0x.
func parseK(s string) (uint32, bool) {
	if hex, ok := cutHex(s); ok {
		v, err := strconv.ParseUint(hex, 16, 32)
		return uint32(v), err == nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return uint32(v), err == nil && v >= -1<<31 && v < 1<<32
}

func cutHex(s string) (digits string, ok bool) {
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		return s[2:], true
	}
	return s, false
}

// limits are the largest values of code, jt, jf and k.
var limits = [4]struct {
	field string
	max   uint64
}{{"code", 1<<16 - 1}, {"jt", 1<<8 - 1}, {"jf", 1<<8 - 1}, {"k", 1<<32 - 1}}

// parseFields reads "code jt jf k" separated by blanks; reason is empty on
// success. Only k may be negative, and only the code hex, and that when
// hexCode says so.
func parseFields(text string, hexCode bool) (ins bpf.Instruction, reason string) {
	fields := strings.Fields(text)
	if len(fields) != len(limits) {
		return ins, fmt.Sprintf("instruction %.60q has %d numbers: want code jt jf k", text, len(fields))
	}
	var values [4]uint64
	for n, limit := range limits {
		digits, base := fields[n], 10
		if hexCode && n == 0 {
			if hex, ok := cutHex(digits); ok {
				digits, base = hex, 16
			}
		}
		v, err := strconv.ParseUint(digits, base, 64)
		if k, ok := parseK(digits); err != nil && n == 3 && ok && digits[0] == '-' {
			v, err = uint64(k), nil
		}
		if err != nil || v > limit.max {
			return ins, fmt.Sprintf("%s is %.40q: want a decimal number from 0 to %d", limit.field, fields[n], limit.max)
		}
		values[n] = v
	}
	return instruction(values), ""
}

func instruction(v [4]uint64) bpf.Instruction {
	return bpf.Instruction{Code: uint16(v[0]), JT: uint8(v[1]), JF: uint8(v[2]), K: uint32(v[3])}
}

// parseCount reads the number of instructions that a form announces.
func parseCount(s string) (n int, reason string) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseUint(s, 10, 64)
	switch {
	case err != nil && strings.Trim(s, "0123456789") != "" || s == "":
		return 0, fmt.Sprintf("count %.40q: want the number of instructions in decimal", s)
	case err != nil || v > bpf.MaxInsns:
		return 0, tooLong(fmt.Sprintf("%.40s", s))
	case v == 0:
		return 0, "count 0: a program has at least one instruction"
	}
	return int(v), ""
}
