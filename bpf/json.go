package bpf

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// longest is the length of the longest instruction as JSON.
const longest = len("[65535,255,255,4294967295]")

// MarshalJSON writes [code, jt, jf, k], the form of every record file.
func (i Instruction) MarshalJSON() ([]byte, error) {
	return i.append(make([]byte, 0, longest)), nil
}

// UnmarshalJSON reads [code, jt, jf, k]; every number must fit its field.
func (i *Instruction) UnmarshalJSON(data []byte) error {
	if rest, ok := i.scan(data); ok && len(rest) == 0 {
		return nil
	}
	var fields []uint64
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("instruction %.40q: want [code, jt, jf, k]", data)
	}
	if len(fields) != 4 {
		return fmt.Errorf("instruction %.40q: want [code, jt, jf, k], got %d numbers", data, len(fields))
	}
	limits := [4]uint64{1<<16 - 1, 1<<8 - 1, 1<<8 - 1, 1<<32 - 1}
	names := [4]string{"code", "jt", "jf", "k"}
	for n, limit := range limits {
		if fields[n] > limit {
			return fmt.Errorf("instruction %.40q: %s = %d is above %d", data, names[n], fields[n], limit)
		}
	}
	*i = Instruction{uint16(fields[0]), uint8(fields[1]), uint8(fields[2]), uint32(fields[3])}
	return nil
}

// append appends i as MarshalJSON writes it.
func (i Instruction) append(b []byte) []byte {
	b = strconv.AppendUint(append(b, '['), uint64(i.Code), 10)
	b = strconv.AppendUint(append(b, ','), uint64(i.JT), 10)
	b = strconv.AppendUint(append(b, ','), uint64(i.JF), 10)
	b = strconv.AppendUint(append(b, ','), uint64(i.K), 10)
	return append(b, ']')
}

// scan reads an instruction as append writes it from the beginning of data, and
// returns what follows. What is written otherwise, or wrong, is left to the decoder.
func (i *Instruction) scan(data []byte) (rest []byte, ok bool) {
	var fields [4]uint64
	for n, limit := range [4]uint64{1<<16 - 1, 1<<8 - 1, 1<<8 - 1, 1<<32 - 1} {
		if len(data) < 2 || data[0] != "[,,,"[n] || data[1] == '0' && len(data) > 2 && data[2]-'0' < 10 {
			return nil, false
		}
		at := 1
		for ; at < len(data) && data[at]-'0' < 10; at++ {
			if fields[n] = fields[n]*10 + uint64(data[at]-'0'); fields[n] > limit {
				return nil, false
			}
		}
		if at == 1 {
			return nil, false
		}
		data = data[at:]
	}
	if len(data) == 0 || data[0] != ']' {
		return nil, false
	}
	*i = Instruction{uint16(fields[0]), uint8(fields[1]), uint8(fields[2]), uint32(fields[3])}
	return data[1:], true
}

// MarshalJSON writes the array of the instructions.
func (p Program) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	b := append(make([]byte, 0, 2+len(p)*longest/2), '[')
	for n, ins := range p {
		if n > 0 {
			b = append(b, ',')
		}
		b = ins.append(b)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads an array of instructions. It is here for speed: campaigns
// read and write thousands of programs.
func (p *Program) UnmarshalJSON(data []byte) error {
	if out, ok := scanProgram(data); ok {
		*p = out
		return nil
	}
	return json.Unmarshal(data, (*[]Instruction)(p))
}

// scanProgram reads a program as MarshalJSON writes it.
func scanProgram(data []byte) (p Program, ok bool) {
	p = make(Program, 0, len(data)/len("[0,0,0,0],")+1)
	for sep := byte('['); len(data) > 1 && data[0] == sep; sep = ',' {
		var ins Instruction
		if data, ok = ins.scan(data[1:]); !ok {
			return nil, false
		}
		p = append(p, ins)
	}
	return p, len(p) > 0 && string(data) == "]"
}
