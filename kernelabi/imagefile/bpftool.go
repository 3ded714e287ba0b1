package imagefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// bpftoolFunction is one function of `bpftool --json prog dump jited ...
// opcodes`. Its name is that of the kernel's symbol, or its address where the
// kernel gives none.
type bpftoolFunction struct {
	Name  string        `json:"name"`
	Insns []bpftoolInsn `json:"insns"`
}

type bpftoolInsn struct {
	PC      string   `json:"pc"`
	Opcodes []string `json:"opcodes"`
}

// ReadBpftool reads the JSON that `bpftool --json prog dump jited ID opcodes`
// writes, an image for each function. (The raw bytes, `bpftool prog dump jited
// ID file FILE`, are read by [ReadBinary].)
func ReadBpftool(file string, data []byte) ([]Entry, error) {
	bad := func(format string, args ...any) ([]Entry, error) {
		return nil, &Error{file, 0, fmt.Sprintf(format, args...)}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	var items []json.RawMessage
	if err := decoder.Decode(&items); err != nil {
		return bad("no dump of bpftool: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return bad("there is more behind the dump")
	}
	functions := make([]bpftoolFunction, len(items))
	if len(items) > 0 && !bytes.Contains(items[0], []byte(`"insns"`)) {
		// Older ones: the instructions of the only function.
		functions = make([]bpftoolFunction, 1)
		if err := json.Unmarshal(data, &functions[0].Insns); err != nil {
			return bad("no dump of bpftool: %v", err)
		}
	} else {
		for i, item := range items {
			if err := json.Unmarshal(item, &functions[i]); err != nil {
				return bad("function %d: %v", i, err)
			}
		}
	}
	if len(functions) == 0 {
		return bad("the dump has no functions")
	}
	var entries []Entry
	for i := range functions {
		f := &functions[i]
		code, err := f.code()
		if err != nil {
			return bad("function %d (%.80s): %v", i, f.Name, err)
		}
		e := Entry{File: file, Form: Bpftool, Name: f.Name, Code: code}
		if digits, ok := strings.CutPrefix(f.Name, "0x"); ok {
			e.Printed, _ = strconv.ParseUint(digits, 16, 64)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// code joins the bytes of the instructions.
func (f *bpftoolFunction) code() ([]byte, error) {
	var code []byte
	for i, ins := range f.Insns {
		pc, err := strconv.ParseUint(ins.PC, 0, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("instruction %d: pc %.20q is no offset", i, ins.PC)
		case len(ins.Opcodes) == 0:
			return nil, fmt.Errorf("the instruction at %s has no bytes: dump with the word opcodes (bpftool --json prog dump jited id N opcodes), or into a file (file NAME)", ins.PC)
		case pc != uint64(len(code)):
			return nil, fmt.Errorf("instruction %d is at %s, behind the one before it is %#x", i, ins.PC, len(code))
		}
		for _, text := range ins.Opcodes {
			b, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 8)
			if err != nil {
				return nil, fmt.Errorf("the instruction at %s: %.20q is no byte", ins.PC, text)
			}
			code = append(code, byte(b))
		}
		if len(code) > MaxImage {
			return nil, fmt.Errorf("more than %d bytes", MaxImage)
		}
	}
	if len(code) == 0 {
		return nil, fmt.Errorf("it has no instructions")
	}
	return code, nil
}
