package imagefile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The lines of a disassembly. bpftool (prog dump jited ID opcodes) and the
// kernel's bpf_jit_disasm -o write an instruction and below it its bytes,
// objdump -d both on a line, bytes first; of ARM code objdump writes words.
//
//	bpf_prog_6deef7357e7b4530_f:
//	   0:	push   %rbp
//		55
//	   1:	48 89 e5             	mov    %rsp,%rbp
var (
	listingInsn   = pattern(`^\s*([0-9a-fA-F]{1,16}):\s+(\S.*)$`)
	listingBytes  = pattern(`^\s+([0-9a-fA-F]{2}(?:\s+[0-9a-fA-F]{2})*)\s*$`)
	listingName   = pattern(`^\s*(?:([0-9a-fA-F]{1,16}) (?:\+ )?<(.*)>|(\S+)):\s*$`)
	listingHeader = pattern(`bytes emitted from JIT compiler \(pass:(\d+), flen:(\d+)\)`)

	aByte = pattern(`^[0-9a-fA-F]{2}$`)
	aWord = pattern(`^[0-9a-fA-F]{8}$`)
)

// isListing reports whether a text has instructions with their offsets.
func isListing(text []byte) bool {
	for line := range bytes.Lines(text) {
		if listingInsn().Match(bytes.TrimRight(line, "\r\n")) {
			return true
		}
	}
	return false
}

// listed is a function of a listing, half read.
type listed struct {
	Entry
	base   uint64 // what the first instruction's number is: 0, or an address
	number uint64 // of the last instruction
	at     int    // its line
	bare   bool   // it has no bytes yet
	insns  int
	err    error
}

// ReadListing reads disassembled code that has its bytes beside the
// instructions, an image for each function, from bpftool, bpf_jit_disasm or
// objdump. Functions with a fault are errors; the others are returned all the
// same.
func ReadListing(file string, data []byte) ([]Entry, error) {
	r := listingReader{file: file}
	for line := range bytes.Lines(data) {
		r.line++
		r.read(string(bytes.TrimRight(line, "\r\n")))
	}
	r.end()
	var entries []Entry
	var errs []error
	for i, f := range r.functions {
		f.Number = i + 1
		if f.err == nil {
			entries = append(entries, f.Entry)
		} else if len(errs) < maxErrors {
			errs = append(errs, f.err)
		}
	}
	if len(r.functions) == 0 {
		errs = append(errs, &Error{file, 0, "there are no instructions in it"})
	}
	return entries, errors.Join(errs...)
}

type listingReader struct {
	file      string
	line      int
	functions []*listed
	now       *listed // nil between functions
	next      Entry   // what the lines in front of a function say of it
}

// bad notes the first fault of a function; it is in the line of the instruction
// that was read last.
func (r *listingReader) bad(format string, args ...any) {
	if f := r.now; f.err == nil {
		f.err = &Error{r.file, max(f.at, f.Line), fmt.Sprintf(format, args...)}
	}
}

func (r *listingReader) read(text string) {
	if m := listingInsn().FindStringSubmatch(text); m != nil {
		r.insn(m[1], m[2])
	} else if m := listingBytes().FindStringSubmatch(text); m != nil && r.now != nil && r.now.bare {
		r.now.bare = false
		r.add(strings.Fields(m[1]))
	} else if m := listingHeader().FindStringSubmatch(text); m != nil {
		r.end()
		r.next.Pass, _ = strconv.Atoi(m[1])
		r.next.Insns, _ = strconv.Atoi(m[2])
	} else if m := listingName().FindStringSubmatch(text); m != nil {
		r.end()
		r.next.Name = m[2] + m[3]
		digits, isAddress := strings.CutPrefix(m[3], "0x")
		if !isAddress {
			digits = m[1]
		}
		r.next.Printed, _ = strconv.ParseUint(digits, 16, 64)
	}
}

// insn begins an instruction, and a function with the first.
func (r *listingReader) insn(digits, rest string) {
	number, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return // 16 digits at most
	}
	if f := r.now; f != nil && number == 0 && f.insns > 0 {
		r.end()
	}
	if r.now == nil {
		f := &listed{Entry: r.next, base: number}
		f.File, f.Form, f.Line = r.file, Listing, r.line
		r.now, r.next = f, Entry{}
		r.functions = append(r.functions, f)
		switch {
		case isAddress(number):
			f.Printed = number
		case number != 0:
			r.bad("the function begins at %#x: lines before it are missing", number)
		}
	}
	f := r.now
	r.bytesOf(f)
	f.number, f.at, f.bare = number, r.line, true
	f.insns++
	if want := f.base + uint64(len(f.Code)); number != want {
		r.bad("the instruction is at %#x, behind the one before it is %#x: lines are missing", number, want)
	}
	fields := strings.Fields(rest)
	n := slices.IndexFunc(fields, func(s string) bool { return !aByte().MatchString(s) })
	switch {
	case n < 0:
		n = len(fields)
	case n == 0 && aWord().MatchString(fields[0]):
		n = 1
	}
	if n > 0 {
		f.bare = false
		r.add(fields[:n])
	}
}

// add adds the bytes, or the little-endian word, of an instruction.
func (r *listingReader) add(digits []string) {
	for _, text := range digits {
		b, _ := hex.DecodeString(text)
		if len(b) == 4 {
			b = binary.LittleEndian.AppendUint32(nil, binary.BigEndian.Uint32(b))
		}
		r.now.Code = append(r.now.Code, b...)
	}
	if len(r.now.Code) > MaxImage {
		r.bad("more than %d bytes", MaxImage)
		r.now.Code = r.now.Code[:MaxImage]
	}
}

// bytesOf notices an instruction that has got no bytes.
func (r *listingReader) bytesOf(f *listed) {
	if f.bare {
		r.bad("the instruction at %#x has no bytes: dump with the word opcodes (bpftool prog dump jited id N opcodes; bpf_jit_disasm -o), or into a file (file NAME)", f.number)
	}
}

// end ends a function.
func (r *listingReader) end() {
	if r.now != nil {
		r.bytesOf(r.now)
	}
	r.now = nil
}
