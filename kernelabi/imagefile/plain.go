package imagefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/kernelabi"
)

// ReadBinary takes the whole file as one image.
func ReadBinary(file string, data []byte) ([]Entry, error) {
	if len(data) == 0 || len(data) > MaxImage {
		return nil, &Error{file, 0, fmt.Sprintf("%d bytes: an image has 1 to %d", len(data), MaxImage)}
	}
	return []Entry{{File: file, Form: Binary, Code: data}}, nil
}

// ReadHex reads one image in hex digits, with or without blanks, commas, 0x or
// \x between the bytes; lines that begin with # are passed over.
func ReadHex(file string, data []byte) ([]Entry, error) {
	var code []byte
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := bytes.TrimSpace(line)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		for _, field := range bytes.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == ':' || r == '"' || r == ';' }) {
			field = bytes.ReplaceAll(bytes.TrimPrefix(field, []byte("0x")), []byte(`\x`), nil)
			var b kernelabi.HexBytes
			if err := b.UnmarshalText(field); err != nil {
				return nil, &Error{file, n, fmt.Sprintf("%.20q: %v: want the bytes of an image in hex", field, err)}
			}
			code = append(code, b...)
		}
		if len(code) > MaxImage {
			return nil, &Error{file, n, fmt.Sprintf("more than %d bytes", MaxImage)}
		}
	}
	if len(code) == 0 {
		return nil, &Error{file, 0, "there are no bytes in it"}
	}
	return []Entry{{File: file, Form: Hex, Line: 1, Code: code}}, nil
}

// ReadRecords reads JSON Lines of kernelabi.KernelImageRecord, refusals among
// them. Lines that are none are errors; the others are returned all the same.
func ReadRecords(file string, data []byte) ([]Entry, error) {
	var entries []Entry
	var errs []error
	n, number := 0, 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		number++
		rec := new(kernelabi.KernelImageRecord)
		if err := json.Unmarshal(line, rec); err != nil {
			if len(errs) < maxErrors {
				errs = append(errs, &Error{file, n, err.Error()})
			}
			continue
		}
		e := Entry{File: file, Line: n, Number: number, Form: Records, Name: rec.Name, Insns: rec.Flen, Pass: rec.Pass, Record: rec}
		if rec.Image != nil {
			e.Code = *rec.Image
		}
		if rec.Base != nil {
			e.Printed = uint64(*rec.Base)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 && len(errs) == 0 {
		errs = append(errs, &Error{file, 0, "there are no records in it"})
	}
	return entries, errors.Join(errs...)
}
