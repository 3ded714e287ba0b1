package guestcode

import (
	"encoding/binary"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler makes the image of a program: an emitter, or [Interpreter].
type Compiler interface {
	Compile(bpf.Program, bpf.Kind, *kernelabi.Profile) (*kernelabi.Image, error)
}

// Filter is one filter of a chain.
type Filter struct {
	// Program decides, in the code that JIT makes of it or, without a JIT, in
	// the interpreter. Without a program, Table decides.
	Program bpf.Program
	JIT     Compiler
	Table   *Table

	// Cached are the numbers below MaxCached that the kernel's result cache
	// allows without running any filter, down to this one: the bitmap that
	// belongs to the filter (Linux 5.11 on). Nil: there is no cache.
	Cached func(nr uint32) bool
}

// MaxCached is how many numbers a filter's bitmap has.
const MaxCached = 512

// Chain returns an image that does with a system call what a kernel does with
// the filters of a task, in order of attachment, and returns the value that
// decides. Nothing is put in front of it: what a kernel spends on the way to
// its filters is not in it.
//
// Errors are those of the compilers, and a chain without filters.
func Chain(p *kernelabi.Profile, filters []Filter) (*kernelabi.Image, error) {
	if len(filters) == 0 {
		return nil, fmt.Errorf("a chain needs a filter")
	}
	l, err := newLayout(p, "entry")
	if err != nil {
		return nil, err
	}
	shared := &sharedCode{layout: l}
	newest := -1
	for i, f := range filters {
		if newest, err = shared.filter(f, newest); err != nil {
			return nil, fmt.Errorf("filter %d: %w", i, err)
		}
	}
	return l.image("chain of seccomp filters", newest, newest), nil
}

// sharedCode places filters, and the code that several of them use only once.
type sharedCode struct {
	*layout
	interp, table int // offsets; 0: not placed yet
}

// code places a C file once.
func (s *sharedCode) code(at *int, name string) int {
	if *at == 0 {
		*at = s.add(s.target.code(name))
	}
	return *at
}

// filter adds a struct filter with what it refers to and returns its offset.
func (s *sharedCode) filter(f Filter, prev int) (int, error) {
	var run, program, env int
	var err error
	switch {
	case f.Table != nil:
		run = s.code(&s.table, "table")
		program, env = f.Table.place(s.layout)
	case f.JIT != nil:
		if run, err = s.compiled(f); err != nil {
			return 0, err
		}
	default:
		run = s.code(&s.interp, "interp")
		if program, env, err = s.interpreted(f.Program, bpf.Seccomp); err != nil {
			return 0, err
		}
	}
	var b []byte
	previous := uint64(0)
	if prev >= 0 {
		previous = s.address(prev)
	}
	b = s.appendAddress(b, previous)
	for _, off := range []int{run, program, env} {
		b = s.appendAddress(b, s.address(off))
	}
	return s.add(append(b, bitmap(f.Cached)...)), nil
}

// compiled adds the code that the filter's JIT makes.
func (s *sharedCode) compiled(f Filter) (int, error) {
	at := s.next()
	img, err := f.JIT.Compile(f.Program, bpf.Seccomp, s.profile.WithBase(s.address(at)))
	if err != nil {
		return 0, err
	}
	return s.add(img.Code), nil
}

// bitmap encodes the last two fields of struct filter.
func bitmap(cached func(nr uint32) bool) []byte {
	var words [MaxCached / 32]uint32
	size := uint32(0)
	if cached != nil {
		size = MaxCached
		for nr := range size {
			if cached(nr) {
				words[nr/32] |= 1 << (nr % 32)
			}
		}
	}
	b := binary.LittleEndian.AppendUint32(nil, size)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}
