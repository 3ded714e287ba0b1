package seccompdata

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// MaxPath is how many instructions the filters of a task may have together,
// counted as converted ones (Linux, MAX_INSNS_PER_PATH).
const MaxPath = (1 << 18) / 8

// pathOverhead is added for every filter that is installed already.
const pathOverhead = 4

// Chain is the filters of a task. Tasks share what they inherited: a Chain does
// not change, and attaching gives a new one. The zero Chain has no filter.
type Chain struct{ newest *link }

// link is one filter with those that were there before it.
type link struct {
	Attached
	before *link
	number int // from 0, oldest first
	path   int // insns of this and all before, with the overhead of each
}

// Attached is a filter in place.
type Attached struct {
	*Filter
	Log      bool // flag LOG: what it denies is logged
	Listener bool // flag NEW_LISTENER: somebody answers its USER_NOTIF
	Code     Code // what runs; nil: the interpreter
}

// AttachError is why a kernel does not take a filter. Check is set where it is
// the program's fault.
type AttachError struct {
	Errno  LinuxErrno
	Reason string
	Check  *bpf.CheckError
}

func (e *AttachError) Error() string { return e.Errno.String() + ": " + e.Reason }

func (e *AttachError) Unwrap() error {
	if e.Check == nil {
		return nil
	}
	return e.Check
}

// NewChain puts filters one over the other, the oldest first. Its only error is
// the *AttachError of the first that does not fit any more.
func NewChain(oldestFirst ...*Filter) (Chain, error) {
	var c Chain
	for i, f := range oldestFirst {
		next, err := c.Attach(Attached{Filter: f})
		if err != nil {
			return c, fmt.Errorf("filter %d: %w", i, err)
		}
		c = next
	}
	return c, nil
}

// Attach puts a filter over those of c. Its only error is an *AttachError with
// ENOMEM: the filters would have more than MaxPath instructions together.
func (c Chain) Attach(f Attached) (Chain, error) {
	used := c.Path()
	if used+f.Converted > MaxPath {
		return c, &AttachError{Errno: ENOMEM, Reason: fmt.Sprintf(
			"%d converted instructions and %d of the filters installed are more than %d", f.Converted, used, MaxPath)}
	}
	return Chain{&link{Attached: f, before: c.newest, number: c.Len(), path: used + f.Converted + pathOverhead}}, nil
}

// Path is what of MaxPath is used up: the converted length of every filter and
// 4 for each.
func (c Chain) Path() int {
	if c.newest == nil {
		return 0
	}
	return c.newest.path
}

// Depth returns how often a filter of the given converted length can be put
// over c.
func (c Chain) Depth(converted int) int {
	return max(0, MaxPath-c.Path()+pathOverhead) / (converted + pathOverhead)
}

// Len returns the number of filters.
func (c Chain) Len() int {
	if c.newest == nil {
		return 0
	}
	return c.newest.number + 1
}

// Filters returns the filters, the oldest first.
func (c Chain) Filters() []Attached {
	var out []Attached
	for l := c.newest; l != nil; l = l.before {
		out = append(out, l.Attached)
	}
	slices.Reverse(out)
	return out
}

// DescendsFrom reports whether c is the other chain, or was made from it by
// attaching. Filters that are equal but were attached apart are others.
func (c Chain) DescendsFrom(other Chain) bool {
	if other.newest == nil {
		return true
	}
	for l := c.newest; l != nil; l = l.before {
		if l == other.newest {
			return true
		}
	}
	return false
}

// Decision is what a chain says to a system call.
type Decision struct {
	Ret      uint32
	Filter   int       // the filter that decided, 0 is the oldest; -1: all allow, or nobody was asked
	PC       int       // where it decided; -1 with Filter -1
	Executed int       // instructions of all filters
	Verdicts []Verdict // of each filter, the oldest first; nil if nobody was asked

	// Exempt: the kernel lets the call pass whatever filters say. See [Exempt].
	Exempt bool
}

// Run asks all filters, the newest first: that is every one, whatever the others
// say. The strongest action wins, and of equal ones that of the newest filter.
func (c Chain) Run(call bpf.Input, k Kernel) Decision {
	d, _ := c.ask(call, k, func(a *Attached) (Verdict, error) { return a.Filter.Run(call), nil })
	return d
}

// ask runs all filters in the order of a kernel.
func (c Chain) ask(call bpf.Input, k Kernel, run func(*Attached) (Verdict, error)) (Decision, error) {
	d := Decision{Ret: uint32(Allow), Filter: -1, PC: -1}
	if exempted(call, k) {
		d.Exempt = true
		return d, nil
	}
	d.Verdicts = make([]Verdict, c.Len())
	for l := c.newest; l != nil; l = l.before {
		v, err := run(&l.Attached)
		if err != nil {
			return d, fmt.Errorf("filter %d: %w", l.number, err)
		}
		d.Verdicts[l.number] = v
		d.Executed += v.Executed
		d.take(l.number, v, k)
	}
	return d, nil
}

// take lets a verdict take the place of what was decided before.
func (d *Decision) take(filter int, v Verdict, k Kernel) {
	if Stronger(v.Ret, d.Ret, k) {
		d.Ret, d.Filter, d.PC = v.Ret, filter, v.PC
	}
}

// Exempt reports whether the kernel lets a call pass without asking filters: on
// x86_64 uretprobe since Linux 6.14 and uprobe since 6.18, which the kernel puts
// into programs itself.
func Exempt(arch, nr uint32, k Kernel) bool {
	if arch != ArchX86_64 {
		return false
	}
	return nr == 335 && k.AtLeast(6, 14) || nr == 336 && k.AtLeast(6, 18)
}

func exempted(call bpf.Input, k Kernel) bool {
	nr, _ := call.Load(OffNr, 4)
	arch, _ := call.Load(OffArch, 4)
	return Exempt(arch, nr, k)
}
