package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// CompileOptions say what a filter does beyond the rules of the policy, and in
// which order it asks. The zero value gives what libseccomp gives: the thread
// is killed for a foreign architecture and for an x32 call.
type CompileOptions struct {
	Layout    Layout    // "" is Ranges
	Histogram Histogram // how often each call is made; the zero value: nothing is known

	// BadArch is the return value for ABIs that the policy does not list.
	BadArch uint32

	// X32 says what happens to calls with X32Bit where the policy lists x86_64
	// and not x32. Number -1 has the bit too, but is no x32 call: a tracer sets
	// it to skip a call. No guard touches it. "" is X32BadArch.
	X32 X32

	// Enosys answers numbers above the largest that the policy names for an ABI
	// with ENOSYS, so that programs fall back to older calls. As in runc it has
	// no effect where the default is to allow, to log or to ask a tracer, and
	// none for an ABI without rules.
	Enosys bool
}

// X32 is a way to treat calls of the x32 ABI in a policy that does not list it.
type X32 string

const (
	X32BadArch X32 = "bad-arch" // as those of any other ABI that is not listed, as libseccomp does
	X32Enosys  X32 = "enosys"   // ENOSYS, as elastic's go-seccomp-bpf does
	X32Default X32 = "default"  // as calls without a rule: what a filter without a guard does
)

// Compiled is a filter with its origin.
type Compiled struct {
	Program bpf.Program
	Rules   []int  // for each pc the rule that it tests or answers for, an index into Policy.Rules; -1 if none or several
	Layout  Layout // which it is; never Best
}

// TooLongError is a policy that no program of a layout can hold.
type TooLongError struct {
	Layout Layout
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("layout %s needs more than the %d instructions that a filter may have: try another layout, or split the policy", e.Layout, bpf.MaxInsns)
}

const enosys = uint32(seccompdata.Errno) | uint32(seccompdata.ENOSYS)

// Compile makes a filter of a policy. Errors are *TooLongError, or name the
// rule or the option.
func Compile(p *Policy, o CompileOptions) (*Compiled, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if !slices.Contains([]X32{"", X32BadArch, X32Enosys, X32Default}, o.X32) {
		return nil, fmt.Errorf("x32 handling %q: want %s, %s or %s", o.X32, X32BadArch, X32Enosys, X32Default)
	}
	if o.Layout == Best {
		return best(p, o)
	}
	o.Layout = cmp.Or(o.Layout, Ranges)
	dispatch, ok := layouts[o.Layout]
	if !ok {
		return nil, fmt.Errorf("unknown layout %q: want %s", o.Layout, join(Layouts()))
	}
	b := newBuilder(p, o)
	root := b.ret(o.BadArch, none)
	for _, s := range slices.Backward(b.sections()) {
		root = b.branch(bpf.JeqK, s.arch, b.number(dispatch(b, s.zones)), root, true, none)
	}
	root = b.load(seccompdata.OffArch, root, none)
	prog, rules, ok := assemble(root)
	if !ok {
		return nil, &TooLongError{o.Layout}
	}
	return &Compiled{prog, rules, o.Layout}, nil
}
