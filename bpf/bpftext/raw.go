package bpftext

import (
	"encoding/binary"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// insnSize is the size of struct sock_filter: code u16, jt u8, jf u8, k u32.
const insnSize = 8

func parseRaw(name string, data []byte) (*Listing, error) {
	return parseRawOrder(name, data, binary.LittleEndian)
}

func parseRawBE(name string, data []byte) (*Listing, error) {
	return parseRawOrder(name, data, binary.BigEndian)
}

func parseRawOrder(name string, data []byte, order binary.ByteOrder) (*Listing, error) {
	switch {
	case len(data) == 0 || len(data)%insnSize != 0:
		return nil, &Error{name, 0, fmt.Sprintf("%d bytes of binary data: want a struct sock_filter array, %d bytes each instruction", len(data), insnSize)}
	case len(data) > bpf.MaxInsns*insnSize:
		return nil, &Error{name, 0, tooLong(fmt.Sprint(len(data) / insnSize))}
	}
	prog := make(bpf.Program, len(data)/insnSize)
	for n := range prog {
		b := data[n*insnSize:]
		prog[n] = bpf.Instruction{Code: order.Uint16(b), JT: b[2], JF: b[3], K: order.Uint32(b[4:])}
	}
	return &Listing{Program: prog}, nil
}

// detectRaw finds the byte order: little endian, unless only big endian gives
// nothing but codes that exist.
func detectRaw(data []byte) Form {
	if !sensible(data, parseRaw) && sensible(data, parseRawBE) {
		return RawBE
	}
	return Raw
}

func sensible(data []byte, parse func(string, []byte) (*Listing, error)) bool {
	l, err := parse("", data)
	if err != nil {
		return false
	}
	for _, ins := range l.Program {
		if _, ok := asmByCode[ins.Code]; !ok {
			return false
		}
	}
	return true
}

func formatRaw(prog bpf.Program) ([]byte, error) {
	return appendRaw(prog, binary.LittleEndian), nil
}

func formatRawBE(prog bpf.Program) ([]byte, error) {
	return appendRaw(prog, binary.BigEndian), nil
}

func appendRaw(prog bpf.Program, order binary.AppendByteOrder) []byte {
	b := make([]byte, 0, len(prog)*insnSize)
	for _, ins := range prog {
		b = order.AppendUint16(b, ins.Code)
		b = append(b, ins.JT, ins.JF)
		b = order.AppendUint32(b, ins.K)
	}
	return b
}
