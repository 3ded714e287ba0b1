package jit

import (
	"fmt"

	"github.com/kjit-project/kjit/kernelabi"
)

// Field is a struct field that code reads.
type Field uint8

const (
	Len Field = iota
	DataLen
	Data
	Protocol
	PktType
	Mark
	Rxhash
	Queue
	VlanTCI
	Dev
	Ifindex
	DevType
	CPU // ARM: of the processor, in struct thread_info
	numFields
)

var fieldNames = [numFields]string{
	Len:      kernelabi.SkbLen,
	DataLen:  kernelabi.SkbDataLen,
	Data:     kernelabi.SkbData,
	Protocol: kernelabi.SkbProtocol,
	PktType:  kernelabi.SkbPktType,
	Mark:     kernelabi.SkbMark,
	Rxhash:   kernelabi.SkbRxhash,
	Queue:    kernelabi.SkbQueue,
	VlanTCI:  kernelabi.SkbVlanTCI,
	Dev:      kernelabi.SkbDev,
	Ifindex:  kernelabi.DevIfindex,
	DevType:  kernelabi.DevType,
	CPU:      kernelabi.ThreadInfoCPU,
}

// String returns the field's name in a [kernelabi.Layout].
func (f Field) String() string { return fieldNames[f] }

// Symbol is a kernel symbol that code refers to, by its index among those that
// a compiler was made with.
type Symbol uint8

// kernel remembers what was looked up in a profile: emission asks for the same
// few things in every pass.
type kernel struct {
	fields  [numFields]found
	symbols []found
	names   []string // of the symbols
}

type found struct {
	value uint64
	known bool
}

func newKernel(symbols []string) kernel {
	return kernel{symbols: make([]found, len(symbols)), names: symbols}
}

func (k *kernel) forget() {
	clear(k.fields[:])
	clear(k.symbols)
}

// Offset returns a field's offset in its struct. If the profile lacks it, or it
// is above most, that fails the job, and the offset is 0.
func (j *Job) Offset(f Field, most int) int32 {
	slot := &j.kernel.fields[f]
	if !slot.known {
		off, err := j.Profile.Layout.Offset(f.String())
		if err == nil && (off < 0 || off > most) {
			err = fmt.Errorf("%s at offset %d: want 0 to %d", f, off, most)
		}
		if err != nil {
			j.Fail(err)
			return 0
		}
		*slot = found{uint64(off), true}
	}
	return int32(slot.value)
}

// Address returns the address of a symbol. If the profile lacks it, or it is
// above most, that fails the job, and the address is 0.
func (j *Job) Address(s Symbol, most uint64) uint64 {
	slot := &j.kernel.symbols[s]
	if !slot.known {
		name := j.kernel.names[s]
		addr, err := j.Profile.Symbol(name)
		if err == nil && addr > most {
			err = fmt.Errorf("%s at %#x: want an address up to %#x", name, addr, most)
		}
		if err != nil {
			j.Fail(err)
			return 0
		}
		*slot = found{addr, true}
	}
	return slot.value
}
